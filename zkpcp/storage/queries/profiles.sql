-- name: profile
-- A profile namespace.
select context_id, namespace, generation, version, updated_ms, sealed
from profiles
where context_id = $1 and namespace = $2

-- name: profile_locked
-- The same, and nobody else changes it until this transaction ends.
select context_id, namespace, generation, version, updated_ms, sealed
from profiles
where context_id = $1 and namespace = $2
for update

-- name: first
-- Version 1; nothing is inserted when the namespace has content already.
insert into profiles (context_id, namespace, generation, version, updated_ms, sealed)
values ($1, $2, $3, $4, $5, $6)
on conflict do nothing

-- name: next
-- The version after $7; nothing changes when another writer was first.
update profiles
set generation = $3, version = $4, updated_ms = $5, sealed = $6
where context_id = $1 and namespace = $2 and version = $7

-- name: add_change
-- One entry of the change log (PROF-04); nothing is inserted when the version has its entry already.
insert into profile_changes (context_id, namespace, version, at_ms, principal, client, generation, sealed)
values ($1, $2, $3, $4, $5, $6, $7, $8)
on conflict do nothing

-- name: changes
-- The change log, newest first.
select context_id, namespace, version, at_ms, principal, client, generation, sealed
from profile_changes
where context_id = $1 and namespace = $2
order by version desc
limit $3

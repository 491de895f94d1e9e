-- name: first
-- Version 1; nothing is inserted when there is such a hand-off already.
insert into handoffs (context_id, handoff_id, generation, version, updated_ms, expires_ms, sealed)
values ($1, $2, $3, $4, $5, $6, $7)
on conflict do nothing

-- name: next
-- The version after $8; nothing changes when another writer was first.
update handoffs
set generation = $3, version = $4, updated_ms = $5, expires_ms = $6, sealed = $7
where context_id = $1 and handoff_id = $2 and version = $8

-- name: stored
-- What is about to be replaced, expired or not; nobody else changes it until this transaction ends.
select context_id, handoff_id, generation, version, updated_ms, expires_ms, sealed
from handoffs
where context_id = $1 and handoff_id = $2
for update

-- name: handoff
-- One hand-off.
select context_id, handoff_id, generation, version, updated_ms, expires_ms, sealed
from handoffs
where context_id = $1 and handoff_id = $2 and expires_ms > $3

-- name: handoff_locked
-- The same, and nobody else changes it until this transaction ends.
select context_id, handoff_id, generation, version, updated_ms, expires_ms, sealed
from handoffs
where context_id = $1 and handoff_id = $2 and expires_ms > $3
for update

-- name: handoffs
-- All of them, the last changed first. There are few: a context may not have many at once.
select context_id, handoff_id, generation, version, updated_ms, expires_ms, sealed
from handoffs
where context_id = $1 and expires_ms > $2
order by updated_ms desc, handoff_id

-- name: count
-- How many there are.
select count(*)
from handoffs
where context_id = $1

-- name: delete_expired
-- The end of what has expired.
-- erases: content past its end
delete from handoffs
where context_id = $1 and expires_ms <= $2
returning context_id, handoff_id, generation, version, updated_ms, expires_ms, sealed

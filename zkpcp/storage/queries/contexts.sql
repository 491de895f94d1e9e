-- name: add
-- A new context. Nothing is inserted when the handle is taken.
insert into contexts (context_id, handle, kind, controller, controller_type, created_ms, locked_ms)
values ($1, $2, $3, $4, $5, $6, $7)
on conflict do nothing

-- name: add_audit_head
-- The start of the context's audit chain; the row that later serializes its writers.
insert into audit_heads (context_id, seq, hash)
values ($1, $2, $3)

-- name: by_handle
-- The way from the public name to the context id; the one look-up that cannot start from the id. One row for each enabled
-- extension, or a single one without.
select c.context_id, c.handle, c.kind, c.controller, c.controller_type, c.created_ms, c.locked_ms, r.features,
       e.extension
from contexts c
left join rosters r on r.context_id = c.context_id
left join enabled_extensions e on e.context_id = c.context_id
where c.handle = $1
order by e.extension

-- name: locked_ms
-- When the context was locked.
select locked_ms
from contexts
where context_id = $1

-- name: lock
-- Nothing changes when it is locked already.
update contexts
set locked_ms = $2
where context_id = $1 and locked_ms is null

-- name: unlock
-- Nothing changes when it is open.
update contexts
set locked_ms = null
where context_id = $1 and locked_ms is not null

-- name: enable_extension
-- Nothing is inserted when it is enabled already.
insert into enabled_extensions (context_id, extension, enabled_ms)
values ($1, $2, $3)
on conflict do nothing

-- name: disable_extension
-- Its data stays.
delete from enabled_extensions
where context_id = $1 and extension = $2

-- name: handles
-- Every handle, for the command line and the root page of a single-context server.
select handle
from contexts
order by handle

-- name: roster
-- The current roster of a context.
select context_id, version, body, signature, succession
from rosters
where context_id = $1

-- name: roster_locked
-- The same, and nobody else changes it until this transaction ends.
select context_id, version, body, signature, succession
from rosters
where context_id = $1
for update

-- name: first_roster
-- Version 1; nothing is inserted when there is a roster already.
insert into rosters (context_id, version, epoch, body, signature, features)
values ($1, $2, $3, $4, $5, $6)
on conflict do nothing

-- name: next_roster
-- The version after $7; nothing changes when another writer was first.
update rosters
set version = $2, epoch = $3, body = $4, signature = $5, features = $6
where context_id = $1 and version = $7

-- name: set_succession
-- How the owner followed the earlier ones, one step more.
update rosters
set succession = $2
where context_id = $1

-- name: set_controller
-- Control was handed over, by the word of both.
update contexts
set controller = $2
where context_id = $1

-- name: handover
-- Control that is offered to somebody.
select context_id, principal, epoch, created_ms, expires_ms, offered, sealed, signature
from handovers
where context_id = $1

-- name: put_handover
-- An offer, in place of an earlier one.
insert into handovers (context_id, principal, epoch, created_ms, expires_ms, offered, sealed, signature)
values ($1, $2, $3, $4, $5, $6, $7, $8)
on conflict (context_id) do update
set principal = $2, epoch = $3, created_ms = $4, expires_ms = $5, offered = $6, sealed = $7, signature = $8

-- name: delete_handover
-- erases: the context root sealed to whom control was offered
-- The end of an offer.
delete from handovers
where context_id = $1

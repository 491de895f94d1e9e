-- name: add
-- A new proposal.
insert into proposals
    (context_id, proposal_id, slot, generation, grant_id, principal, state, created_ms, expires_ms, sealed, signature)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
on conflict do nothing

-- name: replace
-- erases: the proposal as it was sealed before
-- The same proposal sealed anew.
update proposals
set slot = $3, generation = $4, grant_id = $5, principal = $6, state = $7, created_ms = $8, expires_ms = $9,
    sealed = $10, signature = $11
where context_id = $1 and proposal_id = $2

-- name: stored
-- What is about to be replaced; nobody else changes it until this transaction ends.
select context_id, proposal_id, slot, generation, grant_id, principal, state, created_ms, expires_ms, sealed, signature
from proposals
where context_id = $1 and proposal_id = $2
for update

-- name: proposals
-- The newest first, from $7 on: those in the reviewer's slots $4, and those of grant $5 in its own slots $6.
select context_id, proposal_id, slot, generation, grant_id, principal, state, created_ms, expires_ms, sealed, signature
from proposals
where context_id = $1 and state = $2 and expires_ms > $3
  and (slot = any($4) or (grant_id = $5 and slot = any($6)))
  and (created_ms < $7 or (created_ms = $7 and proposal_id < $8))
order by created_ms desc, proposal_id desc
limit $9

-- name: proposal
-- One of them.
select context_id, proposal_id, slot, generation, grant_id, principal, state, created_ms, expires_ms, sealed, signature
from proposals
where context_id = $1 and proposal_id = $2 and expires_ms > $3 and slot = any($4)

-- name: proposal_locked
-- The same, and nobody else changes it until this transaction ends.
select context_id, proposal_id, slot, generation, grant_id, principal, state, created_ms, expires_ms, sealed, signature
from proposals
where context_id = $1 and proposal_id = $2 and expires_ms > $3 and slot = any($4)
for update

-- name: waiting
-- How many wait.
select count(*)
from proposals
where context_id = $1 and state = 'proposed'

-- name: delete
-- erases: a proposal that became a page
-- The end of one.
delete from proposals
where context_id = $1 and proposal_id = $2
returning context_id, proposal_id, slot, generation, grant_id, principal, state, created_ms, expires_ms, sealed, signature

-- name: delete_expired
-- erases: content past its end
-- The end of what has waited, or lain rejected, for too long.
delete from proposals
where context_id = $1 and expires_ms <= $2
returning context_id, proposal_id, slot, generation, grant_id, principal, state, created_ms, expires_ms, sealed, signature

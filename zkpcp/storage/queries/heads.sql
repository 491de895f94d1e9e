-- name: turn
-- The heads of some slots; whoever changes one waits here for their turn. How many remnants wait for it comes along.
select t.context_id, t.slot, t.generation, t.sealed,
       (select count(*) from head_remnants r
        where r.context_id = t.context_id and r.slot = t.slot and r.generation = t.generation)
from slot_heads t
where t.context_id = $1 and t.slot = any($2)
order by t.slot, t.generation
for update

-- name: heads
-- All of them, to check.
select t.context_id, t.slot, t.generation, t.sealed,
       (select count(*) from head_remnants r
        where r.context_id = t.context_id and r.slot = t.slot and r.generation = t.generation)
from slot_heads t
where t.context_id = $1
order by t.slot, t.generation

-- name: put
-- A head, new or in place of the one before.
insert into slot_heads (context_id, slot, generation, sealed)
values ($1, $2, $3, $4)
on conflict (context_id, slot, generation) do update set sealed = excluded.sealed

-- name: end
-- erases: heads under earlier keys
-- Nothing is counted in them any more.
delete from slot_heads
where context_id = $1 and generation < $2

-- name: end_remnants
-- What was to be taken off them.
delete from head_remnants
where context_id = $1 and generation < $2

-- name: leave
-- A row that is gone and has not been taken off the sum yet.
insert into head_remnants (context_id, slot, generation, kind, object_id, version, expires_ms, until_ms, digest)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
on conflict do nothing

-- name: remnants
-- Those that wait for some slots.
select slot, generation, kind, object_id, version, expires_ms, until_ms, digest
from head_remnants
where context_id = $1 and slot = any($2)
order by slot, generation, kind, object_id, version

-- name: forget
-- One that was taken off.
delete from head_remnants
where context_id = $1 and slot = $2 and generation = $3 and kind = $4 and object_id = $5 and version = $6

-- name: forget_all
-- Sums that are made anew have nothing to be taken off.
delete from head_remnants
where context_id = $1

-- name: versions
-- At which version pages are, expired ones too.
select page_id, version
from pages
where context_id = $1 and page_id = any($2)

-- name: rows_pages
-- What is counted, whether it has expired or not.
select context_id, page_id, slot, generation, version, review_state, updated_ms, expires_ms, sealed, head, terms
from pages
where context_id = $1
order by page_id
limit $2 offset $3

-- name: rows_page_versions
-- The same of earlier versions, with when each was replaced.
select context_id, page_id, slot, generation, version, review_state, updated_ms, expires_ms, sealed, head, terms,
       until_ms
from page_versions
where context_id = $1
order by page_id, version
limit $2 offset $3

-- name: rows_profiles
-- The same of profiles.
select context_id, namespace, generation, version, updated_ms, sealed
from profiles
where context_id = $1
order by namespace
limit $2 offset $3

-- name: rows_profile_changes
-- The same of their change logs.
select context_id, namespace, version, at_ms, principal, client, generation, sealed
from profile_changes
where context_id = $1
order by namespace, version
limit $2 offset $3

-- name: rows_handoffs
-- The same of hand-offs.
select context_id, handoff_id, generation, version, updated_ms, expires_ms, sealed
from handoffs
where context_id = $1
order by handoff_id
limit $2 offset $3

-- name: rows_partitions
-- The same of names of partitions.
select context_id, partition_id, generation, version, updated_ms, sealed
from partitions
where context_id = $1
order by partition_id
limit $2 offset $3

-- name: rows_proposals
-- The same of proposals.
select context_id, proposal_id, slot, generation, grant_id, principal, state, created_ms, expires_ms, sealed, signature
from proposals
where context_id = $1
order by proposal_id
limit $2 offset $3

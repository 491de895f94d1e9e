-- name: partitions
-- The sealed names of those partitions that the caller may see.
select context_id, partition_id, generation, version, updated_ms, sealed
from partitions
where context_id = $1 and partition_id = any($2)
order by partition_id

-- name: stored
-- What is about to be replaced; nobody else changes it until this transaction ends.
select context_id, partition_id, generation, version, updated_ms, sealed
from partitions
where context_id = $1 and partition_id = $2
for update

-- name: first
-- A new partition; nothing is inserted when the id is taken.
insert into partitions (context_id, partition_id, generation, version, updated_ms, sealed)
values ($1, $2, $3, $4, $5, $6)
on conflict do nothing

-- name: next
-- The version after $7; nothing changes when another writer was first.
update partitions
set generation = $3, version = $4, updated_ms = $5, sealed = $6
where context_id = $1 and partition_id = $2 and version = $7

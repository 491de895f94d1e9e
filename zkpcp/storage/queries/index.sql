-- name: slot_locked
-- The index of one slot; whoever writes to it waits here for their turn.
select context_id, slot, generation, segments
from index_slots
where context_id = $1 and slot = $2
for update

-- name: add_slot
-- An empty index; of two who make it at once, one does.
insert into index_slots (context_id, slot, generation, segments)
values ($1, $2, $3, 0)
on conflict do nothing

-- name: set_slot
-- The generation of its keys, and how many segments there are.
update index_slots
set generation = $3, segments = $4
where context_id = $1 and slot = $2

-- name: slots
-- Which of the caller's slots have an index.
select context_id, slot, generation, segments
from index_slots
where context_id = $1 and slot = any($2)

-- name: parts
-- Some parts of a slot's index.
select context_id, slot, part, stamp, sealed
from index_parts
where context_id = $1 and slot = $2 and part = any($3)

-- name: put
-- A part, new or in place of the one before.
insert into index_parts (context_id, slot, part, stamp, sealed)
values ($1, $2, $3, $4, $5)
on conflict (context_id, slot, part) do update set stamp = excluded.stamp, sealed = excluded.sealed

-- name: drop
-- Parts that were merged into others.
delete from index_parts
where context_id = $1 and slot = $2 and part = any($3)

-- name: clear_parts
-- All of a slot's index, to be made again.
delete from index_parts
where context_id = $1 and slot = $2

-- name: clear_places
-- Where its pages were.
delete from index_places
where context_id = $1 and slot = $2

-- name: place
-- Where in the index a page is.
select slot, segment, number
from index_places
where context_id = $1 and page_id = $2

-- name: set_place
-- Where a page is from now on.
insert into index_places (context_id, page_id, slot, segment, number)
values ($1, $2, $3, $4, $5)
on conflict (context_id, page_id) do update set slot = excluded.slot, segment = excluded.segment, number = excluded.number

-- name: forget_place
-- A page that the index has no more.
delete from index_places
where context_id = $1 and page_id = $2

-- name: claim_tag
-- Takes a path. Nothing is inserted when a page or inbox item is there already (MEM-02, MEM-08).
insert into path_tags (context_id, generation, tag, page_id)
values ($1, $2, $3, $4)
on conflict do nothing

-- name: add
-- A new page; nothing is inserted when the id is taken.
insert into pages
    (context_id, page_id, slot, generation, version, review_state, updated_ms, expires_ms, sealed, head, terms)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
on conflict do nothing

-- name: replace
-- The version after $12; nothing changes when another writer was first.
update pages
set slot = $3, generation = $4, version = $5, review_state = $6, updated_ms = $7, expires_ms = $8,
    sealed = $9, head = $10, terms = $11
where context_id = $1 and page_id = $2 and version = $12

-- name: by_tag
-- Who sits at a path, whoever may read it.
select page_id
from path_tags
where context_id = $1 and generation = $2 and tag = $3

-- name: page
-- A page, if it is in one of the caller's slots and has not expired.
select context_id, page_id, slot, generation, version, review_state, updated_ms, expires_ms, sealed, head, terms
from pages
where context_id = $1 and page_id = $2 and slot = any($3) and (expires_ms is null or expires_ms > $4)

-- name: page_locked
-- The same, and nobody else changes it until this transaction ends.
select context_id, page_id, slot, generation, version, review_state, updated_ms, expires_ms, sealed, head, terms
from pages
where context_id = $1 and page_id = $2 and slot = any($3) and (expires_ms is null or expires_ms > $4)
for update

-- name: pages
-- Several pages at once, under the same filter.
select context_id, page_id, slot, generation, version, review_state, updated_ms, expires_ms, sealed, head, terms
from pages
where context_id = $1 and page_id = any($2) and slot = any($3) and (expires_ms is null or expires_ms > $4)
order by page_id

-- name: heads
-- What a listing opens.
select page_id, slot, generation, version, review_state, updated_ms, expires_ms, head
from pages
where context_id = $1 and slot = any($2) and review_state = 'approved' and (expires_ms is null or expires_ms > $3)
order by page_id

-- name: terms
-- What a search scans.
select page_id, slot, generation, version, review_state, updated_ms, expires_ms, terms
from pages
where context_id = $1 and slot = any($2) and review_state = 'approved' and (expires_ms is null or expires_ms > $3)
order by page_id

-- name: has_others
-- Whether a slot has a page besides this one.
select page_id
from pages
where context_id = $1 and slot = $2 and page_id <> $3 and (expires_ms is null or expires_ms > $4)
limit 1

-- name: tally
-- How many pages there are in each slot and when they were written, to hold against its search index.
select slot, count(*), cast(sum(updated_ms % 4294967296) as bigint)
from pages
where context_id = $1 and slot = any($2) and review_state = 'approved' and (expires_ms is null or expires_ms > $3)
group by slot

-- name: forget_places
-- Where pages were in the search index that are gone.
delete from index_places
where context_id = $1 and page_id = any($2)

-- name: count
-- The number of pages, for limits.
select count(*)
from pages
where context_id = $1

-- name: count_inbox
-- The number of pages in quarantine, which become pages and so count too.
select count(*)
from inbox
where context_id = $1

-- name: add_to_inbox
-- A page in quarantine; nothing is inserted when the id is taken.
insert into inbox (context_id, page_id, slot, generation, grant_id, updated_ms, expires_ms, sealed, signature)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
on conflict do nothing

-- name: inbox
-- The oldest items waiting for a caller who holds their slot.
select context_id, page_id, slot, generation, grant_id, updated_ms, expires_ms, sealed, signature
from inbox
where context_id = $1 and slot = any($2)
order by updated_ms, page_id
limit $3

-- name: leave_inbox
-- Takes an item out of quarantine; of many who try, one deletes the row.
delete from inbox
where context_id = $1 and page_id = $2

-- name: free_tags
-- Gives back the paths of pages and items that are gone; a page that is there keeps its own, so that throwing away an
-- item which bears a page's id takes nothing from the page.
delete from path_tags
where context_id = $1 and page_id = any($2)
  and not exists (
    select 1 from pages where pages.context_id = path_tags.context_id and pages.page_id = path_tags.page_id
  )

-- name: delete_expired_pages
-- erases: pages past their end
-- Names what it deletes, so that their paths become free and their histories go (ERA-08).
delete from pages
where context_id = $1 and expires_ms <= $2
returning context_id, page_id, slot, generation, version, review_state, updated_ms, expires_ms, sealed, head, terms

-- name: delete_expired_inbox
-- erases: inbox items past their end
-- The same for the inbox.
delete from inbox
where context_id = $1 and expires_ms <= $2
returning page_id

-- name: take_page
-- A page on its way to the deleted ones; nothing when another writer was first.
delete from pages
where context_id = $1 and page_id = $2 and version = $3
returning context_id, page_id, slot, generation, version, review_state, updated_ms, expires_ms, sealed, head, terms

-- name: set_aside
-- A deleted page, as it was: its owner can still have it back.
insert into deleted_pages
    (context_id, page_id, slot, generation, version, review_state, updated_ms, expires_ms, sealed, head, terms,
     deleted_ms, purge_ms)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)

-- name: deleted
-- What can still be recovered, the last deleted first.
select page_id, slot, generation, version, review_state, updated_ms, expires_ms, head, deleted_ms, purge_ms
from deleted_pages
where context_id = $1 and slot = any($2) and purge_ms > $3
order by deleted_ms desc, page_id
limit $4

-- name: deleted_page
-- One of them to recover; nobody else touches it until this transaction ends.
select context_id, page_id, slot, generation, version, review_state, updated_ms, expires_ms, sealed, head, terms
from deleted_pages
where context_id = $1 and page_id = $2 and slot = any($3) and purge_ms > $4
for update

-- name: take_deleted
-- A deleted page on its way back; of many who try, one gets it.
delete from deleted_pages
where context_id = $1 and page_id = $2
returning context_id, page_id, slot, generation, version, review_state, updated_ms, expires_ms, sealed, head, terms,
    deleted_ms

-- name: release_tag
-- Gives one path back that was claimed in vain.
delete from path_tags
where context_id = $1 and generation = $2 and tag = $3

-- name: purge_deleted
-- erases: deleted pages whose time to be recovered is over
-- Their paths were free from the moment they were deleted; their histories go now.
delete from deleted_pages
where context_id = $1 and purge_ms <= $2
returning page_id, slot, deleted_ms

-- name: deleted_size
-- How many deleted pages there are, and their sealed bytes.
select count(*), coalesce(sum(length(sealed) + length(head) + length(terms)), 0)
from deleted_pages
where context_id = $1

-- name: first_deleted
-- Those that make room first, with their sealed bytes.
select page_id, length(sealed) + length(head) + length(terms)
from deleted_pages
where context_id = $1
order by deleted_ms, page_id desc
limit $2

-- name: purge_these
-- erases: deleted pages for which there is no room
-- Their paths were free from the moment they were deleted; their histories go now.
delete from deleted_pages
where context_id = $1 and page_id = any($2)
returning page_id, slot, deleted_ms

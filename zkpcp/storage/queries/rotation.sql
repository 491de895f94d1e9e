-- name: add_link
-- The way from a sub key to the one before it.
insert into key_links (context_id, slot, generation, name, sealed)
values ($1, $2, $3, $4, $5)

-- name: links
-- Every link there is; only while the keys are being changed.
select context_id, slot, generation, name, sealed
from key_links
where context_id = $1
order by slot, generation, name

-- name: links_of
-- Those of some slots.
select context_id, slot, generation, name, sealed
from key_links
where context_id = $1 and slot = any($2)
order by slot, generation, name

-- name: namespaces
-- Profile namespaces with content.
select namespace
from profiles
where context_id = $1
order by namespace

-- name: untagged
-- Pages whose path has no tag of generation $2 yet.
select t.page_id, t.slot, t.generation, t.version, t.review_state, t.updated_ms, t.expires_ms, t.head
from pages t
where t.context_id = $1
  and not exists (
    select 1 from path_tags g
    where g.context_id = t.context_id and g.page_id = t.page_id and g.generation = $2
  )
order by t.page_id
limit $3 offset $4

-- name: end_links
-- erases: the ways to earlier keys
-- Nothing is sealed under them any more.
delete from key_links
where context_id = $1 and generation < $2

-- name: end_tags
-- erases: path tags of earlier keys
-- Every path has its tag of the live generation by now.
delete from path_tags
where context_id = $1 and generation < $2

-- name: left
-- How many rows are still of an earlier generation, by kind.
select 'pages', count(*) from pages where context_id = $1 and generation < $2
union all
select 'page_versions', count(*) from page_versions where context_id = $1 and generation < $2
union all
select 'deleted_pages', count(*) from deleted_pages where context_id = $1 and generation < $2
union all
select 'profiles', count(*) from profiles where context_id = $1 and generation < $2
union all
select 'profile_changes', count(*) from profile_changes where context_id = $1 and generation < $2
union all
select 'handoffs', count(*) from handoffs where context_id = $1 and generation < $2
union all
select 'partitions', count(*) from partitions where context_id = $1 and generation < $2
union all
select 'proposals', count(*) from proposals where context_id = $1 and generation < $2
union all
select 'index', count(*) from index_slots where context_id = $1 and generation < $2
union all
select 'inbox', count(*) from inbox where context_id = $1 and generation < $2
union all
select 'path_tags', count(*) from pages t
where t.context_id = $1
  and not exists (
    select 1 from path_tags g
    where g.context_id = t.context_id and g.page_id = t.page_id and g.generation = $2
  )

-- name: behind_pages
-- The next pages to seal anew.
select context_id, page_id, slot, generation, version, review_state, updated_ms, expires_ms, sealed, head, terms
from pages
where context_id = $1 and generation < $2
order by page_id
limit $3 offset $4

-- name: reseal_pages
-- erases: what was sealed under earlier keys
-- One of them under the live keys, unless somebody changed it first.
update pages
set generation = $5, sealed = $6, head = $7, terms = $8
where context_id = $1 and page_id = $2 and version = $3 and generation = $4
returning generation

-- name: behind_page_versions
-- The next earlier versions to seal anew.
select context_id, page_id, slot, generation, version, review_state, updated_ms, expires_ms, sealed, head, terms
from page_versions
where context_id = $1 and generation < $2
order by page_id, version
limit $3 offset $4

-- name: reseal_page_versions
-- erases: what was sealed under earlier keys
-- One of them under the live keys, unless somebody changed it first.
update page_versions
set generation = $5, sealed = $6, head = $7, terms = $8
where context_id = $1 and page_id = $2 and version = $3 and generation = $4
returning until_ms

-- name: behind_deleted_pages
-- The next deleted pages to seal anew.
select context_id, page_id, slot, generation, version, review_state, updated_ms, expires_ms, sealed, head, terms
from deleted_pages
where context_id = $1 and generation < $2
order by page_id
limit $3 offset $4

-- name: reseal_deleted_pages
-- erases: what was sealed under earlier keys
-- One of them under the live keys, unless somebody changed it first.
update deleted_pages
set generation = $5, sealed = $6, head = $7, terms = $8
where context_id = $1 and page_id = $2 and version = $3 and generation = $4
returning generation

-- name: behind_profiles
-- The next profiles to seal anew.
select context_id, namespace, generation, version, updated_ms, sealed
from profiles
where context_id = $1 and generation < $2
order by namespace
limit $3 offset $4

-- name: reseal_profiles
-- erases: what was sealed under earlier keys
-- One of them under the live keys, unless somebody changed it first.
update profiles
set generation = $5, sealed = $6
where context_id = $1 and namespace = $2 and version = $3 and generation = $4
returning generation

-- name: behind_profile_changes
-- The next entries of change logs to seal anew.
select context_id, namespace, version, at_ms, principal, client, generation, sealed
from profile_changes
where context_id = $1 and generation < $2
order by namespace, version
limit $3 offset $4

-- name: reseal_profile_changes
-- erases: what was sealed under earlier keys
-- One of them under the live keys, unless somebody changed it first.
update profile_changes
set generation = $5, sealed = $6
where context_id = $1 and namespace = $2 and version = $3 and generation = $4
returning generation

-- name: behind_handoffs
-- The next hand-offs to seal anew.
select context_id, handoff_id, generation, version, updated_ms, expires_ms, sealed
from handoffs
where context_id = $1 and generation < $2
order by handoff_id
limit $3 offset $4

-- name: reseal_handoffs
-- erases: what was sealed under earlier keys
-- One of them under the live keys, unless somebody changed it first.
update handoffs
set generation = $5, sealed = $6
where context_id = $1 and handoff_id = $2 and version = $3 and generation = $4
returning generation

-- name: behind_partitions
-- The next names of partitions to seal anew.
select context_id, partition_id, generation, version, updated_ms, sealed
from partitions
where context_id = $1 and generation < $2
order by partition_id
limit $3 offset $4

-- name: reseal_partitions
-- erases: what was sealed under earlier keys
-- One of them under the live keys, unless somebody changed it first.
update partitions
set generation = $5, sealed = $6
where context_id = $1 and partition_id = $2 and version = $3 and generation = $4
returning generation

-- name: behind_proposals
-- The next proposals to seal anew.
select context_id, proposal_id, slot, generation, grant_id, principal, state, created_ms, expires_ms, sealed, signature
from proposals
where context_id = $1 and generation < $2
order by proposal_id
limit $3 offset $4

-- name: reseal_proposals
-- erases: what was sealed under earlier keys
-- One of them under the live keys, unless somebody changed it first.
update proposals
set generation = $4, sealed = $5
where context_id = $1 and proposal_id = $2 and generation = $3
returning generation

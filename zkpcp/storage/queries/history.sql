-- name: keep.postgres
-- The stored version of a page on its way to being replaced; nothing when another writer was first.
insert into page_versions
    (context_id, page_id, version, slot, generation, review_state, updated_ms, until_ms, expires_ms,
     head, terms, sealed)
select context_id, page_id, version, slot, generation, review_state, updated_ms, cast($4 as bigint), expires_ms,
       head, terms, sealed
from pages
where context_id = $1 and page_id = $2 and version = $3
for update
returning context_id, page_id, slot, generation, version, review_state, updated_ms, expires_ms, sealed, head, terms

-- name: keep.sqlite
-- The stored version of a page on its way to being replaced; nothing when another writer was first.
insert into page_versions
    (context_id, page_id, version, slot, generation, review_state, updated_ms, until_ms, expires_ms,
     head, terms, sealed)
select context_id, page_id, version, slot, generation, review_state, updated_ms, cast($4 as bigint), expires_ms,
       head, terms, sealed
from pages
where context_id = $1 and page_id = $2 and version = $3
returning context_id, page_id, slot, generation, version, review_state, updated_ms, expires_ms, sealed, head, terms

-- name: terms_as_of
-- What a search as of $4 scans: of every page that is open now ($2, $3), the version of then, if that is open too.
select t.page_id, t.slot, t.generation, t.version, t.review_state, t.updated_ms, t.expires_ms, t.terms
from pages t
where t.context_id = $1 and t.slot = any($2) and t.review_state = 'approved'
  and (t.expires_ms is null or t.expires_ms > $3) and t.updated_ms <= $4
  and not exists (
    select 1 from page_absences a
    where a.context_id = t.context_id and a.page_id = t.page_id and a.from_ms <= $4 and a.until_ms > $4
  )
union all
select v.page_id, v.slot, v.generation, v.version, v.review_state, v.updated_ms, v.expires_ms, v.terms
from page_versions v join pages t on t.context_id = v.context_id and t.page_id = v.page_id
where t.context_id = $1 and t.slot = any($2) and t.review_state = 'approved'
  and (t.expires_ms is null or t.expires_ms > $3)
  and v.context_id = $1 and v.slot = any($2) and v.review_state = 'approved'
  and (v.expires_ms is null or v.expires_ms > $3) and v.updated_ms <= $4 and v.until_ms > $4
  and not exists (
    select 1 from page_absences a
    where a.context_id = t.context_id and a.page_id = t.page_id and a.from_ms <= $4 and a.until_ms > $4
  )
order by 1
limit $5

-- name: heads_as_of
-- The heads of the same versions.
select t.page_id, t.slot, t.generation, t.version, t.review_state, t.updated_ms, t.expires_ms, t.head
from pages t
where t.context_id = $1 and t.slot = any($2) and t.review_state = 'approved'
  and (t.expires_ms is null or t.expires_ms > $3) and t.updated_ms <= $4
  and not exists (
    select 1 from page_absences a
    where a.context_id = t.context_id and a.page_id = t.page_id and a.from_ms <= $4 and a.until_ms > $4
  )
union all
select v.page_id, v.slot, v.generation, v.version, v.review_state, v.updated_ms, v.expires_ms, v.head
from page_versions v join pages t on t.context_id = v.context_id and t.page_id = v.page_id
where t.context_id = $1 and t.slot = any($2) and t.review_state = 'approved'
  and (t.expires_ms is null or t.expires_ms > $3)
  and v.context_id = $1 and v.slot = any($2) and v.review_state = 'approved'
  and (v.expires_ms is null or v.expires_ms > $3) and v.updated_ms <= $4 and v.until_ms > $4
  and not exists (
    select 1 from page_absences a
    where a.context_id = t.context_id and a.page_id = t.page_id and a.from_ms <= $4 and a.until_ms > $4
  )
order by 1
limit $5

-- name: pages_as_of
-- Some of the same versions ($5) as a whole.
select t.context_id, t.page_id, t.slot, t.generation, t.version, t.review_state, t.updated_ms, t.expires_ms,
       t.sealed, t.head, t.terms
from pages t
where t.context_id = $1 and t.slot = any($2) and t.review_state = 'approved'
  and (t.expires_ms is null or t.expires_ms > $3) and t.updated_ms <= $4 and t.page_id = any($5)
  and not exists (
    select 1 from page_absences a
    where a.context_id = t.context_id and a.page_id = t.page_id and a.from_ms <= $4 and a.until_ms > $4
  )
union all
select v.context_id, v.page_id, v.slot, v.generation, v.version, v.review_state, v.updated_ms, v.expires_ms,
       v.sealed, v.head, v.terms
from page_versions v join pages t on t.context_id = v.context_id and t.page_id = v.page_id
where t.context_id = $1 and t.slot = any($2) and t.review_state = 'approved'
  and (t.expires_ms is null or t.expires_ms > $3) and t.page_id = any($5)
  and v.context_id = $1 and v.slot = any($2) and v.review_state = 'approved'
  and (v.expires_ms is null or v.expires_ms > $3) and v.updated_ms <= $4 and v.until_ms > $4
  and not exists (
    select 1 from page_absences a
    where a.context_id = t.context_id and a.page_id = t.page_id and a.from_ms <= $4 and a.until_ms > $4
  )
order by 2

-- name: first_after
-- The earliest open version of one page ($5) that came after $4, for an answer that says it is not exact.
select t.context_id, t.page_id, t.slot, t.generation, t.version, t.review_state, t.updated_ms, t.expires_ms,
       t.sealed, t.head, t.terms
from pages t
where t.context_id = $1 and t.slot = any($2) and t.review_state = 'approved'
  and (t.expires_ms is null or t.expires_ms > $3) and t.updated_ms > $4 and t.page_id = $5
  and not exists (
    select 1 from page_absences a
    where a.context_id = t.context_id and a.page_id = t.page_id and a.from_ms <= $4 and a.until_ms > $4
  )
union all
select v.context_id, v.page_id, v.slot, v.generation, v.version, v.review_state, v.updated_ms, v.expires_ms,
       v.sealed, v.head, v.terms
from page_versions v join pages t on t.context_id = v.context_id and t.page_id = v.page_id
where t.context_id = $1 and t.slot = any($2) and t.review_state = 'approved'
  and (t.expires_ms is null or t.expires_ms > $3) and t.page_id = $5
  and v.context_id = $1 and v.slot = any($2) and v.review_state = 'approved'
  and (v.expires_ms is null or v.expires_ms > $3) and v.updated_ms > $4
  and not exists (
    select 1 from page_absences a
    where a.context_id = t.context_id and a.page_id = t.page_id and a.from_ms <= $4 and a.until_ms > $4
  )
order by 5
limit 1

-- name: gone_since
-- Whether a page of open slots can have been there at $4 and is not any more: deleted, past its end, or swept since.
select 1 from history_marks t
where t.context_id = $1 and t.slot = any($2) and t.through_ms > $4
union all
select 1 from pages t
where t.context_id = $1 and t.slot = any($2) and t.expires_ms <= $3 and t.expires_ms > $4
  and (t.updated_ms <= $4 or t.version > 1)
union all
select 1 from deleted_pages t
where t.context_id = $1 and t.slot = any($2) and t.deleted_ms > $4 and (t.updated_ms <= $4 or t.version > 1)
  and not exists (
    select 1 from page_versions v
    where v.context_id = t.context_id and v.page_id = t.page_id and v.version = 1 and v.updated_ms > $4
  )
  and not exists (
    select 1 from page_absences a
    where a.context_id = t.context_id and a.page_id = t.page_id and a.from_ms <= $4 and a.until_ms > $4
  )
limit 1

-- name: unknown_at
-- Whether what a page that is open now said at $4 is not kept, or not open. A first version after $4 tells that the
-- page was not there yet, whatever slot it was in: when a page was made stands in each of its versions.
select 1 from pages t
where t.context_id = $1 and t.slot = any($2) and t.review_state = 'approved'
  and (t.expires_ms is null or t.expires_ms > $3) and t.updated_ms > $4 and t.version > 1
  and not exists (
    select 1 from page_versions v
    where v.context_id = t.context_id and v.page_id = t.page_id and v.version = 1 and v.updated_ms > $4
  )
  and not exists (
    select 1 from page_versions v
    where v.context_id = t.context_id and v.page_id = t.page_id and v.slot = any($2)
      and v.review_state = 'approved' and (v.expires_ms is null or v.expires_ms > $3)
      and v.updated_ms <= $4 and v.until_ms > $4
  )
  and not exists (
    select 1 from page_absences a
    where a.context_id = t.context_id and a.page_id = t.page_id and a.from_ms <= $4 and a.until_ms > $4
  )
limit 1

-- name: versions
-- The earlier versions of one page, the newest first; page and version both have to be open.
select v.page_id, v.slot, v.generation, v.version, v.review_state, v.updated_ms, v.expires_ms, v.head, v.until_ms
from page_versions v join pages t on t.context_id = v.context_id and t.page_id = v.page_id
where t.context_id = $1 and t.page_id = $4 and t.slot = any($2) and (t.expires_ms is null or t.expires_ms > $3)
  and v.context_id = $1 and v.page_id = $4 and v.slot = any($2) and (v.expires_ms is null or v.expires_ms > $3)
order by v.version desc
limit $5

-- name: version
-- One of them.
select v.context_id, v.page_id, v.slot, v.generation, v.version, v.review_state, v.updated_ms, v.expires_ms,
       v.sealed, v.head, v.terms
from page_versions v join pages t on t.context_id = v.context_id and t.page_id = v.page_id
where t.context_id = $1 and t.page_id = $4 and t.slot = any($2) and (t.expires_ms is null or t.expires_ms > $3)
  and v.context_id = $1 and v.page_id = $4 and v.slot = any($2) and (v.expires_ms is null or v.expires_ms > $3)
  and v.version = $5

-- name: note_absence
-- When a page that is back was deleted; two deletions in one millisecond are one.
insert into page_absences (context_id, page_id, from_ms, until_ms)
values ($1, $2, $3, $4)
on conflict (context_id, page_id, from_ms) do update set until_ms = excluded.until_ms
where page_absences.context_id = excluded.context_id and page_absences.until_ms < excluded.until_ms

-- name: mark
-- Until when pages of a slot that are gone for good were there.
insert into history_marks (context_id, slot, through_ms)
values ($1, $2, $3)
on conflict (context_id, slot) do update set through_ms = excluded.through_ms
where history_marks.context_id = excluded.context_id and history_marks.through_ms < excluded.through_ms

-- name: forget_versions
-- erases: earlier versions of pages that are gone for good
-- They go with their page.
delete from page_versions
where context_id = $1 and page_id = any($2)
returning context_id, page_id, slot, generation, version, review_state, updated_ms, expires_ms, sealed, head, terms,
    until_ms

-- name: forget_absences
-- When such pages were away goes too.
delete from page_absences
where context_id = $1 and page_id = any($2)

-- name: trim
-- Earlier versions of one page beyond the number ($3) or the age ($4) that is kept. Runs inside the write that made the
-- history longer, and like it leaves ciphertext in the log until that is emptied.
delete from page_versions
where context_id = $1 and page_id = $2
  and (
    until_ms <= $4
    or version <= (
      select v.version from page_versions v
      where v.context_id = $1 and v.page_id = $2
      order by v.version desc
      limit 1 offset $3
    )
  )
returning context_id, page_id, slot, generation, version, review_state, updated_ms, expires_ms, sealed, head, terms,
    until_ms

-- name: sweep_old
-- erases: earlier versions beyond the age that is kept, or past an end of their own
-- For pages that nobody writes to any more.
delete from page_versions
where context_id = $1 and (until_ms <= $2 or expires_ms <= $3)
returning context_id, page_id, slot, generation, version, review_state, updated_ms, expires_ms, sealed, head, terms,
    until_ms

-- name: sweep_many
-- erases: earlier versions beyond the number that is kept
-- Finds something only after the number was lowered.
delete from page_versions
where context_id = $1
  and version <= (
    select v.version from page_versions v
    where v.context_id = $1 and v.page_id = page_versions.page_id
    order by v.version desc
    limit 1 offset $2
  )
returning context_id, page_id, slot, generation, version, review_state, updated_ms, expires_ms, sealed, head, terms,
    until_ms

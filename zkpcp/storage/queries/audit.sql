-- name: head
-- The newest place in the chain. The lock makes writers of one context take turns; whoever waited sees the new head.
select seq, hash, roster_version
from audit_heads
where context_id = $1
for update

-- name: newest
-- The same, for whoever only looks.
select seq, hash, roster_version
from audit_heads
where context_id = $1

-- name: hash_of
-- One entry's hash: whether the log still has what somebody remembers of it.
select hash
from audit_entries
where context_id = $1 and seq = $2

-- name: advance
-- Moves the head one place on, by roster $5; nothing changes when $4 is not the newest place.
update audit_heads
set seq = $2, hash = $3, roster_version = case when roster_version > $5 then roster_version else $5 end
where context_id = $1 and seq = $4

-- name: append
-- The entry itself.
insert into audit_entries (context_id, seq, at_ms, action, outcome, categories, entry, hash, partitions)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9)

-- name: entries.sqlite
-- A page of the log, newest first, below $2 and not before $3, filtered where $4, $5, $6, $8 are not null.
select context_id, seq, at_ms, action, outcome, categories, entry, hash, partitions
from audit_entries
where context_id = $1 and seq < $2 and at_ms >= $3
  and ($4 is null or action = $4)
  and ($5 is null or exists (select 1 from json_each(categories) c where c.value = $5))
  and ($6 is null or outcome = $6)
  and ($8 is null or partitions = '[]' or exists (
    select 1 from json_each(partitions) p where p.value in (select value from json_each($8))))
order by seq desc
limit $7

-- name: entries.postgres
-- The same; only the look into the JSON array of categories differs.
select context_id, seq, at_ms, action, outcome, categories, entry, hash, partitions
from audit_entries
where context_id = $1 and seq < $2 and at_ms >= $3
  and (cast($4 as text) is null or action = $4)
  and (cast($5 as text) is null or cast(categories as jsonb) ? $5)
  and (cast($6 as text) is null or outcome = $6)
  and (cast($8 as text[]) is null or partitions = '[]' or cast(partitions as jsonb) ?| $8)
order by seq desc
limit $7

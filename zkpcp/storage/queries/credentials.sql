-- name: wrap
-- The seed wrap of a principal under one kind of secret.
select context_id, principal, kind, salt, memory_kib, time_cost, parallelism, wrapped, created_ms
from seed_wraps
where context_id = $1 and principal = $2 and kind = $3

-- name: put_wrap
-- erases: the wrap that is replaced (KEY-12)
-- A new wrap, in place of the old one of the same principal and kind.
insert into seed_wraps (context_id, principal, kind, salt, memory_kib, time_cost, parallelism, wrapped, created_ms)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
on conflict (context_id, principal, kind) do update
set salt = excluded.salt, memory_kib = excluded.memory_kib, time_cost = excluded.time_cost,
    parallelism = excluded.parallelism, wrapped = excluded.wrapped, created_ms = excluded.created_ms

-- name: add_session
-- A new session; nothing is inserted when the look-up id is taken.
insert into sessions (context_id, lookup_id, principal, created_ms, seen_ms, expires_ms, wrapped)
values ($1, $2, $3, $4, $5, $6, $7)
on conflict do nothing

-- name: session
-- A session by its look-up id.
select context_id, lookup_id, principal, created_ms, seen_ms, expires_ms, wrapped
from sessions
where context_id = $1 and lookup_id = $2

-- name: touch_session
-- The session was seen; an earlier instant never replaces a later one.
update sessions
set seen_ms = $3
where context_id = $1 and lookup_id = $2 and seen_ms < $3

-- name: end_session
-- erases: the seed wrapped under the session's secret
-- Sign-out.
delete from sessions
where context_id = $1 and lookup_id = $2

-- name: end_sessions_of
-- erases: the seed wrapped under these sessions' secrets
-- Every session of a principal who was suspended or removed.
delete from sessions
where context_id = $1 and principal = $2

-- name: end_all_sessions
-- erases: the seeds wrapped under all sessions' secrets
-- The context was locked.
delete from sessions
where context_id = $1

-- name: delete_wraps
-- erases: the principal's seed under every secret of theirs (KEY-08)
-- A principal was removed.
delete from seed_wraps
where context_id = $1 and principal = $2

-- name: end_sessions_before
-- erases: the seeds wrapped under these sessions' secrets
-- Sessions past their absolute end ($2) or not seen since $3.
delete from sessions
where context_id = $1 and (expires_ms <= $2 or seen_ms <= $3)

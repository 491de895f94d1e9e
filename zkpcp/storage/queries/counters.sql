-- name: add
-- Counts $2 in the window that is open at $3, or opens one until $4. Of many at once each sees its own number.
insert into rate_limits (name, hits, ends_ms)
values ($1, $2, $4)
on conflict (name) do update
set hits = case when rate_limits.ends_ms > $3 then rate_limits.hits + excluded.hits else excluded.hits end,
    ends_ms = case when rate_limits.ends_ms > $3 then rate_limits.ends_ms else excluded.ends_ms end
returning hits, ends_ms

-- name: count
-- What the window that is open at $2 counts.
select hits, ends_ms
from rate_limits
where name = $1 and ends_ms > $2

-- name: clear
-- As if nothing had been counted.
delete from rate_limits
where name = $1

-- name: sweep
-- Windows that ended by $1.
delete from rate_limits
where ends_ms <= $1

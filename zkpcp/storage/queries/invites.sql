-- name: add
-- A new invite; nothing is inserted when the look-up id is taken.
insert into invites
    (context_id, lookup_id, principal, created_ms, expires_ms, offer, kept, joined_ms, kem_public, sig_public, mac)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
on conflict do nothing

-- name: invite
-- An invite by what its code says.
select context_id, lookup_id, principal, created_ms, expires_ms, offer, kept, joined_ms, kem_public, sig_public, mac
from invites
where context_id = $1 and lookup_id = $2

-- name: invites
-- All that are under way, by principal.
select context_id, lookup_id, principal, created_ms, expires_ms, offer, kept, joined_ms, kem_public, sig_public, mac
from invites
where context_id = $1
order by principal, lookup_id

-- name: join
-- erases: what the newcomer was offered
-- The newcomer's keys; of many who try, one changes the row.
update invites
set joined_ms = $3, kem_public = $4, sig_public = $5, mac = $6, offer = $7
where context_id = $1 and lookup_id = $2 and joined_ms is null

-- name: delete
-- erases: the invite's secret
-- Used up, or withdrawn.
delete from invites
where context_id = $1 and lookup_id = $2

-- name: sweep
-- erases: the secrets of invites that nobody used
-- Those that expired by $2 before anybody joined by them.
delete from invites
where context_id = $1 and joined_ms is null and expires_ms <= $2

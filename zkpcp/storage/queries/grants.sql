-- name: add_client
-- A new client; nothing is inserted when the id is taken.
insert into clients (context_id, client_id, name, source, redirect_uris, refreshable, created_ms)
values ($1, $2, $3, $4, $5, $6, $7)
on conflict do nothing

-- name: put_client
-- A client as its document says it is today; when it was first seen stays.
insert into clients (context_id, client_id, name, source, redirect_uris, refreshable, created_ms)
values ($1, $2, $3, $4, $5, $6, $7)
on conflict (context_id, client_id) do update
set name = excluded.name, source = excluded.source, redirect_uris = excluded.redirect_uris,
    refreshable = excluded.refreshable

-- name: client
-- A client by its id.
select context_id, client_id, name, source, redirect_uris, refreshable, created_ms
from clients
where context_id = $1 and client_id = $2

-- name: sweep_clients
-- Clients that registered themselves before $2, never got a grant and are not being asked about.
delete from clients
where context_id = $1 and source = 'dcr' and created_ms < $2
  and not exists (select 1 from grants g where g.context_id = $1 and g.client_id = clients.client_id)
  and client_id not in (select a.client_id from authorizations a where a.context_id = $1)

-- name: cap_clients
-- The same, all but the newest $2.
delete from clients
where context_id = $1 and client_id in (
    select c.client_id
    from clients c
    where c.context_id = $1 and c.source = 'dcr'
      and not exists (select 1 from grants g where g.context_id = $1 and g.client_id = c.client_id)
      and c.client_id not in (select a.client_id from authorizations a where a.context_id = $1)
    order by c.created_ms desc, c.client_id desc
    limit 1000000000 offset $2
)

-- name: add_authorization
-- A pending authorization; nothing is inserted when the look-up id is taken.
insert into authorizations
    (context_id, lookup_id, client_id, redirect_uri, state, scopes, code_challenge, created_ms, expires_ms, client_name,
     client_source, client_redirect_uris, client_refreshable)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
on conflict do nothing

-- name: authorization
-- What the consent page asks about.
select context_id, lookup_id, client_id, redirect_uri, state, scopes, code_challenge, created_ms, expires_ms, client_name,
       client_source, client_redirect_uris, client_refreshable
from authorizations
where context_id = $1 and lookup_id = $2

-- name: take_authorization
-- Deletes it and hands it to the one who deleted it.
delete from authorizations
where context_id = $1 and lookup_id = $2
returning context_id, lookup_id, client_id, redirect_uri, state, scopes, code_challenge, created_ms, expires_ms,
          client_name, client_source, client_redirect_uris, client_refreshable

-- name: sweep_authorizations
-- Those that expired by $2.
delete from authorizations
where context_id = $1 and expires_ms <= $2

-- name: add_grant
-- A new grant; nothing is inserted when the id is taken.
insert into grants
    (context_id, grant_id, principal, on_behalf_of, client_id, client_name, scopes, status, created_ms, used_ms,
     refreshable, kem_public, sig_public, signature, anchor)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
on conflict do nothing

-- name: grant
-- A grant by its id.
select context_id, grant_id, principal, on_behalf_of, client_id, client_name, scopes, status, created_ms, used_ms,
       refreshable, kem_public, sig_public, signature, anchor
from grants
where context_id = $1 and grant_id = $2

-- name: grant_locked
-- The same, and nobody else changes it until this transaction ends.
select context_id, grant_id, principal, on_behalf_of, client_id, client_name, scopes, status, created_ms, used_ms,
       refreshable, kem_public, sig_public, signature, anchor
from grants
where context_id = $1 and grant_id = $2
for update

-- name: list_grants
-- Active grants, newest first, of one principal or of all.
select context_id, grant_id, principal, on_behalf_of, client_id, client_name, scopes, status, created_ms, used_ms,
       refreshable, kem_public, sig_public, signature, anchor
from grants
where context_id = $1 and status = 'active' and (cast($2 as text) is null or principal = $2)
order by created_ms desc, grant_id

-- name: touch_grant
-- Last use, kept to the minute: $3 is a whole minute, so most calls write nothing.
update grants
set used_ms = $3
where context_id = $1 and grant_id = $2 and used_ms < $3

-- name: revoke_grant
-- erases: the anchor (U6)
-- The grant is over; its row stays to explain old audit entries.
update grants
set status = 'revoked', anchor = $3
where context_id = $1 and grant_id = $2

-- name: delete_grant_keyrings
-- erases: the grant's keyrings of every epoch (U6)
-- The second part of a revocation.
delete from keyrings
where context_id = $1 and holder_kind = 'grant' and holder = $2

-- name: delete_grant_wraps
-- erases: the grant seed under every token (U6)
-- The third part of a revocation; the look-up ids stay, so that a replay is recognized.
update tokens
set wrapped = null
where context_id = $1 and grant_id = $2 and wrapped is not null

-- name: idle_grants
-- Active grants not used since $2 (AUTH-45).
select grant_id
from grants
where context_id = $1 and status = 'active' and used_ms < $2
order by grant_id

-- name: keyring
-- A holder's keyring of one epoch.
select context_id, holder_kind, holder, epoch, sealed, signature
from keyrings
where context_id = $1 and holder_kind = $2 and holder = $3 and epoch = $4

-- name: principal_keyring
-- A principal's keyring of the newest epoch.
select context_id, holder_kind, holder, epoch, sealed, signature
from keyrings
where context_id = $1 and holder_kind = 'principal' and holder = $2
order by epoch desc
limit 1

-- name: delete_keyrings
-- erases: the holder's keyrings of every epoch (KEY-08)
-- A principal was suspended or removed, or a grant of theirs waits for them.
delete from keyrings
where context_id = $1 and holder_kind = $2 and holder = $3

-- name: delete_keyrings_but
-- erases: every keyring but that of one holder (KEY-08)
-- The context was locked.
delete from keyrings
where context_id = $1 and not (holder_kind = $2 and holder = $3)

-- name: delete_keyrings_before
-- erases: keyrings of earlier epochs (KEY-12)
-- The root they go with is gone.
delete from keyrings
where context_id = $1 and epoch < $2

-- name: put_keyring
-- erases: the keyring that is replaced
-- A keyring, in place of the holder's earlier one of the same epoch.
insert into keyrings (context_id, holder_kind, holder, epoch, sealed, signature)
values ($1, $2, $3, $4, $5, $6)
on conflict (context_id, holder_kind, holder, epoch) do update
set sealed = excluded.sealed, signature = excluded.signature

-- name: add_token
-- A new code or token; nothing is inserted when the look-up id is taken.
insert into tokens
    (context_id, lookup_id, kind, grant_id, client_id, scopes, created_ms, expires_ms, used_ms, wrapped,
     redirect_uri, code_challenge, wrap_until_ms)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
on conflict do nothing

-- name: token
-- A code or token by its look-up id.
select context_id, lookup_id, kind, grant_id, client_id, scopes, created_ms, expires_ms, used_ms, wrapped,
       redirect_uri, code_challenge, wrap_until_ms
from tokens
where context_id = $1 and lookup_id = $2

-- name: token_locked
-- The same, and nobody else changes it until this transaction ends.
select context_id, lookup_id, kind, grant_id, client_id, scopes, created_ms, expires_ms, used_ms, wrapped,
       redirect_uri, code_challenge, wrap_until_ms
from tokens
where context_id = $1 and lookup_id = $2
for update

-- name: use_token
-- erases: the grant seed under this token
-- Marks it used; of many who try, one changes the row. With $4 the wrap stays until a sweep after that instant.
update tokens
set used_ms = $3, wrap_until_ms = $4, wrapped = case when cast($4 as bigint) is null then null else wrapped end
where context_id = $1 and lookup_id = $2 and used_ms is null

-- name: sweep_tokens
-- erases: the grant seeds under expired codes and access tokens
-- Unused codes and access tokens that expired by $2; used ones of any kind when the use is older than $3.
delete from tokens
where context_id = $1
  and ((used_ms is null and kind in ('code', 'access') and expires_ms <= $2) or used_ms < $3)

-- name: sweep_kept_wraps
-- erases: the grant seeds under refresh tokens that were used a while ago
-- Wraps that were kept for clients that refresh twice at once, until $2.
update tokens
set wrapped = null, wrap_until_ms = null
where context_id = $1 and wrap_until_ms <= $2

-- name: access
-- All that a call needs behind its token: token, grant, keyring of the roster's epoch if sealed already, roster.
select t.context_id, t.lookup_id, t.kind, t.grant_id, t.client_id, t.scopes, t.created_ms, t.expires_ms, t.used_ms,
       t.wrapped, t.redirect_uri, t.code_challenge, t.wrap_until_ms,
       g.context_id, g.grant_id, g.principal, g.on_behalf_of, g.client_id, g.client_name, g.scopes, g.status,
       g.created_ms, g.used_ms, g.refreshable, g.kem_public, g.sig_public, g.signature, g.anchor,
       r.context_id, r.version, r.body, r.signature, r.succession,
       k.context_id, k.holder_kind, k.holder, k.epoch, k.sealed, k.signature
from tokens t
join grants g on g.context_id = t.context_id and g.grant_id = t.grant_id
join rosters r on r.context_id = t.context_id
left join keyrings k on k.context_id = t.context_id and k.holder_kind = 'grant' and k.holder = t.grant_id
    and k.epoch = r.epoch
where t.context_id = $1 and t.lookup_id = $2 and t.kind = 'access'

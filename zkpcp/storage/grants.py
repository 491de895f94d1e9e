"""Where clients, authorizations, grants, keyrings and tokens are kept.

Implements ``ports.Grants``. What is valid is decided in ``core``; here are the rows, the races that have one winner
(``take_authorization``, ``use_token``), and the deletion behind a revocation (U6).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from zkpcp.core.stored import (
    AccessView,
    AuthorizationRow,
    ClientRow,
    GrantRow,
    HolderKind,
    KeyringRow,
    RosterRow,
    TokenRow,
)
from zkpcp.errors import ConflictError
from zkpcp.storage.driver import Driver, Row, one, pack, spread, unpack
from zkpcp.storage.statements import load

_SQL = load("grants")

_keyring = spread(KeyringRow)
_roster = spread(RosterRow)
_client_of = spread(ClientRow)
_authorization_of = spread(AuthorizationRow)
_grant_of = spread(GrantRow)
_token_of = spread(TokenRow)

MINUTE_MS: Final = 60_000


class SqlGrants:
    """Grants and all that hangs on them, in SQL."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    async def add_client(self, row: ClientRow) -> None:
        """Insert a client. Raises ConflictError when its id is taken."""
        added = await self._driver.execute(_SQL["add_client"], *_client_members(row))
        if not added:
            raise ConflictError("the client exists already")

    async def put_client(self, row: ClientRow) -> None:
        """Insert, or replace what the client says of itself."""
        await self._driver.execute(_SQL["put_client"], *_client_members(row))

    async def client(self, context_id: str, client_id: str) -> ClientRow | None:
        """A client by its id."""
        return one(_client, await self._driver.fetch_one(_SQL["client"], context_id, client_id))

    async def sweep_clients(self, context_id: str, created_before_ms: int, keep: int) -> None:
        """Delete unused clients that registered themselves: those of before an instant, and all but the newest."""
        await self._driver.execute(_SQL["sweep_clients"], context_id, created_before_ms)
        await self._driver.execute(_SQL["cap_clients"], context_id, keep)

    async def add_authorization(self, row: AuthorizationRow) -> None:
        """Insert a pending authorization. Raises ConflictError when its look-up id is taken."""
        added = await self._driver.execute(
            _SQL["add_authorization"],
            row.context_id,
            row.lookup_id,
            row.client_id,
            row.redirect_uri,
            row.state,
            pack(row.scopes),
            row.code_challenge,
            row.created_ms,
            row.expires_ms,
            row.client_name,
            row.client_source,
            pack(row.client_redirect_uris),
            row.client_refreshable,
        )
        if not added:
            raise ConflictError("the authorization exists already")

    async def authorization(self, context_id: str, lookup_id: bytes) -> AuthorizationRow | None:
        """A pending authorization, expired or not."""
        return one(_authorization, await self._driver.fetch_one(_SQL["authorization"], context_id, lookup_id))

    async def take_authorization(self, context_id: str, lookup_id: bytes) -> AuthorizationRow | None:
        """Delete and return it: one taker wins."""
        return one(_authorization, await self._driver.fetch_one(_SQL["take_authorization"], context_id, lookup_id))

    async def sweep_authorizations(self, context_id: str, now_ms: int) -> None:
        """Delete those that have expired."""
        await self._driver.execute(_SQL["sweep_authorizations"], context_id, now_ms)

    async def add_grant(self, row: GrantRow, keyring: KeyringRow) -> None:
        """Insert a grant with its first keyring. Raises ConflictError when its id is taken."""
        added = await self._driver.execute(
            _SQL["add_grant"],
            row.context_id,
            row.grant_id,
            row.principal,
            row.on_behalf_of,
            row.client_id,
            row.client_name,
            pack(row.scopes),
            row.status,
            row.created_ms,
            row.used_ms,
            row.refreshable,
            row.kem_public,
            row.sig_public,
            row.signature,
            row.anchor,
        )
        if not added:
            raise ConflictError("the grant exists already")
        await self.put_keyring(keyring)

    async def grant(self, context_id: str, grant_id: str, *, lock: bool = False) -> GrantRow | None:
        """A grant, active or revoked."""
        statement = _SQL["grant_locked" if lock else "grant"]
        return one(_grant, await self._driver.fetch_one(statement, context_id, grant_id))

    async def list_grants(self, context_id: str, principal: str | None = None) -> Sequence[GrantRow]:
        """Active grants, newest first."""
        return [_grant(row) for row in await self._driver.fetch_all(_SQL["list_grants"], context_id, principal)]

    async def touch_grant(self, context_id: str, grant_id: str, used_ms: int) -> None:
        """Note the minute of the last use; within one minute, only the first call writes."""
        await self._driver.execute(_SQL["touch_grant"], context_id, grant_id, used_ms - used_ms % MINUTE_MS)

    async def revoke_grant(self, context_id: str, grant_id: str) -> None:
        """Mark revoked; delete keyrings, anchor and every token's wrap (U6)."""
        await self._driver.execute(_SQL["revoke_grant"], context_id, grant_id, b"")
        await self._driver.execute(_SQL["delete_grant_keyrings"], context_id, grant_id)
        await self._driver.execute(_SQL["delete_grant_wraps"], context_id, grant_id)

    async def idle_grants(self, context_id: str, unused_since_ms: int) -> Sequence[str]:
        """Ids of active grants last used before this instant."""
        return [row[0] for row in await self._driver.fetch_all(_SQL["idle_grants"], context_id, unused_since_ms)]

    async def keyring(self, context_id: str, holder_kind: HolderKind, holder: str, epoch: int) -> KeyringRow | None:
        """A holder's keyring of one epoch."""
        return one(_keyring, await self._driver.fetch_one(_SQL["keyring"], context_id, holder_kind, holder, epoch))

    async def principal_keyring(self, context_id: str, principal: str) -> KeyringRow | None:
        """The principal's keyring of the newest epoch."""
        return one(_keyring, await self._driver.fetch_one(_SQL["principal_keyring"], context_id, principal))

    async def delete_keyrings(self, context_id: str, holder_kind: HolderKind, holder: str) -> None:
        """Delete a holder's keyrings of every epoch."""
        await self._driver.execute(_SQL["delete_keyrings"], context_id, holder_kind, holder)

    async def delete_keyrings_but(self, context_id: str, holder_kind: HolderKind, holder: str) -> None:
        """Delete the keyrings of every other holder."""
        await self._driver.execute(_SQL["delete_keyrings_but"], context_id, holder_kind, holder)

    async def delete_keyrings_before(self, context_id: str, epoch: int) -> None:
        """Delete every keyring of an earlier epoch."""
        await self._driver.execute(_SQL["delete_keyrings_before"], context_id, epoch)

    async def put_keyring(self, row: KeyringRow) -> None:
        """Insert, or replace the holder's keyring of the same epoch."""
        await self._driver.execute(
            _SQL["put_keyring"], row.context_id, row.holder_kind, row.holder, row.epoch, row.sealed, row.signature
        )

    async def add_token(self, row: TokenRow) -> None:
        """Insert a code or token. Raises ConflictError when its look-up id is taken."""
        added = await self._driver.execute(
            _SQL["add_token"],
            row.context_id,
            row.lookup_id,
            row.kind,
            row.grant_id,
            row.client_id,
            pack(row.scopes),
            row.created_ms,
            row.expires_ms,
            row.used_ms,
            row.wrapped,
            row.redirect_uri,
            row.code_challenge,
            row.wrap_until_ms,
        )
        if not added:
            raise ConflictError("the token exists already")

    async def token(self, context_id: str, lookup_id: bytes, *, lock: bool = False) -> TokenRow | None:
        """A code or token, used and expired ones too."""
        statement = _SQL["token_locked" if lock else "token"]
        return one(_token, await self._driver.fetch_one(statement, context_id, lookup_id))

    async def use_token(
        self, context_id: str, lookup_id: bytes, used_ms: int, *, keep_wrap_until_ms: int | None = None
    ) -> bool:
        """Mark used and delete its wrap, unless it is to be kept; exactly one caller gets True."""
        return await self._driver.execute(_SQL["use_token"], context_id, lookup_id, used_ms, keep_wrap_until_ms) == 1

    async def sweep_tokens(self, context_id: str, now_ms: int, keep_used_ms: int) -> None:
        """Delete unused codes and access tokens past their end, used ones later, and wraps kept until now."""
        await self._driver.execute(_SQL["sweep_tokens"], context_id, now_ms, now_ms - keep_used_ms)
        await self._driver.execute(_SQL["sweep_kept_wraps"], context_id, now_ms)

    async def access(self, context_id: str, lookup_id: bytes) -> AccessView | None:
        """An access token with its grant, the roster, and the keyring of the roster's epoch, in one query."""
        return one(_access, await self._driver.fetch_one(_SQL["access"], context_id, lookup_id))


# SQLite has no booleans and neither engine has our tuples: the functions below restore both.


def _client(row: Row) -> ClientRow:
    return _client_of((*row[:4], unpack(row[4]), bool(row[5]), row[6]))


def _authorization(row: Row) -> AuthorizationRow:
    return _authorization_of((*row[:5], unpack(row[5]), *row[6:11], unpack(row[11]), bool(row[12])))


def _grant(row: Row) -> GrantRow:
    return _grant_of((*row[:6], unpack(row[6]), *row[7:10], bool(row[10]), *row[11:]))


def _token(row: Row) -> TokenRow:
    return _token_of((*row[:5], unpack(row[5]), *row[6:]))


def _access(row: Row) -> AccessView:
    keyring = row[33:]
    return AccessView(
        token=_token(row[:13]),
        grant=_grant(row[13:28]),
        keyring=None if keyring[0] is None else _keyring(keyring),
        roster=_roster(row[28:33]),
    )


def _client_members(row: ClientRow) -> tuple[str, str, str, str, str, bool, int]:
    uris = pack(row.redirect_uris)
    return (row.context_id, row.client_id, row.name, row.source, uris, row.refreshable, row.created_ms)

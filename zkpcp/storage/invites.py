"""Where invites are kept until whoever was invited belongs to the context.

Implements ``ports.Invites``. Neither the code nor what it opens is stored in the clear.
"""

from __future__ import annotations

from collections.abc import Sequence

from zkpcp.core.stored import InviteRow, JoinedKeys
from zkpcp.errors import ConflictError
from zkpcp.storage.driver import Driver, Row, spread
from zkpcp.storage.statements import load

_SQL = load("invites")
_joined = spread(JoinedKeys)


class SqlInvites:
    """Invites in SQL."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    async def add(self, row: InviteRow) -> None:
        """Insert an invite. Raises ConflictError when its look-up id is taken."""
        keys = row.joined
        added = await self._driver.execute(
            _SQL["add"],
            row.context_id,
            row.lookup_id,
            row.principal,
            row.created_ms,
            row.expires_ms,
            row.offer,
            row.kept,
            *((None,) * 4 if keys is None else (keys.joined_ms, keys.kem_public, keys.sig_public, keys.mac)),
        )
        if not added:
            raise ConflictError("the invite exists already")

    async def invite(self, context_id: str, lookup_id: bytes) -> InviteRow | None:
        """An invite, expired or not."""
        row = await self._driver.fetch_one(_SQL["invite"], context_id, lookup_id)
        return None if row is None else _invite(row)

    async def invites(self, context_id: str) -> Sequence[InviteRow]:
        """All that are under way, by principal."""
        return [_invite(row) for row in await self._driver.fetch_all(_SQL["invites"], context_id)]

    async def join(self, context_id: str, lookup_id: bytes, keys: JoinedKeys) -> bool:
        """Keep a newcomer's keys and delete the offer; False when somebody has joined by this invite already."""
        values = (keys.joined_ms, keys.kem_public, keys.sig_public, keys.mac)
        return bool(await self._driver.execute(_SQL["join"], context_id, lookup_id, *values, b""))

    async def delete(self, context_id: str, lookup_id: bytes) -> None:
        """Delete an invite; one that is gone already is no error."""
        await self._driver.execute(_SQL["delete"], context_id, lookup_id)

    async def sweep(self, context_id: str, now_ms: int) -> None:
        """Delete those that expired unused."""
        await self._driver.execute(_SQL["sweep"], context_id, now_ms)


def _invite(row: Row) -> InviteRow:
    *members, joined_ms, kem_public, sig_public, mac = row
    joined = None if joined_ms is None else _joined((joined_ms, kem_public, sig_public, mac))
    return _row((*members, joined))


_row = spread(InviteRow)

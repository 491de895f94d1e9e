"""Where wraps of seeds, and the sessions opened with them, are kept.

Implements ``ports.Credentials``. A replaced or ended wrap is gone with the commit (KEY-12); older backups and, on
PostgreSQL, dead rows until the next vacuum may still hold it.
"""

from __future__ import annotations

from zkpcp.core.stored import SeedWrapKind, SeedWrapRow, SessionRow
from zkpcp.errors import ConflictError
from zkpcp.storage.driver import Driver, one, spread
from zkpcp.storage.statements import load

_SQL = load("credentials")

_wrap = spread(SeedWrapRow)
_session = spread(SessionRow)


class SqlCredentials:
    """Seed wraps and sessions in SQL."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    async def wrap(self, context_id: str, principal: str, kind: SeedWrapKind) -> SeedWrapRow | None:
        """The wrap of a principal's seed under this kind of secret."""
        return one(_wrap, await self._driver.fetch_one(_SQL["wrap"], context_id, principal, kind))

    async def put_wrap(self, row: SeedWrapRow) -> None:
        """Insert, or replace the wrap of the same principal and kind."""
        await self._driver.execute(
            _SQL["put_wrap"],
            row.context_id,
            row.principal,
            row.kind,
            row.salt,
            row.memory_kib,
            row.time_cost,
            row.parallelism,
            row.wrapped,
            row.created_ms,
        )

    async def add_session(self, row: SessionRow) -> None:
        """Insert a session. Raises ConflictError when its look-up id is taken."""
        added = await self._driver.execute(
            _SQL["add_session"],
            row.context_id,
            row.lookup_id,
            row.principal,
            row.created_ms,
            row.seen_ms,
            row.expires_ms,
            row.wrapped,
        )
        if not added:
            raise ConflictError("the session exists already")

    async def session(self, context_id: str, lookup_id: bytes) -> SessionRow | None:
        """A session, expired or not."""
        return one(_session, await self._driver.fetch_one(_SQL["session"], context_id, lookup_id))

    async def touch_session(self, context_id: str, lookup_id: bytes, seen_ms: int) -> None:
        """Note that the session was seen."""
        await self._driver.execute(_SQL["touch_session"], context_id, lookup_id, seen_ms)

    async def end_session(self, context_id: str, lookup_id: bytes) -> None:
        """Delete a session; one that is gone already is no error."""
        await self._driver.execute(_SQL["end_session"], context_id, lookup_id)

    async def end_sessions_of(self, context_id: str, principal: str) -> None:
        """Delete every session of a principal."""
        await self._driver.execute(_SQL["end_sessions_of"], context_id, principal)

    async def end_all_sessions(self, context_id: str) -> None:
        """Delete every session of the context."""
        await self._driver.execute(_SQL["end_all_sessions"], context_id)

    async def delete_wraps(self, context_id: str, principal: str) -> None:
        """Delete every wrap of a principal's seed."""
        await self._driver.execute(_SQL["delete_wraps"], context_id, principal)

    async def end_sessions_before(self, context_id: str, now_ms: int, idle_ms: int) -> None:
        """Delete sessions past their end, or not seen for ``idle_ms``."""
        await self._driver.execute(_SQL["end_sessions_before"], context_id, now_ms, now_ms - idle_ms)

"""Where sealed hand-offs between assistants are kept.

Implements ``ports.Handoffs``.
"""

from __future__ import annotations

from collections.abc import Sequence

from zkpcp.core.leaves import Journal
from zkpcp.core.stored import HandoffRow
from zkpcp.errors import ConflictError
from zkpcp.storage.driver import Driver, one, spread
from zkpcp.storage.statements import load

_SQL = load("handoffs")

_handoff = spread(HandoffRow)


class SqlHandoffs:
    """Hand-offs in SQL."""

    def __init__(self, driver: Driver, journal: Journal) -> None:
        self._driver = driver
        self._journal = journal

    async def put(self, row: HandoffRow) -> None:
        """Insert version 1, or replace version n by n + 1. Raises ConflictError when another writer was first."""
        members = (
            row.context_id,
            row.handoff_id,
            row.generation,
            row.version,
            row.updated_ms,
            row.expires_ms,
            row.sealed,
        )
        stored = await self._driver.fetch_one(_SQL["stored"], row.context_id, row.handoff_id)
        if row.version == 1:
            changed = await self._driver.execute(_SQL["first"], *members)
        else:
            changed = await self._driver.execute(_SQL["next"], *members, row.version - 1)
        if not changed:
            raise ConflictError("the hand-off changed meanwhile")
        if stored is not None:
            self._journal.took("handoffs", _handoff(stored))
        self._journal.put("handoffs", row)

    async def handoff(self, context_id: str, handoff_id: str, now_ms: int, *, lock: bool = False) -> HandoffRow | None:
        """A hand-off that has not expired."""
        statement = _SQL["handoff_locked" if lock else "handoff"]
        return one(_handoff, await self._driver.fetch_one(statement, context_id, handoff_id, now_ms))

    async def handoffs(self, context_id: str, now_ms: int) -> Sequence[HandoffRow]:
        """All that have not expired, the last changed first."""
        return [_handoff(row) for row in await self._driver.fetch_all(_SQL["handoffs"], context_id, now_ms)]

    async def count(self, context_id: str) -> int:
        """How many there are, expired ones that were not swept yet included."""
        row = await self._driver.fetch_one(_SQL["count"], context_id)
        return 0 if row is None else int(row[0])

    async def delete_expired(self, context_id: str, now_ms: int) -> int:
        """Delete what has expired; the number."""
        gone = await self._driver.fetch_all(_SQL["delete_expired"], context_id, now_ms)
        for row in gone:
            self._journal.took("handoffs", _handoff(row))
        return len(gone)

"""Where sealed profile namespaces and their change log are kept.

Implements ``ports.Profiles``.
"""

from __future__ import annotations

from collections.abc import Sequence

from zkpcp.core.leaves import Journal
from zkpcp.core.stored import ProfileChangeRow, ProfileRow
from zkpcp.errors import ConflictError
from zkpcp.storage.driver import Driver, one, spread
from zkpcp.storage.statements import load

_SQL = load("profiles")

_profile = spread(ProfileRow)
_change = spread(ProfileChangeRow)


class SqlProfiles:
    """Profiles in SQL."""

    def __init__(self, driver: Driver, journal: Journal) -> None:
        self._driver = driver
        self._journal = journal

    async def profile(self, context_id: str, namespace: str, *, lock: bool = False) -> ProfileRow | None:
        """A profile namespace."""
        statement = _SQL["profile_locked" if lock else "profile"]
        return one(_profile, await self._driver.fetch_one(statement, context_id, namespace))

    async def put(self, row: ProfileRow, change: ProfileChangeRow) -> None:
        """Insert version 1, or replace version n by n + 1. Raises ConflictError when another writer was first."""
        members = (row.context_id, row.namespace, row.generation, row.version, row.updated_ms, row.sealed)
        before = await self.profile(row.context_id, row.namespace, lock=True)
        if row.version == 1:
            changed = await self._driver.execute(_SQL["first"], *members)
        else:
            changed = await self._driver.execute(_SQL["next"], *members, row.version - 1)
        if not changed or not await self._add_change(change):
            raise ConflictError("the profile changed meanwhile")
        if before is not None:
            self._journal.took("profiles", before)
        self._journal.put("profiles", row)
        self._journal.put("profile_changes", change)

    async def changes(self, context_id: str, namespace: str, limit: int) -> Sequence[ProfileChangeRow]:
        """Newest first."""
        rows = await self._driver.fetch_all(_SQL["changes"], context_id, namespace, limit)
        return [_change(row) for row in rows]

    async def _add_change(self, change: ProfileChangeRow) -> int:
        return await self._driver.execute(
            _SQL["add_change"],
            change.context_id,
            change.namespace,
            change.version,
            change.at_ms,
            change.principal,
            change.client,
            change.generation,
            change.sealed,
        )

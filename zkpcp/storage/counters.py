"""Where attempts are counted when several processes share a database.

Implements ``ports.Counters``: one statement counts, so no two processes get the same number. Names come hashed.
"""

from __future__ import annotations

from zkpcp.core.stored import Counted
from zkpcp.errors import UnavailableError
from zkpcp.storage.driver import Driver, one, spread
from zkpcp.storage.statements import load

_SQL = load("counters")

_counted = spread(Counted)


class SqlCounters:
    """Windows of counted attempts in SQL."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    async def add(self, name: str, amount: int, *, now_ms: int, ends_ms: int) -> Counted:
        """Count in the open window, or open one."""
        counted = one(_counted, await self._driver.fetch_one(_SQL["add"], name, amount, now_ms, ends_ms))
        if counted is None:
            raise UnavailableError("the database did not say what it counted")
        return counted

    async def count(self, name: str, now_ms: int) -> Counted | None:
        """What the open window counts."""
        return one(_counted, await self._driver.fetch_one(_SQL["count"], name, now_ms))

    async def clear(self, name: str) -> None:
        """Forget a window."""
        await self._driver.execute(_SQL["clear"], name)

    async def sweep(self, now_ms: int) -> None:
        """Delete the windows that have ended."""
        await self._driver.execute(_SQL["sweep"], now_ms)

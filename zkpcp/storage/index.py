"""Where the sealed parts of search indexes are kept, and which page has which number there.

Implements ``ports.Index``. A slot's row is the lock of its index: writers of one slot take turns from ``turn`` on until
their transactions end, on every engine.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from zkpcp.core.stored import IndexPartRow, IndexPlace, IndexSlotRow
from zkpcp.errors import UnavailableError
from zkpcp.storage.driver import Driver, one, spread
from zkpcp.storage.statements import load

_SQL = load("index")

_slot = spread(IndexSlotRow)
_part = spread(IndexPartRow)
_place = spread(IndexPlace)


class SqlIndex:
    """Search indexes in SQL."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    async def turn(self, context_id: str, slot: str, generation: int) -> IndexSlotRow:
        """The index of a slot, made if there is none, and locked until this transaction ends."""
        row = one(_slot, await self._driver.fetch_one(_SQL["slot_locked"], context_id, slot))
        if row is None:
            await self._driver.execute(_SQL["add_slot"], context_id, slot, generation)
            row = one(_slot, await self._driver.fetch_one(_SQL["slot_locked"], context_id, slot))
        if row is None:
            raise UnavailableError("the search index cannot be locked; the same request can be sent again")
        return row

    async def set_slot(self, row: IndexSlotRow) -> None:
        """Note how many segments there are, and for which generation."""
        await self._driver.execute(_SQL["set_slot"], row.context_id, row.slot, row.generation, row.segments)

    async def slots(self, context_id: str, slots: Collection[str]) -> Sequence[IndexSlotRow]:
        """Those of these slots that have an index."""
        return [_slot(row) for row in await self._driver.fetch_all(_SQL["slots"], context_id, list(slots))]

    async def parts(self, context_id: str, slot: str, parts: Collection[str]) -> Sequence[IndexPartRow]:
        """Those of these parts that there are."""
        return [_part(row) for row in await self._driver.fetch_all(_SQL["parts"], context_id, slot, list(parts))]

    async def put(self, rows: Sequence[IndexPartRow]) -> None:
        """Insert or replace parts."""
        values = [(row.context_id, row.slot, row.part, row.stamp, row.sealed) for row in rows]
        await self._driver.execute_many(_SQL["put"], values)

    async def drop(self, context_id: str, slot: str, parts: Collection[str]) -> None:
        """Delete those of these parts that there are."""
        await self._driver.execute(_SQL["drop"], context_id, slot, list(parts))

    async def clear(self, context_id: str, slot: str) -> None:
        """Delete every part of a slot's index and every place in it."""
        await self._driver.execute(_SQL["clear_parts"], context_id, slot)
        await self._driver.execute(_SQL["clear_places"], context_id, slot)

    async def place(self, context_id: str, page_id: str) -> IndexPlace | None:
        """Where a page is."""
        return one(_place, await self._driver.fetch_one(_SQL["place"], context_id, page_id))

    async def set_place(self, context_id: str, page_id: str, place: IndexPlace | None) -> None:
        """Note where a page is; None: nowhere."""
        if place is None:
            await self._driver.execute(_SQL["forget_place"], context_id, page_id)
        else:
            await self._driver.execute(_SQL["set_place"], context_id, page_id, place.slot, place.segment, place.number)

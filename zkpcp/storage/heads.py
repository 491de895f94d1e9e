"""Where integrity heads are kept, and what a transaction did to the rows that they count.

Implements ``ports.Heads``. The repositories note every row that they put or take in the journal of their transaction.
What nobody with a key has settled when it commits is kept as remnants, if it was taken; what was put without being
settled is in no head, and a check of the sums finds it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from zkpcp.core.leaves import Change, Journal, Leaf, LeafKind, leaf_of
from zkpcp.core.stored import SlotHeadRow
from zkpcp.storage.driver import Driver, spread
from zkpcp.storage.rotation import ROWS
from zkpcp.storage.statements import load

_SQL = load("heads")

_head = spread(SlotHeadRow)
_leaf = spread(Leaf)
_WITH_END: Final = "page_versions"


class SqlHeads:
    """Integrity heads in SQL."""

    def __init__(self, driver: Driver, journal: Journal) -> None:
        self._driver = driver
        self._journal = journal

    async def changes(self) -> list[Change]:
        """What this transaction has put and taken since it was last asked."""
        return self._journal.take()

    async def turn(self, context_id: str, slots: Collection[str]) -> Sequence[SlotHeadRow]:
        """The heads of some slots, of every generation, locked until this transaction ends."""
        return [_head(row) for row in await self._driver.fetch_all(_SQL["turn"], context_id, sorted(slots))]

    async def heads(self, context_id: str) -> Sequence[SlotHeadRow]:
        """All heads, by slot and generation."""
        return [_head(row) for row in await self._driver.fetch_all(_SQL["heads"], context_id)]

    async def put(self, rows: Sequence[SlotHeadRow]) -> None:
        """Insert or replace heads."""
        values = [(row.context_id, row.slot, row.generation, row.sealed) for row in rows]
        await self._driver.execute_many(_SQL["put"], values)

    async def end(self, context_id: str, generation: int) -> None:
        """Delete heads and remnants of earlier generations."""
        await self._driver.execute(_SQL["end"], context_id, generation)
        await self._driver.execute(_SQL["end_remnants"], context_id, generation)

    async def leave(self, changes: Iterable[Change]) -> None:
        """Keep what was taken until somebody with a key takes it off the sum."""
        rows = [
            (
                change.context_id,
                leaf.slot,
                leaf.generation,
                leaf.kind,
                leaf.object_id,
                leaf.version,
                leaf.expires_ms,
                leaf.until_ms,
                leaf.digest,
            )
            for change in changes
            if not change.is_put
            for leaf in (change.leaf,)
        ]
        if rows:
            await self._driver.execute_many(_SQL["leave"], rows)

    async def leave_rest(self) -> None:
        """The same with what is not settled when the transaction is about to commit."""
        await self.leave(self._journal.take())

    async def remnants(self, context_id: str, slots: Collection[str]) -> Sequence[Leaf]:
        """What waits for the heads of some slots."""
        return [_leaf(row) for row in await self._driver.fetch_all(_SQL["remnants"], context_id, sorted(slots))]

    async def forget(self, context_id: str, leaves: Sequence[Leaf] | None) -> None:
        """Delete these remnants; None: all of the context."""
        if leaves is None:
            await self._driver.execute(_SQL["forget_all"], context_id)
        else:
            rows = [
                (context_id, each.slot, each.generation, each.kind, each.object_id, each.version) for each in leaves
            ]
            await self._driver.execute_many(_SQL["forget"], rows)

    async def page_versions(self, context_id: str, page_ids: Collection[str]) -> Mapping[str, int]:
        """At which version those of these pages are that there are, expired ones too."""
        rows = await self._driver.fetch_all(_SQL["versions"], context_id, sorted(page_ids))
        return {str(page_id): int(version) for page_id, version in rows}

    async def leaves(self, context_id: str, kind: LeafKind, limit: int, skip: int) -> Sequence[Leaf | None]:
        """A leaf for each stored row of a kind, by id, some rows passed over; None for one that is not counted."""
        rows = await self._driver.fetch_all(_SQL[f"rows_{kind}"], context_id, limit, skip)
        if kind == _WITH_END:
            return [leaf_of(kind, ROWS[kind](row), until_ms=int(until_ms)) for *row, until_ms in rows]
        return [leaf_of(kind, ROWS[kind](row)) for row in rows]

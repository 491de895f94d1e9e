"""What a change of keys reads and writes: links to older keys, and rows of earlier generations.

Implements ``ports.Rotation``. A row is put back only where it is still the one that was read, so that steps and writers
need not wait for each other. On SQLite the log is emptied after each step: it holds what was sealed under the old keys.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from zkpcp.core.leaves import Journal
from zkpcp.core.stored import (
    HandoffRow,
    HeadRow,
    KeyLinkRow,
    PageRow,
    PartitionRow,
    ProfileChangeRow,
    ProfileRow,
    ProposalRow,
    RotatedKind,
    RotatedRow,
)
from zkpcp.storage.driver import Driver, Row, Value, spread
from zkpcp.storage.statements import load

_SQL = load("rotation")

_link = spread(KeyLinkRow)
_head = spread(HeadRow)
ROWS: Final[Mapping[RotatedKind, Callable[[Row], RotatedRow]]] = MappingProxyType(
    {
        "pages": spread(PageRow),
        "page_versions": spread(PageRow),
        "deleted_pages": spread(PageRow),
        "profiles": spread(ProfileRow),
        "profile_changes": spread(ProfileChangeRow),
        "handoffs": spread(HandoffRow),
        "partitions": spread(PartitionRow),
        "proposals": spread(ProposalRow),
    }
)
"""How a row of each kind is read."""


class SqlRotation:
    """A change of keys in SQL."""

    def __init__(self, driver: Driver, journal: Journal) -> None:
        self._driver = driver
        self._journal = journal

    async def add_links(self, rows: Sequence[KeyLinkRow]) -> None:
        """Insert links."""
        await self._driver.execute_many(
            _SQL["add_link"], [(row.context_id, row.slot, row.generation, row.name, row.sealed) for row in rows]
        )

    async def links(self, context_id: str, slots: Collection[str] | None = None) -> Sequence[KeyLinkRow]:
        """The links of some slots, by default all."""
        if slots is None:
            return [_link(row) for row in await self._driver.fetch_all(_SQL["links"], context_id)]
        return [_link(row) for row in await self._driver.fetch_all(_SQL["links_of"], context_id, list(slots))]

    async def namespaces(self, context_id: str) -> Sequence[str]:
        """The profile namespaces that have content."""
        return [str(row[0]) for row in await self._driver.fetch_all(_SQL["namespaces"], context_id)]

    async def behind(
        self, context_id: str, kind: RotatedKind, generation: int, limit: int, *, skip: int = 0
    ) -> Sequence[RotatedRow]:
        """The first rows of a kind below this generation, some of them skipped."""
        rows = await self._driver.fetch_all(_SQL[f"behind_{kind}"], context_id, generation, limit, skip)
        return [ROWS[kind](row) for row in rows]

    async def reseal(self, kind: RotatedKind, row: RotatedRow, before: RotatedRow) -> bool:
        """Put a row in the place of the one it was made from; False when somebody changed that first."""
        boxes = (row.sealed, row.head, row.terms) if isinstance(row, PageRow) else (row.sealed,)
        members = (row.context_id, *_place(row), before.generation, row.generation, *boxes)
        stored = await self._driver.fetch_one(_SQL[f"reseal_{kind}"], *members)
        if stored is None:
            return False
        until_ms = int(stored[0]) if kind == "page_versions" else None
        self._journal.took(kind, before, until_ms=until_ms)
        self._journal.put(kind, row, until_ms=until_ms)
        return True

    async def untagged(self, context_id: str, generation: int, limit: int, *, skip: int = 0) -> Sequence[HeadRow]:
        """The first pages without a path tag of this generation."""
        rows = await self._driver.fetch_all(_SQL["untagged"], context_id, generation, limit, skip)
        return [_head(row) for row in rows]

    async def left(self, context_id: str, generation: int) -> Mapping[str, int]:
        """How many rows are behind, by kind."""
        rows = await self._driver.fetch_all(_SQL["left"], context_id, generation)
        return {str(kind): int(number) for kind, number in rows}

    async def end(self, context_id: str, generation: int) -> None:
        """Delete links and path tags of earlier generations."""
        await self._driver.execute(_SQL["end_links"], context_id, generation)
        await self._driver.execute(_SQL["end_tags"], context_id, generation)


def _place(row: RotatedRow) -> tuple[Value, ...]:
    """What a row is found by, and its version where it has one."""
    if isinstance(row, PageRow):
        return (row.page_id, row.version)
    if isinstance(row, ProfileRow | ProfileChangeRow):
        return (row.namespace, row.version)
    if isinstance(row, HandoffRow):
        return (row.handoff_id, row.version)
    if isinstance(row, PartitionRow):
        return (row.partition_id, row.version)
    return (row.proposal_id,)

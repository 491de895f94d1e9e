"""Where the sealed names and descriptions of partitions are kept.

Implements ``ports.Partitions``. Which partitions there are, and who may do what in them, stands in the signed roster; a
row more or less here changes nothing but a name that is missing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from zkpcp.core.leaves import Journal
from zkpcp.core.stored import PartitionRow
from zkpcp.errors import ConflictError
from zkpcp.storage.driver import Driver, spread
from zkpcp.storage.statements import load

_SQL = load("partitions")
_partition = spread(PartitionRow)


class SqlPartitions:
    """Names of partitions in SQL."""

    def __init__(self, driver: Driver, journal: Journal) -> None:
        self._driver = driver
        self._journal = journal

    async def put(self, row: PartitionRow) -> None:
        """Insert version 1, or replace version n by n + 1. Raises ConflictError when another writer was first."""
        members = (row.context_id, row.partition_id, row.generation, row.version, row.updated_ms, row.sealed)
        stored = await self._driver.fetch_one(_SQL["stored"], row.context_id, row.partition_id)
        if row.version == 1:
            changed = await self._driver.execute(_SQL["first"], *members)
        else:
            changed = await self._driver.execute(_SQL["next"], *members, row.version - 1)
        if not changed:
            raise ConflictError("the partition changed meanwhile")
        if stored is not None:
            self._journal.took("partitions", _partition(stored))
        self._journal.put("partitions", row)

    async def partitions(self, context_id: str, partition_ids: Collection[str]) -> Sequence[PartitionRow]:
        """Those of these partitions that there are, by id."""
        rows = await self._driver.fetch_all(_SQL["partitions"], context_id, list(partition_ids))
        return [_partition(row) for row in rows]

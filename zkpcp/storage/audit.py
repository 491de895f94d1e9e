"""Where the access log is kept, and how its entries stay in one line.

Implements ``ports.Audit``. ``head`` locks the newest place until the transaction ends, so writers of one context take
turns from there on: ask for it last. The chain itself is made and checked elsewhere; here a place is given once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from zkpcp.core.stored import AuditHead, AuditRow
from zkpcp.errors import ConflictError, NotFoundError
from zkpcp.storage.driver import Driver, Row, pack, spread, unpack
from zkpcp.storage.statements import load

_SQL = load("audit")
_head = spread(AuditHead)
_row = spread(AuditRow)
_NO_LIMIT: Final = 2**63 - 1


class SqlAudit:
    """The access log in SQL."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    async def head(self, context_id: str) -> AuditHead:
        """The newest place in the chain, locked. Raises NotFoundError for an unknown context."""
        row = await self._driver.fetch_one(_SQL["head"], context_id)
        if row is None:
            raise NotFoundError("there is no such context")
        return _head(row)

    async def newest(self, context_id: str) -> AuditHead:
        """The newest place in the chain, not locked. Raises NotFoundError for an unknown context."""
        row = await self._driver.fetch_one(_SQL["newest"], context_id)
        if row is None:
            raise NotFoundError("there is no such context")
        return _head(row)

    async def hash_of(self, context_id: str, seq: int) -> bytes | None:
        """The hash of one entry."""
        row = await self._driver.fetch_one(_SQL["hash_of"], context_id, seq)
        return None if row is None else bytes(row[0])

    async def append(self, row: AuditRow, roster_version: int = 0) -> None:
        """Insert the entry. Raises ConflictError unless it follows the newest one."""
        moved = await self._driver.execute(
            _SQL["advance"], row.context_id, row.seq, row.hash, row.seq - 1, roster_version
        )
        if not moved:
            raise ConflictError("the audit entry does not follow the newest one")
        await self._driver.execute(
            _SQL["append"],
            row.context_id,
            row.seq,
            row.at_ms,
            row.action,
            row.outcome,
            pack(row.categories),
            row.entry,
            row.hash,
            pack(row.partitions),
        )

    async def entries(
        self,
        context_id: str,
        *,
        limit: int,
        before_seq: int | None = None,
        since_ms: int | None = None,
        action: str | None = None,
        category: str | None = None,
        outcome: str | None = None,
        partitions: Collection[str] | None = None,
    ) -> Sequence[AuditRow]:
        """Newest first, strictly below ``before_seq`` and not before ``since_ms``."""
        rows = await self._driver.fetch_all(
            _SQL["entries"],
            context_id,
            _NO_LIMIT if before_seq is None else before_seq,
            0 if since_ms is None else since_ms,
            action,
            category,
            outcome,
            limit,
            None if partitions is None else list(partitions),
        )
        return [_entry(row) for row in rows]


def _entry(row: Row) -> AuditRow:
    return _row((*row[:5], unpack(row[5]), *row[6:-1], unpack(row[-1])))

"""The access log keeps its order on every engine."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any

import pytest

from tests.contract.rows import HERE, NOW, context, entry
from zkpcp.core.stored import AuditHead
from zkpcp.errors import ConflictError, NotFoundError
from zkpcp.ports import Store


@pytest.fixture(autouse=True)
async def _context(store: Store) -> None:
    async with store.write() as tx:
        await tx.contexts.add(context())


async def test_the_head_moves_with_every_entry_and_nothing_is_appended_elsewhere(store: Store) -> None:
    async with store.write() as tx:
        assert await tx.audit.head(HERE) == AuditHead(0, bytes(32))
        await tx.audit.append(entry(1))
        assert await tx.audit.head(HERE) == AuditHead(1, entry(1).hash)
        for wrong in (entry(1), entry(3), entry(1, context_id="stranger")):
            with pytest.raises(ConflictError):
                await tx.audit.append(wrong)
        await tx.audit.append(entry(2))
        with pytest.raises(NotFoundError):
            await tx.audit.head("stranger")

    async with store.read() as tx:
        assert await tx.audit.entries(HERE, limit=10) == [entry(2), entry(1)]


async def test_parallel_writers_make_one_chain_without_gap_or_fork(store: Store) -> None:
    async def append(name: int) -> None:
        async with store.write() as tx:
            head = await tx.audit.head(HERE)
            digest = hashlib.sha256(head.hash + bytes([name])).digest()
            await tx.audit.append(entry(head.seq + 1, entry=bytes([name]), hash=digest))

    await asyncio.gather(*(append(name) for name in range(24)))

    async with store.read() as tx:
        entries = list(reversed(await tx.audit.entries(HERE, limit=100)))
    assert [row.seq for row in entries] == list(range(1, 25))
    assert {row.entry[0] for row in entries} == set(range(24))
    before = bytes(32)
    for row in entries:
        assert row.hash == hashlib.sha256(before + row.entry).digest()
        before = row.hash


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, [5, 4, 3, 2, 1]),
        ({"limit": 2}, [5, 4]),
        ({"before_seq": 4}, [3, 2, 1]),
        ({"before_seq": 1}, []),
        ({"since_ms": NOW + 4}, [5, 4]),
        ({"action": "memory.write"}, [4, 2]),
        ({"category": "memory.sensitive"}, [3, 2]),
        ({"category": "memory"}, [5, 3, 1]),
        ({"category": "mem%"}, []),
        ({"outcome": "denied"}, [5]),
        ({"action": "memory.read", "category": "memory", "before_seq": 5, "since_ms": NOW + 2}, [3]),
    ],
)
async def test_the_log_is_read_newest_first_under_every_filter(
    store: Store, filters: dict[str, Any], expected: list[int]
) -> None:
    rows = [
        entry(1),
        entry(2, action="memory.write", categories=("memory.sensitive",)),
        entry(3, categories=("memory", "memory.sensitive")),
        entry(4, action="memory.write", categories=()),
        entry(5, outcome="denied"),
    ]
    async with store.write() as tx:
        for row in rows:
            await tx.audit.append(row)

    async with store.read() as tx:
        found = await tx.audit.entries(HERE, **({"limit": 10} | filters))
    assert [row.seq for row in found] == expected
    assert all(row == rows[row.seq - 1] for row in found)

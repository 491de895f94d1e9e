"""Attempts are counted one by one on every engine, whoever counts at the same time."""

from __future__ import annotations

import asyncio

import pytest

from tests.contract.rows import NOW
from zkpcp.core.stored import Counted
from zkpcp.ports import Store


@pytest.mark.requirement("SEC-01")
async def test_a_window_counts_until_its_end_and_then_starts_anew(store: Store) -> None:
    async with store.write() as tx:
        first = await tx.counters.add("a", 1, now_ms=NOW, ends_ms=NOW + 10)
        second = await tx.counters.add("a", 2, now_ms=NOW + 9, ends_ms=NOW + 19)
        assert (first, second) == (Counted(1, NOW + 10), Counted(3, NOW + 10))
        assert await tx.counters.count("a", NOW + 9) == second
        assert await tx.counters.count("a", NOW + 10) is None
        assert await tx.counters.add("a", 1, now_ms=NOW + 10, ends_ms=NOW + 20) == Counted(1, NOW + 20)
        assert await tx.counters.count("b", NOW) is None

        await tx.counters.clear("a")
        assert await tx.counters.count("a", NOW + 10) is None


async def test_of_many_who_count_at_once_each_sees_a_number_of_its_own(store: Store) -> None:
    async def count() -> int:
        async with store.write() as tx:
            return (await tx.counters.add("a", 1, now_ms=NOW, ends_ms=NOW + 10)).count

    assert sorted(await asyncio.gather(*(count() for _ in range(8)))) == list(range(1, 9))


async def test_windows_that_have_ended_are_swept(store: Store) -> None:
    async with store.write() as tx:
        await tx.counters.add("over", 1, now_ms=NOW, ends_ms=NOW + 10)
        await tx.counters.add("open", 1, now_ms=NOW, ends_ms=NOW + 11)
        await tx.counters.sweep(NOW + 10)

        assert await tx.counters.count("over", NOW) is None
        assert await tx.counters.count("open", NOW) == Counted(1, NOW + 11)

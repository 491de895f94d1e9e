"""Hand-offs keep their promises on every engine."""

from __future__ import annotations

import asyncio

import pytest

from tests.contract.rows import ELSEWHERE, HERE, NOW, context, handoff
from zkpcp.errors import ConflictError
from zkpcp.ports import Store


@pytest.fixture(autouse=True)
async def _contexts(store: Store) -> None:
    async with store.write() as tx:
        await tx.contexts.add(context())
        await tx.contexts.add(context(context_id=ELSEWHERE, handle="elsewhere"))


async def test_versions_follow_each_other(store: Store) -> None:
    async with store.write() as tx:
        with pytest.raises(ConflictError):
            await tx.handoffs.put(handoff(2))
        await tx.handoffs.put(handoff(1))
        for wrong in (1, 3):
            with pytest.raises(ConflictError):
                await tx.handoffs.put(handoff(wrong))
        await tx.handoffs.put(handoff(2, sealed=b"two", generation=2, updated_ms=NOW + 1, expires_ms=NOW + 9))

    async with store.read() as tx:
        expected = handoff(2, sealed=b"two", generation=2, updated_ms=NOW + 1, expires_ms=NOW + 9)
        assert await tx.handoffs.handoff(HERE, "handoff", NOW) == expected


async def test_a_list_has_the_last_changed_first_and_nothing_expired_or_of_another_context(store: Store) -> None:
    rows = [
        handoff(handoff_id="b"),
        handoff(handoff_id="a"),
        handoff(handoff_id="new", updated_ms=NOW + 1),
        handoff(handoff_id="over", expires_ms=NOW),
        handoff(handoff_id="theirs", context_id=ELSEWHERE),
    ]
    async with store.write() as tx:
        for row in rows:
            await tx.handoffs.put(row)

    async with store.read() as tx:
        assert [row.handoff_id for row in await tx.handoffs.handoffs(HERE, NOW)] == ["new", "a", "b"]
        assert await tx.handoffs.handoff(HERE, "over", NOW) is None
        assert await tx.handoffs.handoff(HERE, "theirs", NOW) is None
        assert await tx.handoffs.count(HERE) == 4


@pytest.mark.requirement("ERA-08")
async def test_what_has_expired_is_deleted_and_counted(store: Store) -> None:
    async with store.write() as tx:
        await tx.handoffs.put(handoff(handoff_id="over", expires_ms=NOW))
        await tx.handoffs.put(handoff(handoff_id="soon", expires_ms=NOW + 1))
        await tx.handoffs.put(handoff(context_id=ELSEWHERE, expires_ms=NOW))

    async with store.write() as tx:
        assert await tx.handoffs.delete_expired(HERE, NOW) == 1
        assert await tx.handoffs.delete_expired(HERE, NOW) == 0
        assert (await tx.handoffs.count(HERE), await tx.handoffs.count(ELSEWHERE)) == (1, 1)


async def test_a_locked_handoff_loses_no_update(store: Store) -> None:
    async with store.write() as tx:
        await tx.handoffs.put(handoff())

    async def write_on() -> None:
        async with store.write() as tx:
            row = await tx.handoffs.handoff(HERE, "handoff", NOW, lock=True)
            assert row is not None
            await tx.handoffs.put(handoff(row.version + 1))

    await asyncio.gather(*(write_on() for _ in range(6)))

    async with store.read() as tx:
        assert [row.version for row in await tx.handoffs.handoffs(HERE, NOW)] == [7]

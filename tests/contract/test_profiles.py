"""Profiles and their change log keep their promises on every engine."""

from __future__ import annotations

import asyncio

import pytest

from tests.contract.rows import HERE, change, context, profile
from zkpcp.errors import ConflictError
from zkpcp.ports import Store


@pytest.fixture(autouse=True)
async def _context(store: Store) -> None:
    async with store.write() as tx:
        await tx.contexts.add(context())


async def test_profile_versions_follow_each_other_and_each_leaves_a_change(store: Store) -> None:
    async with store.write() as tx:
        with pytest.raises(ConflictError):
            await tx.profiles.put(profile(2), change(2))
        await tx.profiles.put(profile(1), change(1, client="client"))
        for wrong in (1, 3):
            with pytest.raises(ConflictError):
                await tx.profiles.put(profile(wrong), change(wrong))
        await tx.profiles.put(profile(2, sealed=b"two", generation=2), change(2))
        await tx.profiles.put(profile(1, namespace="profile.team"), change(1, namespace="profile.team"))

    async with store.read() as tx:
        assert await tx.profiles.profile(HERE, "profile.core") == profile(2, sealed=b"two", generation=2)
        assert await tx.profiles.profile(HERE, "profile.other") is None
        assert await tx.profiles.changes(HERE, "profile.core", 10) == [change(2), change(1, client="client")]
        assert await tx.profiles.changes(HERE, "profile.core", 1) == [change(2)]


async def test_a_locked_profile_loses_no_update(store: Store) -> None:
    async with store.write() as tx:
        await tx.profiles.put(profile(1), change(1))

    async def write_on() -> None:
        async with store.write() as tx:
            row = await tx.profiles.profile(HERE, "profile.core", lock=True)
            assert row is not None
            await tx.profiles.put(profile(row.version + 1), change(row.version + 1))

    await asyncio.gather(*(write_on() for _ in range(6)))

    async with store.read() as tx:
        assert [row.version for row in await tx.profiles.changes(HERE, "profile.core", 10)] == [7, 6, 5, 4, 3, 2, 1]

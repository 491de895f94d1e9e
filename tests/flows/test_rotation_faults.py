"""A store that fails at any one of its calls: a change of keys loses nothing, and goes on as if it had not begun."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any

import pytest

from tests.flows.test_rotation import filled, finish, left
from tests.flows.usecase_support import EVERYTHING, Granted, World
from zkpcp.errors import UnavailableError
from zkpcp.ports import Store, Transaction
from zkpcp.testing import MemoryStore
from zkpcp.usecases.rotation import Left, Rotating, begin_rotation, rotation_left
from zkpcp.usecases.verify import verify_context


@dataclass
class Fuse:
    """Counts calls of a store and fails at the n-th; 0: never."""

    at: int = 0
    count: int = 0

    def burn(self) -> None:
        self.count += 1
        if self.count == self.at:
            raise UnavailableError("the store has failed")


class _Fused:
    """Whatever has methods, each of which may fail."""

    def __init__(self, plain: object, fuse: Fuse) -> None:
        self._plain = plain
        self._fuse = fuse

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any port's method, or one of a transaction's ports
        found = getattr(self._plain, name)
        return _fused(found, self._fuse) if callable(found) else _Fused(found, self._fuse)


def _fused(method: Callable[..., Awaitable[Any]], fuse: Fuse) -> Callable[..., Awaitable[Any]]:
    @wraps(method)
    async def fused(*args: Any, **named: Any) -> Any:  # noqa: ANN401 - passed on as it came
        fuse.burn()
        return await method(*args, **named)

    return fused


class FailingStore:
    """A store whose n-th call fails: a read, a write or a commit."""

    def __init__(self, store: Store, fuse: Fuse) -> None:
        self._store = store
        self._fuse = fuse

    @asynccontextmanager
    async def read(self) -> AsyncIterator[Transaction]:
        async with self._store.read() as tx:
            yield _Fused(tx, self._fuse)

    @asynccontextmanager
    async def write(self) -> AsyncIterator[Transaction]:
        async with self._store.write() as tx:
            yield _Fused(tx, self._fuse)
            self._fuse.burn()

    async def close(self) -> None:
        await self._store.close()


async def rotate(world: World) -> None:
    """Begin, all steps and the end, or what is left of them."""
    async with world.open() as session:
        if not (await rotation_left(world.services, session)).under_way:
            await begin_rotation(world.services, session)
        rotating = Rotating(world.services, session)
        while await rotating.step():
            pass
        await rotating.end()


async def reads_all(world: World, granted: Granted) -> None:
    async with world.client(granted) as client:
        assert (await client.read("notes/boat")).body == "behind the weir"
        assert (await client.read("notes/key")).body == "on the beam"
        assert await client.found("weir beam") in (["notes/boat", "notes/key"], ["notes/key", "notes/boat"])
        assert await client.found("behind weir") == ["notes/boat"]
        assert (await client.profiles()).by_namespace["profile.core"] is not None


async def fails_at(world: World, granted: Granted, number: int) -> bool:
    """Change all keys with a store that fails at its n-th call, then without; False when it has fewer calls."""
    fuse = Fuse(number)
    failing = world.with_store(FailingStore(world.store, fuse))
    try:
        await rotate(failing)
    except UnavailableError:
        await reads_all(world, granted)
        if (await left(world)).under_way:
            await finish(world)
        else:
            await rotate(world)
    await reads_all(world, granted)
    assert await left(world) == Left(under_way=False)
    return fuse.count >= number


@pytest.mark.requirement("KEY-12", "KEY-07")
async def test_whichever_call_of_the_store_fails_nothing_is_lost_and_the_change_of_keys_goes_on(world: World) -> None:
    await filled(world)
    granted = await world.grant(*EVERYTHING)
    assert isinstance(world.store, MemoryStore)
    before, number = world.tables(), 1
    while await fails_at(world, granted, number):
        number += 1
        world.store._committed = before
    assert number > 100
    async with world.open() as session:
        assert all(check.holds for check in await verify_context(world.services, session, lambda *_: None))


@pytest.mark.parametrize("world_url", ["world_sqlite", "world_postgres"], indirect=True)
@pytest.mark.requirement("KEY-12", "KEY-07")
async def test_in_a_database_one_change_of_keys_after_another_survives_a_failing_call(stored_world: World) -> None:
    world = stored_world
    await filled(world)
    granted = await world.grant(*EVERYTHING)
    for number in range(3, 140, 19):
        await fails_at(world, granted, number)
    async with world.open() as session:
        assert session.keyring.roster.generation >= 8
        assert all(check.holds for check in await verify_context(world.services, session, lambda *_: None))

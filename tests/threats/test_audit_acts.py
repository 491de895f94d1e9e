"""Acts that end in the middle: the client leaves, or the store lets them down. What was opened is in the log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest

from tests.flows.usecase_support import EVERYTHING, PASSPHRASE, Hand, World, each_store, follows
from zkpcp.core.audit import Outcome
from zkpcp.errors import InvalidTokenError, TooLargeError, UnavailableError
from zkpcp.ports import Store, Transaction
from zkpcp.usecases.session import open_session, recover, sign_in


@dataclass
class SlowWrites:
    """A store whose next write waits, or fails, before it begins; those after it are the store's own."""

    store: Store
    error: UnavailableError | None = None
    reached: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def read(self) -> AsyncIterator[Transaction]:
        async with self.store.read() as tx:
            yield tx

    @asynccontextmanager
    async def write(self) -> AsyncIterator[Transaction]:
        if not self.reached.is_set():
            self.reached.set()
            if self.error is not None:
                raise self.error
            await asyncio.Event().wait()
        async with self.store.write() as tx:
            yield tx

    async def close(self) -> None:
        await self.store.close()


@each_store
@pytest.mark.parametrize("act", ["read", "search", "list"])
@pytest.mark.requirement("KEY-07", "AUD-05")
async def test_a_client_that_hangs_up_after_decryption_is_in_the_log(stored_world: World, act: str) -> None:
    world = stored_world
    granted = await world.grant(*EVERYTHING)
    async with world.owner() as owner:
        await owner.write("notes/boat", "the boat is under the willow")
    before = len(await world.entries())
    slow = SlowWrites(world.store)

    async with world.with_store(slow).client(granted) as client:
        acts = {"read": client.read("notes/boat"), "search": client.search("boat"), "list": client.list()}
        for name, other in acts.items():
            if name != act:
                other.close()
        working = asyncio.create_task(acts[act])
        await slow.reached.wait()
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working

    entries = await world.entries()
    assert len(entries) == before + 1
    assert (entries[-1].action, entries[-1].outcome, entries[-1].decrypted) == (f"memory_{act}", Outcome.ERROR, True)
    assert follows(await world.audit_rows())


@each_store
@pytest.mark.requirement("KEY-07", "AUD-05")
async def test_an_act_that_the_store_lets_down_is_in_the_log_when_the_store_is_back(stored_world: World) -> None:
    granted = await stored_world.grant(*EVERYTHING)
    async with stored_world.owner() as owner:
        await owner.write("notes/boat", "the boat is under the willow")
    before = len(await stored_world.entries())
    failing = SlowWrites(stored_world.store, UnavailableError("the database is busy"))

    async with stored_world.with_store(failing).client(granted) as client:
        with pytest.raises(UnavailableError):
            await client.read("notes/boat")

    entries = await stored_world.entries()
    assert len(entries) == before + 1
    assert (entries[-1].action, entries[-1].outcome, entries[-1].decrypted) == ("memory_read", Outcome.ERROR, True)


@each_store
@pytest.mark.requirement("KEY-12")
async def test_a_recovery_ends_every_session_that_was_open(stored_world: World) -> None:
    other = await sign_in(stored_world.services, stored_world.context, passphrase=PASSPHRASE)

    new = await recover(
        stored_world.services,
        stored_world.context,
        recovery_code=stored_world.recovery_code,
        new_passphrase="nine otters below the mill",
    )

    for old in (stored_world.session, other):
        with pytest.raises(InvalidTokenError):
            async with open_session(stored_world.services, stored_world.context, old):
                pass
    async with open_session(stored_world.services, stored_world.context, new) as session:
        assert session.principal == stored_world.context.controller


@each_store
@pytest.mark.requirement("MEM-22")
async def test_the_limit_of_pages_counts_what_waits_in_quarantine(stored_world: World) -> None:
    granted = await stored_world.grant("memory:write")
    small = replace(stored_world.services, max_pages=3)

    async with stored_world.client(granted) as client:
        hand = Hand(small, client.who)
        for number in range(3):
            await hand.write(f"style/letters-{number}", "Short sentences.", sensitivity="sensitive")
        with pytest.raises(TooLargeError):
            await hand.write("style/letters-3", "Short sentences.", sensitivity="sensitive")

    async with stored_world.owner() as owner:
        assert len((await owner.list()).heads) == 3

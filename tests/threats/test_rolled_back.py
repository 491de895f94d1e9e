"""A database that is rolled back as a whole, consistent in itself: refused by every token and session that saw more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.flows.usecase_support import EVERYTHING, World, every_store
from zkpcp.core.stored import AuditHead
from zkpcp.errors import InvalidTokenError
from zkpcp.testing import _Tables
from zkpcp.usecases.access import Caller, acting, authenticate
from zkpcp.usecases.session import sign_in
from zkpcp.vault.seeds import log_mark, marked_entry


def rolled_back(now: _Tables, before: _Tables) -> _Tables:
    """All as it was before, but for the sessions, wraps and tokens that a host has to leave for anybody to come in."""
    return replace(before.copy(), sessions=dict(now.sessions), tokens=dict(now.tokens), grants=dict(now.grants))


async def opens(world: World) -> bool:
    try:
        async with world.open():
            return True
    except InvalidTokenError:
        return False


@pytest.mark.requirement("KEY-10", "AUD-05")
async def test_a_session_refuses_a_database_older_than_its_sign_in(world: World) -> None:
    async with world.owner() as owner:
        await owner.write("plan", "sail on Sunday")
    before = world.tables()
    async with world.owner() as owner:
        await owner.write("plan", "sail on Monday")
    old = world.session
    await world.sign_in()
    now = world.tables()
    assert await opens(world)

    world.store._committed = rolled_back(now, before)  # type: ignore[attr-defined]  # a store in memory
    assert not await opens(world)
    assert (await world.last_entry()).action == "tampering.found"

    # Whoever saw no more than that state has in it comes in: a complete older state is consistent in itself.
    world.store._committed = rolled_back(now, before)  # type: ignore[attr-defined]  # as above
    world.session = old
    async with world.owner() as owner:
        assert (await owner.read("plan")).body == "sail on Sunday"


@pytest.mark.requirement("KEY-10")
async def test_a_log_that_a_host_wrote_on_by_itself_is_not_the_one_that_was_seen(world: World) -> None:
    before = world.tables()
    async with world.owner() as owner:
        for number in range(3):
            await owner.write(f"notes/{number}", "text")
    await world.sign_in()
    now = world.tables()

    # The host rolls back, and lets other acts fill the log up to the entry that the session remembers and beyond.
    world.store._committed = rolled_back(now, before)  # type: ignore[attr-defined]  # a store in memory
    for _ in range(12):
        with pytest.raises(Exception, match="do not fit"):
            await sign_in(world.services, world.context, passphrase="not the passphrase")
    assert len(await world.audit_rows()) > len(now.entries)
    assert not await opens(world)


@every_store
@pytest.mark.requirement("KEY-10")
async def test_what_a_session_remembers_is_the_newest_entry_of_its_time(stored_world: World) -> None:
    rows = await stored_world.audit_rows()
    await stored_world.sign_in()
    async with stored_world.open() as session:
        mark = session.keyring.log_mark
    assert (marked_entry(mark), mark) == (rows[-1].seq, log_mark(AuditHead(rows[-1].seq, rows[-1].hash)))
    async with stored_world.owner() as owner:
        await owner.write("plan", "sail")
    async with stored_world.open() as session:
        assert session.keyring.log_mark == mark


async def test_a_token_without_that_memory_opens_as_before(world: World) -> None:
    granted = await world.grant(*EVERYTHING)
    caller = await authenticate(world.services, world.context, granted.token)
    assert isinstance(caller, Caller)
    async with acting(world.services, caller) as who:
        assert not any(who.keys.log_mark)

"""Signing in, staying signed in, and getting back in with the recovery code (KEY-10 to KEY-13)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from typing_extensions import override

from tests.flows.usecase_support import HOUR_MS, MINUTE_MS, PASSPHRASE, World, every_store
from zkpcp.core.audit import Outcome
from zkpcp.errors import InvalidInputError, InvalidTokenError, SignInError
from zkpcp.testing import MemoryStore, _Tables, _Transaction
from zkpcp.usecases.session import open_session, recover, sign_in, sign_out
from zkpcp.vault.secrets import new_recovery_code

NEW_PASSPHRASE = "nine egrets under the bridge"


@every_store
@pytest.mark.requirement("AUD-05")
async def test_a_session_opens_until_it_is_ended(stored_world: World) -> None:
    async with stored_world.owner() as owner:
        await owner.write("a", "text")

    await sign_out(stored_world.services, stored_world.context, stored_world.session)
    await sign_out(stored_world.services, stored_world.context, stored_world.session)

    with pytest.raises(InvalidTokenError):
        async with stored_world.owner():
            pytest.fail("an ended session opened")
    entries = [entry.action for entry in await stored_world.entries()]
    assert entries == ["context.created", "sign_in", "memory_write", "sign_out"]


async def test_a_session_ends_after_a_quarter_hour_of_rest_and_after_eight_hours(world: World) -> None:
    for _ in range(3):
        world.clock.advance(15 * MINUTE_MS - 1)
        async with world.open():
            pass
    world.clock.advance(15 * MINUTE_MS)
    with pytest.raises(InvalidTokenError):
        async with world.open():
            pytest.fail("an idle session opened")

    await world.sign_in()
    for _ in range(8 * 6 - 1):
        world.clock.advance(10 * MINUTE_MS)
        async with world.open():
            pass
    world.clock.advance(8 * HOUR_MS - 47 * 10 * MINUTE_MS)
    with pytest.raises(InvalidTokenError):
        async with world.open():
            pytest.fail("a session of eight hours opened")


async def test_a_sign_in_sweeps_away_what_has_ended(world: World) -> None:
    world.clock.advance(8 * HOUR_MS)

    await world.sign_in()

    assert len(world.tables().sessions) == 1


@every_store
@pytest.mark.requirement("KEY-12")
async def test_a_recovery_code_sets_a_new_passphrase_and_the_old_one_opens_nothing(stored_world: World) -> None:
    services, context = stored_world.services, stored_world.context
    async with stored_world.owner() as owner:
        await owner.write("a", "text")

    stored_world.session = await recover(
        services, context, recovery_code=stored_world.recovery_code.lower(), new_passphrase=NEW_PASSPHRASE
    )

    async with stored_world.owner() as owner:
        assert (await owner.read("a")).body == "text"
    with pytest.raises(SignInError):
        await sign_in(services, context, passphrase=PASSPHRASE)
    await sign_in(services, context, passphrase=NEW_PASSPHRASE)
    changed = [entry for entry in await stored_world.entries() if entry.action == "credential.changed"]
    assert [(entry.outcome, entry.categories) for entry in changed] == [(Outcome.OK, ("keys",))]


@pytest.mark.requirement("KEY-13")
async def test_another_code_or_a_mistyped_one_opens_nothing_and_changes_nothing(world: World) -> None:
    services, context = world.services, world.context
    other = new_recovery_code(services.entropy).printable()
    before = dict(world.tables().wraps)

    with pytest.raises(SignInError):
        await recover(services, context, recovery_code=other, new_passphrase=NEW_PASSPHRASE)
    with pytest.raises(SignInError):
        await recover(services, None, recovery_code=other, new_passphrase=NEW_PASSPHRASE)
    for code, passphrase in (("A" + world.recovery_code[1:-1], NEW_PASSPHRASE), (world.recovery_code, "short")):
        with pytest.raises(InvalidInputError):
            await recover(services, context, recovery_code=code, new_passphrase=passphrase)

    assert world.tables().wraps == before
    assert [entry.outcome for entry in await world.entries()] == [Outcome.OK, Outcome.OK, Outcome.DENIED]


@pytest.mark.requirement("KEY-12")
async def test_a_recovery_that_opens_no_keyring_replaces_nothing(world: World) -> None:
    def spoil(tables: _Tables) -> None:
        for key, row in tables.keyrings.items():
            tables.keyrings[key] = replace(row, sealed=row.sealed[:-1] + bytes([row.sealed[-1] ^ 1]))

    before, sessions = dict(world.tables().wraps), dict(world.tables().sessions)
    world.tamper(spoil)

    with pytest.raises(SignInError):
        await recover(world.services, world.context, recovery_code=world.recovery_code, new_passphrase=NEW_PASSPHRASE)

    assert world.tables().wraps == before
    assert world.tables().sessions == sessions
    assert (await world.last_entry()).action == "tampering.found"


class CountingStore(MemoryStore):
    """A store that knows how often somebody wrote to it."""

    writes = 0

    @override
    @asynccontextmanager
    async def write(self) -> AsyncIterator[_Transaction]:
        self.writes += 1
        async with super().write() as tx:
            yield tx


@pytest.mark.requirement("KEY-12")
async def test_a_recovery_is_one_transaction() -> None:
    store = CountingStore()
    world = await World.founded(store, handle="bea")
    before = store.writes

    await recover(world.services, world.context, recovery_code=world.recovery_code, new_passphrase=NEW_PASSPHRASE)

    assert store.writes == before + 1
    assert [entry.action for entry in await world.entries()][-2:] == ["credential.changed", "sign_in"]
    assert len(world.tables().sessions) == 1


async def test_a_passphrase_is_one_however_its_accents_and_spaces_were_typed(world: World) -> None:
    world.session = await recover(
        world.services, world.context, recovery_code=world.recovery_code, new_passphrase="ninety nine caf\u00e9s"
    )

    await sign_in(world.services, world.context, passphrase="ninety\u00a0nine cafe\u0301s")


async def test_the_token_of_one_context_opens_no_session_in_another(world: World) -> None:
    other = await World.founded(world.store, handle="bea")

    with pytest.raises(InvalidTokenError):
        async with open_session(other.services, other.context, world.session):
            pytest.fail("a foreign session opened")

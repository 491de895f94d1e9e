"""Locking a context: every key copy but the controller's is gone until it is unlocked, and no app has to ask again."""

from __future__ import annotations

from dataclasses import replace

import pytest
from httpx2 import Response

from tests.flows.oauth_support import PASSPHRASE as OAUTH_PASSPHRASE
from tests.flows.oauth_support import OAuthServer, oauth_server
from tests.flows.usecase_support import DEFAULT_GRANT, EVERYTHING, PASSPHRASE, Granted, Member, World, every_store
from zkpcp.core.audit import Outcome
from zkpcp.errors import ConflictError, ForbiddenError, InvalidTokenError, LockedError
from zkpcp.testing import MemoryStore, _Tables
from zkpcp.usecases.access import LockedCaller, authenticate
from zkpcp.usecases.grants import create_grant
from zkpcp.usecases.lock import lock_context, unlock_context
from zkpcp.usecases.partitions import create_partition
from zkpcp.usecases.session import open_session, sign_in


async def lock(world: World) -> None:
    async with world.open() as session:
        await lock_context(world.services, session)
    await world.refresh()


async def unlock(world: World) -> int:
    await world.sign_in()
    async with world.open() as session:
        sealed = await unlock_context(world.services, session)
    await world.refresh()
    return sealed


async def is_answered_locked(world: World, granted: Granted) -> bool:
    return isinstance(await authenticate(world.services, world.context, granted.token), LockedCaller)


@every_store
@pytest.mark.requirement("KEY-10")
async def test_an_app_waits_while_the_context_is_locked_and_goes_on_afterwards(stored_world: World) -> None:
    world = stored_world
    granted = await world.grant(*EVERYTHING)
    async with world.client(granted) as client:
        await client.write("notes/boat", "under the willow")

    await lock(world)
    assert await is_answered_locked(world, granted)

    assert await unlock(world) == 1
    async with world.client(granted) as client:
        assert (await client.read("notes/boat")).body == "under the willow"
    actions = [entry.action for entry in await world.entries()]
    assert [actions.count(action) for action in ("context.locked", "context.unlocked")] == [1, 1]


@every_store
@pytest.mark.requirement("KEY-10", "KEY-08")
async def test_locking_leaves_one_keyring_and_no_session(stored_world: World) -> None:
    world = stored_world
    await world.grant(*DEFAULT_GRANT)
    await lock(world)

    async with world.store.read() as tx:
        grants = await tx.grants.list_grants(world.context_id)
        assert [await tx.grants.keyring(world.context_id, "grant", each.grant_id, 1) for each in grants] == [None]
        assert await tx.grants.principal_keyring(world.context_id, world.context.controller) is not None
    with pytest.raises(InvalidTokenError):
        async with world.open():
            pass


@pytest.mark.requirement("KEY-10", "KEY-15")
async def test_a_host_that_turns_the_flag_back_opens_nothing_with_a_stolen_token(world: World) -> None:
    granted = await world.grant(*EVERYTHING)
    await lock(world)

    def turn_back(tables: _Tables) -> None:
        tables.contexts[world.context_id] = replace(tables.contexts[world.context_id], locked_ms=None)

    world.tamper(turn_back)
    await world.refresh()

    assert world.context.locked_ms is None
    assert await is_answered_locked(world, granted)


async def test_a_grant_that_was_changed_while_it_was_locked_gets_no_keys(world: World) -> None:
    honest = await world.grant(*DEFAULT_GRANT)
    turned = await world.grant(*DEFAULT_GRANT)
    await lock(world)

    def widen(tables: _Tables) -> None:
        row = tables.grants[world.context_id, turned.grant_id]
        tables.grants[world.context_id, turned.grant_id] = replace(row, scopes=EVERYTHING)

    world.tamper(widen)

    assert await unlock(world) == 1
    assert not await is_answered_locked(world, honest)
    assert await is_answered_locked(world, turned)
    found = [entry for entry in await world.entries() if entry.action == "tampering.found"]
    assert [(entry.grant, entry.outcome) for entry in found] == [(turned.grant_id, Outcome.ERROR)]


async def test_while_it_is_locked_nobody_gets_new_keys(world: World) -> None:
    await lock(world)
    await world.sign_in()

    async with world.open() as session:
        with pytest.raises(LockedError):
            await create_grant(world.services, session, client_name="script")
        with pytest.raises(LockedError):
            await create_partition(world.services, session, name="garden", description="")
        with pytest.raises(ConflictError):
            await lock_context(world.services, session)
    assert await unlock(world) == 0
    async with world.open() as session:
        with pytest.raises(ConflictError):
            await unlock_context(world.services, session)


async def test_the_owner_can_still_read_and_disconnect_while_it_is_locked(world: World) -> None:
    async with world.owner() as owner:
        await owner.write("notes/boat", "under the willow")
    await lock(world)
    await world.sign_in()

    async with world.owner() as owner:
        assert (await owner.read("notes/boat")).body == "under the willow"


@pytest.mark.requirement("KEY-10")
async def test_members_are_out_while_it_is_locked_and_back_in_afterwards() -> None:
    world = await World.founded(MemoryStore(), kind="team")
    bob: Member = await world.join("bob")
    granted = await world.grant(*DEFAULT_GRANT, member=bob)
    async with bob.open() as session:
        with pytest.raises(ForbiddenError):
            await lock_context(world.services, session)

    await lock(world)
    assert await is_answered_locked(world, granted)
    assert not await has_keys(world, "human:bob")

    assert await unlock(world) == 1
    assert not await is_answered_locked(world, granted)
    assert await has_keys(world, "human:bob")


async def has_keys(world: World, principal: str) -> bool:
    async with world.store.read() as tx:
        return await tx.grants.principal_keyring(world.context_id, principal) is not None


async def test_the_page_locks_signs_out_and_unlocks() -> None:
    server = await oauth_server()
    client_id = await server.client_id()
    token = str((await server.tokens(client_id))["access_token"])

    assert (await press(server, "lock")).status_code == 400  # not confirmed
    assert (await press(server, "lock", sure="yes")).headers["location"].endswith("/sign-in")
    assert (await server.get(f"{server.base}/", signed_in=True)).headers["location"].startswith("/c/")
    locked = await context_of(server)
    assert isinstance(await authenticate(server.services, locked.context, token), LockedCaller)

    session = await sign_in(server.services, locked.context, passphrase=OAUTH_PASSPHRASE)
    [name] = server.cookies
    again = replace(locked, cookies={name: session.text()})
    home = await again.get(f"{again.base}/", signed_in=True)
    assert "This context is locked" in home.text
    assert "Lock everything" not in home.text
    assert (await press(again, "unlock")).status_code == 303
    assert "This context is locked" not in (await again.get(f"{again.base}/", signed_in=True)).text


async def press(server: OAuthServer, button: str, **fields: str) -> Response:
    home = await server.get(f"{server.base}/", signed_in=True)
    form = {"form_token": hidden_first(home.text), **fields}
    async with server.http(signed_in=True) as http:
        headers = {"origin": server.origin, "sec-fetch-site": "same-origin"}
        return await http.post(f"{server.base}/{button}", data=form, headers=headers)


def hidden_first(page: str) -> str:
    return page.partition('name="form_token" value="')[2].partition('"')[0]


async def context_of(server: OAuthServer) -> OAuthServer:
    async with server.store.read() as tx:
        context = await tx.contexts.by_handle(server.context.handle)
    assert context is not None
    return replace(server, context=context)


async def test_a_session_from_before_the_lock_opens_nothing(world: World) -> None:
    other = await sign_in(world.services, world.context, passphrase=PASSPHRASE)
    await lock(world)

    with pytest.raises(InvalidTokenError):
        async with open_session(world.services, world.context, other):
            pass

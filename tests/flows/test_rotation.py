"""Changing all keys: a fresh root at once, everything sealed anew in steps, and the earlier keys gone at the end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from typing_extensions import override

from tests.flows.support_mcp import ask
from tests.flows.tools_support import endpoint_of
from tests.flows.usecase_support import EVERYTHING, World, every_store
from zkpcp.core.access import RIGHTS
from zkpcp.core.schemas import JsonObject
from zkpcp.core.slots import SubKeyRef
from zkpcp.errors import ChangedKeysError, ConflictError, ForbiddenError, LockedError
from zkpcp.testing import MemoryStore, _Tables, _Transaction
from zkpcp.usecases import principals
from zkpcp.usecases.access import LockedCaller, acting, authenticate
from zkpcp.usecases.forget import delete_page, recover_page
from zkpcp.usecases.indexing import rebuild_index
from zkpcp.usecases.joining import join
from zkpcp.usecases.lock import lock_context
from zkpcp.usecases.rotation import Left, Rotating, begin_rotation, rotation_left
from zkpcp.usecases.verify import verify_context
from zkpcp.usecases.versions import list_versions
from zkpcp.vault.keyring import MissingKeyError

SENSITIVE_WRITER = ("memory:read", "memory:write")


async def begin(world: World) -> None:
    async with world.open() as session:
        await begin_rotation(world.services, session)


async def left(world: World) -> Left:
    async with world.open() as session:
        return await rotation_left(world.services, session)


async def finish(world: World) -> None:
    async with world.open() as session:
        rotating = Rotating(world.services, session)
        while await rotating.step():
            pass
        assert rotating.damaged == 0
        await rotating.end()


async def filled(world: World) -> None:
    """One of everything that is kept."""
    async with world.owner() as owner:
        await owner.write("notes/boat", "under the willow")
        await owner.write("notes/boat", "behind the weir")
        await owner.write("notes/key", "on the beam", sensitivity="sensitive")
        gone = await owner.write("notes/gone", "the old mooring")
        await delete_page(world.services, owner.who, path="notes/gone", expected_updated=gone.updated)
        await owner.patch({"name": "Ada Reed", "interests": ["herons"]})


@every_store
@pytest.mark.requirement("KEY-12")
async def test_all_keys_change_and_everything_stays_readable_at_every_step(stored_world: World) -> None:
    world = stored_world
    await filled(world)
    granted = await world.grant(*EVERYTHING)
    rotating_rows = 0
    await begin(world)
    async with world.open() as session:
        rotating = Rotating(world.services, session)
        while True:
            async with world.client(granted) as client:
                assert (await client.read("notes/boat")).body == "behind the weir"
                assert (await client.read("NOTES/key")).body == "on the beam"
                assert await client.found("willow weir") == ["notes/boat"]
                assert sorted(await client.paths()) == ["notes/boat", "notes/key"]
            done = await rotating.step()
            if not done:
                break
            rotating_rows += done
        await rotating.end()
    assert rotating_rows >= 6
    assert await left(world) == Left(under_way=False)

    async with world.client(granted) as client:
        assert (await client.read("notes/boat")).body == "behind the weir"
        assert await client.found("beam") == ["notes/key"]
        assert (await client.profiles()).by_namespace["profile.core"] is not None
    async with world.owner() as owner:
        page = await owner.read("notes/boat")
        versions = await list_versions(world.services, owner.who, page.id)
        assert len(versions) == 2  # the one that is current stands in the list too
    async with world.open() as session:
        assert all(check.holds for check in await verify_context(world.services, session, lambda *_: None))
    actions = [entry.action for entry in await world.entries()]
    assert [actions.count(name) for name in ("key.rotated", "key.retired")] == [1, 1]


@every_store
@pytest.mark.requirement("KEY-12")
async def test_nothing_of_an_earlier_generation_is_left_at_the_end(stored_world: World) -> None:
    world = stored_world
    await filled(world)
    await begin(world)
    async with world.store.read() as tx:
        before = await tx.rotation.left(world.context_id, 2)
        assert await tx.rotation.links(world.context_id)
    assert {kind for kind, number in before.items() if number} >= {
        "pages",
        "page_versions",
        "deleted_pages",
        "profiles",
        "profile_changes",
        "path_tags",
        "index",
    }
    await finish(world)
    async with world.store.read() as tx:
        assert sum((await tx.rotation.left(world.context_id, 2)).values()) == 0
        assert not await tx.rotation.links(world.context_id)
        assert await tx.grants.keyring(world.context_id, "principal", world.context.controller, 1) is None


@pytest.mark.requirement("KEY-12")
async def test_the_end_is_refused_while_something_is_left(world: World) -> None:
    await filled(world)
    await begin(world)
    async with world.open() as session:
        rotating = Rotating(world.services, session)
        with pytest.raises(ConflictError, match="still sealed under the earlier keys"):
            await rotating.end()
        while await rotating.step():
            pass
        await rotating.end()


@every_store
@pytest.mark.requirement("KEY-12", "MEM-02")
async def test_pages_written_meanwhile_keep_their_paths_to_themselves(stored_world: World) -> None:
    world = stored_world
    await filled(world)
    await begin(world)
    async with world.owner() as owner:
        await owner.write("notes/new", "a second boat")
        await owner.write("notes/boat", "in the shed")
    await refuses_other_cases(world)
    await finish(world)
    await refuses_other_cases(world)
    async with world.owner() as owner:
        assert (await owner.write("notes/new", "one path")).created is False
        assert (await owner.write("notes/boat", "one path")).created is False
        assert sorted(await owner.found("path")) == ["notes/boat", "notes/new"]


async def refuses_other_cases(world: World) -> None:
    async with world.owner() as owner:
        for path in ("NOTES/new", "Notes/boat"):
            with pytest.raises(ConflictError, match="differs only in case"):
                await owner.write(path, "the same path in another case")


@every_store
@pytest.mark.requirement("KEY-12", "ERA-07")
async def test_a_page_deleted_before_comes_back_in_the_middle_and_is_found_by_its_path(stored_world: World) -> None:
    world = stored_world
    await filled(world)
    await begin(world)
    async with world.owner() as owner:
        (listed,) = await _deleted(world)
        await recover_page(world.services, owner.who, listed)
    await finish(world)
    async with world.owner() as owner:
        assert (await owner.read("notes/gone")).body == "the old mooring"
        assert await owner.found("mooring") == ["notes/gone"]


async def _deleted(world: World) -> list[str]:
    async with world.store.read() as tx:
        slots = ("memory/main", "memory.sensitive/main")
        return [row.head.page_id for row in await tx.pages.deleted(world.context_id, slots, world.clock.now_ms(), 9)]


@every_store
@pytest.mark.requirement("KEY-12", "MEM-22")
async def test_what_waits_in_quarantine_is_admitted_on_the_way(stored_world: World) -> None:
    world = stored_world
    granted = await world.grant(*SENSITIVE_WRITER)
    async with world.client(granted) as client:
        await client.write("notes/fee", "four coins", sensitivity="sensitive")
    await begin(world)
    assert (await left(world)).rows["inbox"] == 1
    await finish(world)
    async with world.owner() as owner:
        assert (await owner.read("notes/fee")).body == "four coins"


@every_store
@pytest.mark.requirement("KEY-12")
async def test_a_second_change_of_keys_begins_before_the_first_has_ended(stored_world: World) -> None:
    world = stored_world
    await filled(world)
    granted = await world.grant(*EVERYTHING)
    for number in range(3):
        await begin(world)
        async with world.client(granted) as client:
            await client.write(f"notes/{number}", f"written under key {number}")
            assert (await client.read("notes/boat")).body == "behind the weir"
    await finish(world)
    async with world.client(granted) as client:
        assert sorted(await client.found("written")) == ["notes/0", "notes/1", "notes/2"]
        assert (await client.read("notes/boat")).body == "behind the weir"


@every_store
@pytest.mark.requirement("KEY-12")
async def test_a_call_that_began_before_a_change_of_keys_stores_nothing_under_the_old_ones(stored_world: World) -> None:
    world = stored_world
    await filled(world)
    granted = await world.grant(*EVERYTHING)
    async with world.client(granted) as early:
        await begin(world)
        with pytest.raises(ChangedKeysError):
            await early.write("notes/late", "sealed under the old keys")
        with pytest.raises(ChangedKeysError):
            await early.read("notes/boat")
        await finish(world)
        with pytest.raises(ChangedKeysError):
            await early.read("notes/boat")
    async with world.client(granted) as client:
        assert "notes/late" not in await client.paths()
    assert "tampering.found" not in [entry.action for entry in await world.entries()]


@pytest.mark.requirement("KEY-12", "KEY-03")
async def test_a_slice_reaches_its_own_past_and_nothing_beside_it(world: World) -> None:
    await filled(world)
    granted = await world.grant("memory:read")
    await begin(world)
    async with world.client(granted) as client:
        keys = client.who.keys
        assert keys.key("memory/main", 1, "rec") is not None
        for ref in (
            SubKeyRef("memory.sensitive/main", "rec"),
            SubKeyRef("profile.core", "rec"),
            SubKeyRef("controller", "rec"),
        ):
            for generation in (1, 2):
                with pytest.raises(MissingKeyError):
                    keys.key(ref.slot, generation, ref.name)


@pytest.mark.requirement("KEY-12")
async def test_links_of_somebody_else_or_another_place_open_nothing(world: World) -> None:
    await filled(world)
    granted = await world.grant(*EVERYTHING)
    await begin(world)

    def swap(tables: _Tables) -> None:
        mine, other = ((world.context_id, "memory/main", 1, name) for name in ("rec", "head"))
        tables.links[mine] = replace(tables.links[mine], sealed=tables.links[other].sealed)

    before = dict(world.tables().links)
    world.tamper(swap)
    with pytest.raises(Exception, match="does not belong"):
        async with world.client(granted) as client:
            await client.read("notes/boat")
    world.tamper(lambda tables: tables.links.update(before))
    async with world.client(granted) as client:
        assert (await client.read("notes/boat")).body == "behind the weir"


@pytest.mark.requirement("KEY-12")
async def test_only_the_owner_changes_the_keys_and_not_while_the_context_is_locked(stored_team: World) -> None:
    world = stored_team
    bob = await world.join("bob")
    async with bob.open() as session:
        with pytest.raises(ForbiddenError):
            await begin_rotation(world.services, session)
        with pytest.raises(ForbiddenError):
            Rotating(world.services, session)
    async with world.open() as session:
        await lock_context(world.services, session)
    await world.sign_in()
    await world.refresh()
    with pytest.raises(LockedError):
        await begin(world)


@pytest.fixture
async def stored_team() -> World:
    return await World.founded(MemoryStore(), kind="team")


@pytest.mark.requirement("KEY-12", "CTX-07")
async def test_a_removal_changes_all_keys_and_the_others_go_on(stored_team: World) -> None:
    world = stored_team
    await world.join("bob")
    carol = await world.join("carol")
    async with carol.hand() as hand:
        await hand.write("plan", "sail on Sunday")
    async with world.open() as session:
        old = bytes(session.keyring.key("memory/main", 1, "rec"))
        await principals.remove(world.services, session, "human:bob")
    assert (await left(world)).under_way
    async with carol.hand() as hand:
        assert (await hand.read("plan")).body == "sail on Sunday"
        await hand.write("plan", "sail on Monday")
        assert bytes(hand.who.keys.key("memory/main", 2, "rec")) != old
    await finish(world)
    async with carol.hand() as hand:
        assert (await hand.read("plan")).body == "sail on Monday"


@pytest.mark.requirement("KEY-12")
async def test_an_invite_that_is_under_way_lets_somebody_in_after_the_keys_have_changed(stored_team: World) -> None:
    world = stored_team
    async with world.open() as session:
        invited = await principals.invite(
            world.services, session, principal="human:dora", rights={"main": frozenset(RIGHTS)}
        )
    await begin(world)
    await finish(world)
    await join(world.services, world.context, code=invited.code.printable(), passphrase="nine otters by the lock")
    async with world.open() as session:
        assert await principals.admit_joined(world.services, session) == ("human:dora",)


@pytest.mark.requirement("KEY-12")
async def test_a_record_that_does_not_open_stops_the_end_until_the_owner_leaves_it(world: World) -> None:
    await filled(world)
    async with world.owner() as owner:
        page = await owner.read("notes/boat")
    spoiled = world.tables().pages[world.context_id, page.id]

    def spoil(tables: _Tables) -> None:
        tables.pages[world.context_id, page.id] = replace(spoiled, updated_ms=spoiled.updated_ms + 1)

    world.tamper(spoil)
    await begin(world)
    async with world.open() as session:
        rotating = Rotating(world.services, session)
        while await rotating.step():
            pass
        assert rotating.damaged
        with pytest.raises(ConflictError, match="still sealed"):
            await rotating.end()
        await rotating.end(leave_damaged=True)
    assert not (await left(world)).under_way


@pytest.mark.requirement("KEY-12", "KEY-10")
async def test_a_keyring_of_before_is_worth_nothing_when_it_is_put_back(world: World) -> None:
    granted = await world.grant(*EVERYTHING)
    old = dict(world.tables().keyrings)
    await begin(world)

    def put_back(tables: _Tables) -> None:
        for (context_id, kind, holder, _), row in old.items():
            tables.keyrings[context_id, kind, holder, 2] = replace(row, epoch=2)

    world.tamper(put_back)
    caller = await authenticate(world.services, world.context, granted.token)
    assert not isinstance(caller, LockedCaller)
    with pytest.raises(Exception, match="not valid here"):
        async with acting(world.services, caller):
            pass


@pytest.mark.requirement("KEY-12", "MEM-17")
async def test_the_index_is_made_again_with_the_new_keys(world: World) -> None:
    await filled(world)
    async with world.owner() as owner:
        await rebuild_index(world.services, owner.who, lambda *_: None)
    await begin(world)
    await finish(world)
    assert {row.generation for row in world.tables().index_slots.values()} == {2}
    async with world.owner() as owner:
        assert await owner.found("weir") == ["notes/boat"]


class _BeginsMeanwhile(MemoryStore):
    """A store in which the owner changes all keys at the next write of somebody else."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._committed = world.tables()
        self._world = world.with_store(self)
        self.armed = False

    @override
    @asynccontextmanager
    async def write(self) -> AsyncIterator[_Transaction]:
        if self.armed:
            self.armed = False
            await begin(self._world)
        async with super().write() as tx:
            yield tx


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.requirement("KEY-12", "TOOL-08")
async def test_a_client_does_not_notice_that_the_keys_change_under_its_call(world: World, era: str) -> None:
    await filled(world)
    granted = await world.grant(*EVERYTHING)
    store = _BeginsMeanwhile(world)
    seen = world.with_store(store)
    app = endpoint_of(seen)
    store.armed = True

    arguments: JsonObject = {"path": "notes/late", "body": "under the bridge"}
    wrote = await ask(app, era, "tools/call", {"name": "memory_write", "arguments": arguments}, token=granted.token)

    assert not wrote.json()["result"]["isError"]
    assert (await left(seen)).under_way
    async with seen.client(granted) as client:
        page = await client.read("notes/late")
        assert page.body == "under the bridge"
    assert store._committed.pages[world.context_id, page.id].generation == 2
    assert [entry.outcome for entry in await seen.entries() if entry.action == "memory_write"][-1] == "ok"

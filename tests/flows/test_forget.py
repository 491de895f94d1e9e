"""Deleting pages, and having them back while there is time (PCP §5.2, §8.10)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.flows.usecase_support import (
    DEFAULT_GRANT,
    EVERYTHING,
    HOUR_MS,
    MINUTE_MS,
    NOW_MS,
    Hand,
    World,
    each_store,
    every_store,
    follows,
)
from zkpcp.core import audit
from zkpcp.core.audit import Channel, Outcome
from zkpcp.core.instants import to_rfc3339
from zkpcp.core.pages import serialize
from zkpcp.core.schemas import canonical_json
from zkpcp.errors import (
    ConflictError,
    ForbiddenError,
    InvalidInputError,
    InvalidTokenError,
    NotFoundError,
    TamperedError,
    TooLargeError,
)
from zkpcp.testing import _Deleted
from zkpcp.usecases.filters import Filters
from zkpcp.usecases.forget import Deleted, DeletedPage, delete_page, list_deleted, recover_page

DAY_MS = 24 * HOUR_MS
WRITER = ("memory:read", "memory:write")
SENSITIVE_READER = (*WRITER, "memory.sensitive:read")
ALL = Filters(include_archived=True)


async def delete(
    hand: Hand, path: str | None = None, *, page_id: str | None = None, expected: str | None = None
) -> Deleted:
    return await delete_page(hand.services, hand.who, path=path, page_id=page_id, expected_updated=expected)


async def deleted_of(world: World) -> Sequence[DeletedPage]:
    async with world.owner() as owner:
        return await list_deleted(owner.services, owner.who)


async def recover(world: World, page_id: str) -> str:
    async with world.owner() as owner:
        return (await recover_page(owner.services, owner.who, page_id)).path


@every_store
@pytest.mark.requirement("ERA-07")
async def test_a_deleted_page_is_never_read_found_listed_or_briefed_again(stored_world: World) -> None:
    granted = await stored_world.grant(*EVERYTHING)

    async with stored_world.client(granted) as client:
        gone = await client.write("notes/tea", "two spoons of assam")
        kept = await client.write("notes/cup", "the blue cup, for assam")
        for page_id, reach in ((gone.page_id, {"path": "notes/tea"}), (kept.page_id, {"page_id": kept.page_id})):
            done = await delete(client, **reach)

            assert done == Deleted(page_id, to_rfc3339(NOW_MS + 30 * DAY_MS))
        for look in (client.read("notes/tea"), client.read("NOTES/TEA"), client.read(page_id=gone.page_id)):
            with pytest.raises(NotFoundError):
                await look
        assert await client.paths(ALL) == []
        assert await client.found("assam", ALL) == []
        brief = await client.brief()
        assert (brief.pages, [left.what for left in brief.left_out]) == ([], [])
    async with stored_world.owner() as owner:
        assert await owner.paths(ALL) == []
        with pytest.raises(NotFoundError):
            await owner.read(page_id=gone.page_id)


@each_store
@pytest.mark.requirement("ERA-07")
async def test_the_path_of_a_deleted_page_is_free_at_once(stored_world: World) -> None:
    granted = await stored_world.grant(*DEFAULT_GRANT)

    async with stored_world.client(granted) as client:
        old = await client.write("Notes/Tea", "old")
        await delete(client, "notes/tea")
        new = await client.write("notes/tea", "new")

        assert new.created
        assert new.page_id != old.page_id
        assert (await client.read("notes/tea")).body == "new"
        with pytest.raises(NotFoundError):
            await client.read(page_id=old.page_id)


@pytest.mark.requirement("TOOL-10")
async def test_what_the_caller_cannot_see_is_not_found_and_stays(world: World) -> None:
    default = await world.grant(*DEFAULT_GRANT)
    blind = await world.grant("memory:write")
    blind_changer = await world.grant("memory:write", "memory.sensitive:write")
    no_sight = await world.grant(*WRITER, "memory.sensitive:write")
    other = await World.founded(world.store, handle="bea")
    stranger = await other.grant(*EVERYTHING)
    async with world.owner() as owner:
        knee = await owner.write("health/knee", "it creaks", sensitivity="sensitive")
        open_page = await owner.write("notes/tea", "two spoons")
        await owner.write("old", "text", expires=to_rfc3339(NOW_MS + MINUTE_MS))
    world.clock.advance(MINUTE_MS)

    tries = (
        (world, default, ("health/knee", "nowhere", "old"), knee.page_id),
        (world, no_sight, ("health/knee",), knee.page_id),
        (world, blind, ("health/knee", "notes/tea"), open_page.page_id),
        (world, blind_changer, ("health/knee", "notes/tea"), knee.page_id),
        (other, stranger, ("health/knee", "notes/tea"), open_page.page_id),
    )
    messages = set()
    for place, granted, paths, page_id in tries:
        async with place.client(granted) as client:
            for path in paths:
                with pytest.raises(NotFoundError) as refused:
                    await delete(client, path)
                messages.add(refused.value.message)
            with pytest.raises(NotFoundError) as refused:
                await delete(client, page_id=page_id)
            messages.add(refused.value.message)

    assert len(messages) == 1
    async with world.owner() as owner:
        assert await owner.paths(ALL) == ["health/knee", "notes/tea"]
    assert await deleted_of(world) == ()


@each_store
@pytest.mark.requirement("MEM-07")
async def test_deleting_a_sensitive_page_needs_the_right_to_change_it(stored_world: World) -> None:
    reader = await stored_world.grant(*SENSITIVE_READER)
    changer = await stored_world.grant(*EVERYTHING)
    async with stored_world.owner() as owner:
        knee = await owner.write("health/knee", "it creaks", sensitivity="sensitive")

    async with stored_world.client(reader) as client:
        for page_id, path in ((None, "health/knee"), (knee.page_id, None)):
            with pytest.raises(ForbiddenError) as refused:
                await delete(client, path, page_id=page_id)
            assert refused.value.required_scopes == ("memory:write", "memory.sensitive:write")
            denied = await stored_world.last_entry()
            assert (denied.action, denied.outcome) == ("memory_delete", Outcome.DENIED)
        assert (await client.read("health/knee")).body == "it creaks"
    async with stored_world.client(changer) as client:
        await delete(client, "health/knee")

        assert await client.paths() == []
    assert (await stored_world.entries())[-2].categories == ("memory.sensitive",)


@pytest.mark.requirement("SCOPE-01")
async def test_deleting_needs_a_scope_of_its_own(world: World) -> None:
    reader = await world.grant("memory:read", "memory.sensitive:read", "memory.sensitive:write", "audit:read")
    async with world.owner() as owner:
        await owner.write("a", "text")

    async with world.client(reader) as client:
        with pytest.raises(ForbiddenError) as refused:
            await delete(client, "a")

        assert refused.value.required_scopes == ("memory:write",)
        assert await client.paths() == ["a"]


@pytest.mark.requirement("MEM-22", "TOOL-10")
async def test_a_page_in_quarantine_is_not_its_writers_to_delete(world: World) -> None:
    default = await world.grant(*DEFAULT_GRANT)
    full = await world.grant(*EVERYTHING)

    async with world.client(default) as client:
        item = await client.write("style/letters", "short sentences")
        for page_id, path in ((None, "style/letters"), (item.page_id, None)):
            with pytest.raises(NotFoundError):
                await delete(client, path, page_id=page_id)
    async with world.client(full) as client:
        # Whoever holds the slot takes it in first, and then may do with it as with any page.
        assert (await delete(client, "style/letters")).page_id == item.page_id
        assert await client.paths() == []
    assert [page.path for page in await deleted_of(world)] == ["style/letters"]


@each_store
@pytest.mark.requirement("TOOL-13")
async def test_a_deletion_based_on_an_older_version_is_a_conflict(stored_world: World) -> None:
    granted = await stored_world.grant(*DEFAULT_GRANT)

    async with stored_world.client(granted) as client:
        first = await client.write("a", "one")
        stored_world.clock.advance(MINUTE_MS)
        second = await client.write("a", "two", expected=first.updated)
        for expected in (first.updated, to_rfc3339(NOW_MS + DAY_MS)):
            with pytest.raises(ConflictError):
                await delete(client, "a", expected=expected)
        with pytest.raises(InvalidInputError) as refused:
            await delete(client, "a", expected="yesterday")
        assert [violation.path for violation in refused.value.violations] == ["/expected_updated"]
        assert (await client.read("a")).body == "two"
        await delete(client, "a", expected=second.updated)

        assert await client.paths() == []


@pytest.mark.requirement("TOOL-12")
async def test_exactly_one_of_path_and_id_names_the_page_to_delete(world: World) -> None:
    granted = await world.grant(*DEFAULT_GRANT)

    async with world.client(granted) as client:
        written = await client.write("a", "one")
        for page_id, path in ((None, None), (written.page_id, "a")):
            with pytest.raises(InvalidInputError) as refused:
                await delete(client, path, page_id=page_id)
            assert {violation.path for violation in refused.value.violations} == {"/path", "/id"}
        assert await client.paths() == ["a"]


@pytest.mark.requirement("ERA-07")
async def test_deleting_again_changes_nothing_more(world: World) -> None:
    granted = await world.grant(*DEFAULT_GRANT)

    async with world.client(granted) as client:
        written = await client.write("a", "one")
        await delete(client, page_id=written.page_id)
        before = await deleted_of(world)
        world.clock.advance(MINUTE_MS)
        for path, page_id in (("a", None), (None, written.page_id)):
            with pytest.raises(NotFoundError):
                await delete(client, path, page_id=page_id)

    assert await deleted_of(world) == before


@every_store
async def test_of_many_who_delete_a_page_at_once_one_does(stored_world: World) -> None:
    granted = await stored_world.grant(*DEFAULT_GRANT)

    async def attempt(client: Hand) -> bool:
        try:
            await delete(client, "a")
        except (NotFoundError, ConflictError):
            return False
        return True

    async with stored_world.client(granted) as client:
        await client.write("a", "one")

        assert sorted(await asyncio.gather(*(attempt(client) for _ in range(5)))) == [False] * 4 + [True]
    assert len(await deleted_of(stored_world)) == 1
    assert follows(await stored_world.audit_rows())


@every_store
async def test_the_owner_gets_a_deleted_page_back_as_it_was(stored_world: World) -> None:
    granted = await stored_world.grant(*EVERYTHING)
    async with stored_world.client(granted) as client:
        await client.write("health/knee", "it creaks", sensitivity="sensitive", tags=["body"], x_mood="calm")
        stored_world.clock.advance(MINUTE_MS)
        await client.write("health/knee", "it creaks\r\n and aches")
        before = await client.read("health/knee")
        stored_world.clock.advance(HOUR_MS)
        await delete(client, "health/knee")

    await stored_world.sign_in()
    (listed,) = await deleted_of(stored_world)
    path = await recover(stored_world, listed.page_id)

    assert listed == DeletedPage(
        page_id=before.id,
        path="health/knee",
        title=before.title,
        sensitivity="sensitive",
        deleted=to_rfc3339(NOW_MS + MINUTE_MS + HOUR_MS),
        recoverable_until=to_rfc3339(NOW_MS + MINUTE_MS + HOUR_MS + 30 * DAY_MS),
    )
    assert path == "health/knee"
    assert await deleted_of(stored_world) == ()
    async with stored_world.owner() as owner:
        after = await owner.read("health/knee")
        assert (after.id, serialize(after)) == (before.id, serialize(before))
        assert await owner.found("aches") == ["health/knee"]
        again = await owner.write("health/knee", "it is well", expected=after.updated)
        assert not again.created
    with pytest.raises(NotFoundError):
        await recover(stored_world, listed.page_id)


@each_store
async def test_a_page_does_not_come_back_to_a_taken_path(stored_world: World) -> None:
    granted = await stored_world.grant(*DEFAULT_GRANT)
    async with stored_world.client(granted) as client:
        old = await client.write("style/letters", "short", sensitivity="normal")
        await delete(client, "style/letters")
        await client.write("Style/Letters", "waits in the inbox")

    with pytest.raises(ConflictError):
        await recover(stored_world, old.page_id)
    assert [page.page_id for page in await deleted_of(stored_world)] == [old.page_id]
    async with stored_world.owner() as owner:
        await delete(owner, "style/letters")
    await recover(stored_world, old.page_id)

    async with stored_world.owner() as owner:
        assert (await owner.read("style/letters")).body == "short"


@each_store
@pytest.mark.requirement("ERA-07", "MEM-11")
async def test_a_page_comes_back_to_a_path_whose_page_has_ended(stored_world: World) -> None:
    async with stored_world.owner() as owner:
        old = await owner.write("notes/boat", "under the willow")
        await delete(owner, "notes/boat")
        await owner.write("notes/boat", "for a minute", expires=to_rfc3339(NOW_MS + MINUTE_MS))
    stored_world.clock.advance(MINUTE_MS)

    await recover(stored_world, old.page_id)

    async with stored_world.owner() as owner:
        assert (await owner.read("notes/boat")).body == "under the willow"
    assert "retention.sweep" in [entry.action for entry in await stored_world.entries()]


async def test_a_full_context_takes_no_page_back(world: World) -> None:
    small = replace(world, services=replace(world.services, max_pages=1))
    granted = await small.grant(*DEFAULT_GRANT)
    async with small.client(granted) as client:
        old = await client.write("a", "one")
        await delete(client, "a")
        await client.write("b", "two")

    with pytest.raises(TooLargeError):
        await recover(small, old.page_id)
    assert len(await deleted_of(small)) == 1


async def test_nobody_but_the_owner_lists_or_recovers(world: World) -> None:
    granted = await world.grant(*EVERYTHING)

    async with world.client(granted) as client:
        written = await client.write("a", "one")
        await delete(client, "a")
        with pytest.raises(ForbiddenError):
            await list_deleted(client.services, client.who)
        with pytest.raises(ForbiddenError):
            await recover_page(client.services, client.who, written.page_id)
    other = await World.founded(world.store, handle="bea")

    assert await deleted_of(other) == ()
    with pytest.raises(NotFoundError):
        await recover(other, written.page_id)
    assert len(await deleted_of(world)) == 1


@each_store
@pytest.mark.requirement("ERA-07")
async def test_after_its_time_a_deleted_page_cannot_come_back_and_is_swept(stored_world: World) -> None:
    short = replace(stored_world, services=replace(stored_world.services, deleted_retention_s=3600))
    granted = await short.grant(*DEFAULT_GRANT)
    async with short.client(granted) as client:
        a = await client.write("a", "one")
        await client.write("b", "two", expires=to_rfc3339(NOW_MS + 10 * MINUTE_MS))
        kept_until = [(await delete(client, path)).recoverable_until for path in ("a", "b")]

    # A page that would have expired sooner is gone sooner.
    assert kept_until == [to_rfc3339(NOW_MS + HOUR_MS), to_rfc3339(NOW_MS + 10 * MINUTE_MS)]
    short.clock.advance(10 * MINUTE_MS)
    await short.sign_in()
    assert [page.path for page in await deleted_of(short)] == ["a"]
    short.clock.advance(50 * MINUTE_MS)
    await short.sign_in()
    assert await deleted_of(short) == ()
    with pytest.raises(NotFoundError):
        await recover(short, a.page_id)
    async with short.store.write() as tx:
        assert await tx.pages.purge_deleted(short.context_id, short.clock.now_ms()) == 2


@pytest.mark.requirement("AUD-04", "AUD-05")
async def test_deletion_listing_and_recovery_are_audited_and_say_nothing_of_the_page(world: World) -> None:
    granted = await world.grant(*EVERYTHING)
    async with world.client(granted) as client:
        written = await client.write("health/canary-path", "canary body", title="canary title", sensitivity="sensitive")
        await delete(client, "health/canary-path")
        with pytest.raises(NotFoundError):
            await delete(client, "health/canary-path")
    await deleted_of(world)
    await recover(world, written.page_id)
    with pytest.raises(NotFoundError):
        await recover(world, written.page_id)

    entries = (await world.entries())[-5:]
    kinds = [(entry.action, entry.channel, entry.outcome) for entry in entries]
    assert kinds == [
        ("memory_delete", Channel.MCP, Outcome.OK),
        ("memory_delete", Channel.MCP, Outcome.NOT_FOUND),
        ("memory.deleted_listed", Channel.MANAGEMENT, Outcome.OK),
        ("memory.recovered", Channel.MANAGEMENT, Outcome.OK),
        ("memory.recovered", Channel.MANAGEMENT, Outcome.NOT_FOUND),
    ]
    assert [entry.decrypted for entry in entries] == [True, False, True, True, False]
    assert [entry.object_ids for entry in entries] == [(written.page_id,), (), *[(written.page_id,)] * 2, ()]
    assert [entry.categories for entry in entries[::3]] == [("memory.sensitive",)] * 2
    for entry in entries:
        said = canonical_json(audit.to_json(entry))
        assert world.schemas.violations("0.3/audit.entry", audit.to_json(entry)) == ()
        assert b"canary" not in said
    assert follows(await world.audit_rows())


async def test_a_deleted_page_that_was_altered_or_relabeled_does_not_come_back(world: World) -> None:
    granted = await world.grant(*DEFAULT_GRANT)
    async with world.client(granted) as client:
        a = await client.write("a", "one")
        b = await client.write("b", "two")
        await delete(client, "a")
        await delete(client, "b")
    rows = world.tables().deleted
    first, second = rows[world.context_id, a.page_id], rows[world.context_id, b.page_id]

    def place(row: _Deleted) -> None:
        world.tamper(lambda tables: tables.deleted.update({(world.context_id, a.page_id): row}))

    for forged in (
        replace(first.page, sealed=second.page.sealed),
        replace(first.page, version=2),
        replace(first.page, expires_ms=NOW_MS + DAY_MS),
        replace(first.page, updated_ms=NOW_MS + 1),
        second.page,
    ):
        place(replace(first, page=forged))
        with pytest.raises((TamperedError, InvalidTokenError)):
            await recover(world, a.page_id)
        assert (await world.last_entry()).action == "tampering.found"
    async with world.owner() as owner:
        assert await owner.paths() == []


@each_store
@pytest.mark.requirement("MEM-19")
async def test_a_search_as_of_a_time_before_a_deletion_is_not_exact(stored_world: World) -> None:
    granted = await stored_world.grant(*DEFAULT_GRANT)
    full = await stored_world.grant(*EVERYTHING)
    then = to_rfc3339(NOW_MS + MINUTE_MS)

    async with stored_world.client(granted) as client:
        await client.write("a", "heron one")
        await client.write("b", "heron two")
        async with stored_world.client(full) as other:
            await other.write("c", "heron three", sensitivity="sensitive")
            stored_world.clock.advance(2 * MINUTE_MS)
            await delete(other, "c")
        unseen = await client.search("heron", as_of=then)
        await delete(client, "b")
        seen = await client.search("heron", as_of=then)
        now = await client.search("heron", as_of=to_rfc3339(stored_world.clock.now_ms()))
        before = await client.search("heron", as_of=to_rfc3339(NOW_MS - DAY_MS))

    # That a page one could not see was deleted does not show either (MEM-13).
    assert [results.as_of_exact for results in (unseen, seen, now, before)] == [True, False, True, True]
    assert [found.head.path.value for found in seen.found] == ["a"]


@pytest.mark.requirement("ERA-07", "AUD-02")
async def test_writing_and_deleting_in_turns_keeps_no_more_than_there_is_room_for(world: World) -> None:
    world.services = replace(world.services, max_deleted_pages=2)
    granted = await world.grant(*WRITER)
    async with world.client(granted) as client:
        for number in range(4):
            await client.write("notes/tea", f"{number} spoons")
            world.clock.advance(1)
            await delete(client, "notes/tea")
    kept = len(await deleted_of(world))
    async with world.client(granted) as client:
        big = await client.write("notes/ship", "rope " * 2000)
        page = world.tables().pages[world.context_id, big.page_id]
        size = len(page.sealed) + len(page.head) + len(page.terms)
        world.clock.advance(1)
        world.services = replace(world.services, max_deleted_bytes=size)
    async with world.client(granted) as client:
        await delete(client, "notes/ship")
    listed = await deleted_of(world)

    assert kept == 2
    assert [page.path for page in listed] == ["notes/ship"]
    purges = [entry for entry in await world.entries() if entry.action == "retention.sweep"]
    assert [(entry.channel, entry.categories, entry.counts) for entry in purges] == [
        (Channel.SYSTEM, ("memory",), {"deleted_pages": number}) for number in (1, 1, 2)
    ]

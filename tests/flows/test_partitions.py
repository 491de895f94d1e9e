"""Partitions and their access lists: who reads, writes and moves what where, and that what is closed does not show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.flows.support_mcp import ask
from tests.flows.tools_support import endpoint_of
from tests.flows.usecase_support import DEFAULT_GRANT, EVERYTHING, Granted, Hand, World, every_store
from zkpcp.core.access import RIGHTS
from zkpcp.core.schemas import JsonObject
from zkpcp.core.slots import directory_slot, memory_slot
from zkpcp.errors import (
    ConflictError,
    ForbiddenError,
    InvalidInputError,
    InvalidTokenError,
    NotFoundError,
    TamperedError,
)
from zkpcp.http.site import Site
from zkpcp.testing import CountingEntropy, MemoryStore
from zkpcp.usecases.filters import Filters
from zkpcp.usecases.forget import delete_page
from zkpcp.usecases.housekeeping import sweep
from zkpcp.usecases.partitions import (
    create_partition,
    describe_partition,
    list_partitions,
    managed_partitions,
    own_partitions,
    set_access,
)

SCOPES = (*EVERYTHING[2:], "profile.team:read")


async def names_of(hand: Hand) -> Mapping[str, tuple[str, ...]]:
    return {each.partition.name: each.rights for each in await list_partitions(hand.services, hand.who)}


# -------------------------------------------------------------------------------------------------------- one person


@every_store
async def test_a_context_begins_with_main_and_a_second_partition_turns_the_feature_on(stored_world: World) -> None:
    site = Site(origin="https://pcp.test")
    assert (stored_world.context.is_partitioned, site.facts(stored_world.context).features) == (False, ())

    partition = await stored_world.partition("garden", "What grows where.")

    assert stored_world.context.is_partitioned
    assert site.facts(stored_world.context).features == ("partitions",)
    async with stored_world.open() as session:
        managed = await managed_partitions(stored_world.services, session)
    assert [(item.partition.id, item.partition.name) for item in managed] == [("main", "main"), (partition, "garden")]
    assert managed[1].partition.description == "What grows where."
    assert [item.access for item in managed] == [{"human:owner": frozenset(RIGHTS)}] * 2


@every_store
@pytest.mark.requirement("SCOPE-05")
async def test_a_new_partition_reaches_the_grants_there_are(stored_world: World) -> None:
    granted = await stored_world.grant(*DEFAULT_GRANT)

    partition = await stored_world.partition("garden")

    async with stored_world.client(granted) as client:
        assert await names_of(client) == {"main": ("read", "write"), "garden": ("read", "write")}
        await client.write("beds/one", "leeks", partition="garden")
        await client.write("beds/two", "beans", sensitivity="sensitive", partition="garden")
        page = await client.read("beds/one")
        assert client.who.readable_slots() == {memory_slot(each, sensitive=False) for each in ("main", partition)}
    async with stored_world.owner() as owner:
        assert await owner.paths() == ["beds/one", "beds/two"]
    assert page.frontmatter["partition"] == page.partition == "garden"


async def test_pages_are_filtered_by_partition_and_say_which_is_theirs(world: World) -> None:
    await world.partition("garden")
    async with world.owner() as owner:
        await owner.write("a", "leeks in main")
        await owner.write("b", "leeks in the garden", partition="garden")

        assert await owner.paths() == ["a", "b"]
        assert await owner.paths(Filters(partition="garden")) == ["b"]
        assert await owner.found("leeks", Filters(partition="main")) == ["a"]
        assert [head.partition for head in (await owner.list()).heads] == ["main", "garden"]
        assert (await owner.search("garden")).found[0].head.partition == "garden"
        assert {page.head.partition for page in (await owner.brief()).pages} == {"main", "garden"}
        for look in (owner.paths, lambda filters: owner.found("leeks", filters)):
            with pytest.raises(InvalidInputError) as refused:
                await look(Filters(partition="nowhere"))
            assert [item.path for item in refused.value.violations] == ["/partition"]


async def test_a_renamed_partition_keeps_its_pages_and_its_old_name_means_nothing(world: World) -> None:
    partition = await world.partition("garden")
    async with world.owner() as owner:
        await owner.write("b", "leeks", partition="garden")
        # Under way while the owner renames it: the page lies by the id, not the name.
        async with world.open() as session:
            await describe_partition(world.services, session, partition, name="allotment", description="Beds.")
        await owner.write("b", "leeks and beans")
        page = await owner.read("b")

        assert (page.partition, page.body) == ("allotment", "leeks and beans")
        with pytest.raises(InvalidInputError):
            await owner.write("c", "", partition="garden")


@every_store
async def test_names_are_unique_follow_their_rule_and_are_stored_nowhere_in_the_clear(stored_world: World) -> None:
    partition = await stored_world.partition("quietroom", "canary-of-the-description")
    async with stored_world.open() as session:
        for name in ("quietroom", "QuietRoom "):
            with pytest.raises(ConflictError):
                await create_partition(stored_world.services, session, name=name)
        for name in ("main", "", "-x", "straße", "a" * 65, "a b"):
            with pytest.raises(InvalidInputError):
                await create_partition(stored_world.services, session, name=name)
        with pytest.raises(InvalidInputError):
            await create_partition(stored_world.services, session, name="ok", description="x" * 501)
        with pytest.raises(NotFoundError):
            await describe_partition(stored_world.services, session, "main", name="home", description="")

    async with stored_world.store.read() as tx:
        rows = await tx.partitions.partitions(stored_world.context_id, [partition])
        roster = await tx.contexts.roster(stored_world.context_id)
        entries = await tx.audit.entries(stored_world.context_id, limit=100)
    assert roster is not None
    stored = b"".join([*(row.sealed for row in rows), roster.body, *(row.entry for row in entries)])
    assert b"quietroom" not in stored
    assert b"canary" not in stored
    assert partition.encode() in stored


# ---------------------------------------------------------------------------------------------------- several people


@every_store
@pytest.mark.requirement("SCOPE-04", "SCOPE-05", "MEM-17")
async def test_a_client_may_do_what_its_scopes_and_its_persons_access_list_both_allow(stored_world: World) -> None:
    garden = await stored_world.partition("garden")
    bob = await stored_world.join("bob", {garden: ("read",)})
    granted = await stored_world.grant(*DEFAULT_GRANT, member=bob)
    async with stored_world.owner() as owner:
        await owner.write("a", "leeks in main")
        await owner.write("b", "leeks in the garden", partition="garden")

    async with stored_world.client(granted) as client:
        assert await names_of(client) == {"garden": ("read",)}
        assert await client.paths() == await client.found("leeks") == ["b"]
        with pytest.raises(NotFoundError):
            await client.read("a")
        for write in (client.write("b", "no"), client.write("c", "no", partition="garden"), client.write("c", "no")):
            with pytest.raises(ForbiddenError):
                await write
        assert client.who.keys.readable_slots() == {memory_slot(garden, sensitive=False)}

    await stored_world.allow(garden, bob=RIGHTS)
    async with stored_world.client(granted) as client:
        await client.write("c", "now it is the only one open, so it is the default")
        assert (await client.read("c")).partition == "garden"


@pytest.mark.requirement("MEM-12")
async def test_moving_a_page_between_partitions_needs_write_on_both(world: World) -> None:
    one, two = await world.partition("one"), await world.partition("two")
    bob = await world.join("bob", {one: RIGHTS, two: ("read",)})
    granted = await world.grant(*DEFAULT_GRANT, member=bob)
    async with world.owner() as owner:
        await owner.write("mine", "first", partition="one")
        await owner.write("theirs", "second", partition="two")

    async with world.client(granted) as client:
        for path, where in (("mine", "two"), ("theirs", "one")):
            with pytest.raises(ForbiddenError):
                await client.write(path, "moved", partition=where)
        with pytest.raises(InvalidInputError):
            await client.write("mine", "moved", partition="main")
    await world.allow(two, bob=RIGHTS)
    async with world.client(granted) as client:
        await client.write("mine", "moved", partition="two")
        assert (await client.read("mine")).partition == "two"
        assert await client.paths(Filters(partition="one")) == []
        await client.write("mine", "an update without a partition keeps it")
        assert (await client.read("mine")).partition == "two"


async def test_a_sensitive_page_moves_under_the_other_partitions_sensitive_keys(world: World) -> None:
    one, two = await world.partition("one"), await world.partition("two")
    async with world.owner() as owner:
        written = await owner.write("mine", "first", partition="one", sensitivity="sensitive")
        await owner.write("mine", "first", partition="two")

    row = world.tables().pages[world.context_id, written.page_id]
    assert row.slot == memory_slot(two, sensitive=True) != memory_slot(one, sensitive=True)


async def test_deleting_needs_write_in_the_pages_partition(world: World) -> None:
    garden = await world.partition("garden")
    bob = await world.join("bob", {garden: ("read",)})
    async with world.owner() as owner:
        await owner.write("b", "leeks", partition="garden")

    async with bob.hand() as hand:
        with pytest.raises(ForbiddenError):
            await delete(hand, "b")
    await world.allow(garden, bob=("read", "write"))
    async with bob.hand() as hand:
        await delete(hand, "b")
        assert await hand.paths() == []


async def delete(hand: Hand, path: str) -> None:
    await delete_page(hand.services, hand.who, path=path)


@every_store
async def test_what_is_taken_off_a_list_is_closed_at_once_and_its_keys_leave_the_keyrings(stored_world: World) -> None:
    garden = await stored_world.partition("garden")
    bob = await stored_world.join("bob", {"main": RIGHTS, garden: RIGHTS})
    granted = await stored_world.grant(*SCOPES, member=bob)
    async with stored_world.owner() as owner:
        await owner.write("b", "leeks", partition="garden")

    await stored_world.allow(garden)

    async with stored_world.client(granted) as client:
        assert (await names_of(client), await client.paths()) == ({"main": ("read", "write")}, [])
        assert {slot for slot, _, _ in client.who.keys._contents.keys} <= {
            "paths", "profile.team", "memory/main", "memory.sensitive/main"
        }  # fmt: skip
    async with bob.open() as session:
        held = {slot for slot, _, _ in session.keyring._contents.keys}
        assert {directory_slot(garden), memory_slot(garden, sensitive=False)}.isdisjoint(held)
        assert [each.partition.name for each in await own_partitions(stored_world.services, session)] == ["main"]


@pytest.mark.requirement("SCOPE-04")
async def test_a_list_that_leaves_nobody_who_reads_is_refused_and_changes_nothing(world: World) -> None:
    garden = await world.partition("garden")
    await world.join("bob", {garden: ("write",)})
    async with world.open() as session:
        before = session.keyring.roster
        for access in ({}, {"human:owner": frozenset({"write"})}, {"human:bob": frozenset({"propose", "review"})}):
            with pytest.raises(InvalidInputError) as refused:
                await set_access(world.services, session, garden, access)  # type: ignore[arg-type]  # rights by name
            assert [item.path for item in refused.value.violations] == ["access"]
        with pytest.raises(InvalidInputError):
            await set_access(world.services, session, garden, {"human:eve": frozenset(RIGHTS)})
        assert session.keyring.roster == before


async def test_only_the_controller_manages_partitions(world: World) -> None:
    garden = await world.partition("garden")
    bob = await world.join("bob", {garden: RIGHTS})
    async with bob.open() as session:
        for act in (
            create_partition(world.services, session, name="mine"),
            describe_partition(world.services, session, garden, name="mine", description=""),
            set_access(world.services, session, garden, {"human:bob": frozenset(RIGHTS)}),
            managed_partitions(world.services, session),
        ):
            with pytest.raises(ForbiddenError):
                await act


@pytest.mark.requirement("AUD-05", "AUD-03", "AUD-04")
async def test_acts_on_partitions_are_logged_with_their_ids_and_without_their_names(world: World) -> None:
    garden = await world.partition("garden")
    await world.join("bob", {garden: RIGHTS})
    await world.allow(garden, bob=("read",))
    async with world.owner() as owner:
        await owner.write("b", "leeks", partition="garden")

    entries = {entry.action: entry for entry in await world.entries()}
    for action in ("partition.created", "access.changed", "memory_write"):
        assert entries[action].partitions == (garden,)


# ------------------------------------------------------------------------------------------------ what does not show


CALLS: tuple[tuple[str, JsonObject], ...] = (
    ("context_brief", {}),
    ("context_brief", {"max_chars": 500}),
    ("partition_list", {}),
    ("memory_list", {}),
    ("memory_list", {"limit": 1}),
    ("memory_list", {"partition": "cellar"}),
    ("memory_search", {"query": "leeks"}),
    ("memory_search", {"query": "barrels of cider", "limit": 1}),
    ("memory_search", {"query": "leeks", "partition": "cellar"}),
    ("memory_search", {"query": "leeks", "as_of": "2027-01-01"}),
    ("memory_read", {"path": "cellar/barrels"}),
    ("memory_read", {"id": "THEIRS"}),
    ("memory_delete", {"path": "cellar/barrels"}),
    ("memory_delete", {"id": "THEIRS"}),
    ("memory_write", {"path": "beds/three", "body": "peas", "frontmatter": {"partition": "cellar"}}),
    ("memory_write", {"path": "beds/one", "body": "peas", "frontmatter": {"partition": "cellar"}}),
    ("memory_write", {"path": "beds/one", "body": "leeks, and peas"}),
    ("memory_write", {"path": "beds/four", "body": "carrots"}),
    ("memory_write", {"path": "style/bob", "body": "short"}),
    ("memory_delete", {"path": "beds/four"}),
    ("profile_get", {}),
    ("audit_list", {"limit": 50}),
    ("audit_list", {"limit": 50, "category": "memory"}),
    ("audit_list", {"limit": 50, "action": "partition.created"}),
)  # fmt: skip


async def team_with_a_garden() -> tuple[World, Granted]:
    world = await World.founded(MemoryStore(), kind="team")
    garden = await world.partition("garden", "Beds.")
    bob = await world.join("bob", {garden: RIGHTS})
    granted = await world.grant(*SCOPES, member=bob)
    async with world.owner() as owner:
        for number in ("one", "two"):
            await owner.write(f"beds/{number}", f"leeks in bed {number}", partition="garden")
    return world, granted


async def fill_a_cellar(world: World) -> str:
    """A partition closed to Bob, with pages, deleted, expired and quarantined ones: all that could leave a trace."""
    # Its own source of randomness: ids and salts in the rest of the world stay what they would have been.
    apart = replace(world, services=replace(world.services, entropy=CountingEntropy("cellar")))
    cellar = await apart.partition("cellar", "Barrels.")
    quiet = await apart.grant(*DEFAULT_GRANT, client_id="cli_cellar")
    async with apart.owner() as owner:
        written = await owner.write("cellar/barrels", "leeks, and barrels of cider", partition="cellar")
        for number in range(30):
            await owner.write(f"cellar/{number}", "barrels of cider and leeks " * number, partition="cellar")
        await owner.write("cellar/secret", "leeks", partition="cellar", sensitivity="sensitive")
        await owner.write("cellar/gone", "leeks", partition="cellar")
        await owner.write("cellar/soon", "leeks", partition="cellar", expires="2027-01-15T08:00:01Z")
        await owner.read("cellar/barrels")
        await delete(owner, "cellar/gone")
    async with apart.client(quiet) as client:
        await client.write("cellar/waiting", "leeks", partition="cellar", sensitivity="sensitive")
    async with apart.open() as session:
        await describe_partition(apart.services, session, cellar, name="cellar", description="Cider.")
    await apart.allow(cellar)
    return written.page_id


async def answers_of(world: World, granted: Granted, theirs: str) -> list[tuple[int, bytes]]:
    app = endpoint_of(world)
    answers = [await said(app, method, {}, granted) for method in ("tools/list", "server/discover")]
    for tool, arguments in CALLS:
        filled = {name: theirs if value == "THEIRS" else value for name, value in arguments.items()}
        answers.append(await said(app, "tools/call", {"name": tool, "arguments": filled}, granted))
    return answers


async def said(app: Any, method: str, params: JsonObject, granted: Granted) -> tuple[int, bytes]:  # noqa: ANN401 - an ASGI app
    reply = await ask(app, "modern", method, params, token=granted.token)
    return reply.status, reply.body


@pytest.mark.requirement("MEM-13", "SCOPE-04", "AUD-06")
async def test_two_worlds_that_differ_in_a_closed_partition_alone_give_equal_answers_to_the_byte() -> None:
    (bare, granted), (full, same) = await team_with_a_garden(), await team_with_a_garden()
    theirs = await fill_a_cellar(full)
    for world in (bare, full):
        world.clock.advance(5000)

    answers = [await answers_of(world, who, theirs) for world, who in ((bare, granted), (full, same))]

    assert len(answers[0]) == len(CALLS) + 2
    for call, (one, other) in zip((("list", {}), ("discover", {}), *CALLS), zip(*answers, strict=True), strict=True):
        assert one == other, call
    assert not any(b"cellar" in body and b"cider" in body for _, body in answers[1])


@pytest.mark.requirement("MEM-08")
async def test_writing_onto_an_occupied_closed_path_is_a_conflict_and_says_nothing_else() -> None:
    world, granted = await team_with_a_garden()
    await fill_a_cellar(world)
    async with world.client(granted) as client:
        with pytest.raises(ConflictError) as refused:
            await client.write("cellar/barrels", "mine")

    assert "cellar" not in refused.value.message


@pytest.mark.requirement("AUD-06", "MEM-13")
async def test_a_reader_of_the_log_does_not_see_that_something_was_done_or_swept_in_a_closed_partition() -> None:
    world, granted = await team_with_a_garden()
    await fill_a_cellar(world)
    world.clock.advance(60_000)
    await sweep(world.services, world.context)
    async with world.client(granted) as client:
        seen = (await client.log()).entries
    async with world.owner() as owner:
        everything = (await owner.log()).entries

    assert "retention.sweep" in {entry.action for entry in everything}
    assert "retention.sweep" not in {entry.action for entry in seen}
    assert "memory_read" not in {entry.action for entry in seen}
    assert {partition for entry in seen for partition in entry.partitions} == set(client.who.rights)


# ----------------------------------------------------------------------------------------------------- a hostile host


@pytest.mark.requirement("SCOPE-04")
async def test_a_host_cannot_widen_an_access_list_or_swap_names(world: World) -> None:
    one, two = await world.partition("one"), await world.partition("two")
    await world.join("bob", {one: ("read",)})
    rows = world.tables().partitions
    swapped = replace(rows[world.context_id, one], sealed=rows[world.context_id, two].sealed)

    world.tamper(lambda tables: tables.partitions.update({(world.context_id, one): swapped}))
    async with world.open() as session:
        with pytest.raises(TamperedError):
            await managed_partitions(world.services, session)

    roster = world.tables().rosters[world.context_id]
    wider = replace(roster, body=roster.body.replace(b'["read"]', b'["read","write"]'))
    assert wider.body != roster.body
    world.tamper(lambda tables: tables.rosters.update({world.context_id: wider}))
    with pytest.raises(InvalidTokenError):
        async with world.open():
            pass

"""A host that drops rows, doubles them or puts older ones back: what opens is genuine, but the sums do not come out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import pytest

from tests.flows.usecase_support import EVERYTHING, HOUR_MS, World, every_store
from zkpcp.core.extensions import HANDOFF
from zkpcp.core.leaves import Leaf, leaf_of
from zkpcp.core.roster import Roster
from zkpcp.core.stored import PageRow, SlotHeadRow
from zkpcp.errors import ConflictError, CorruptError, ForbiddenError
from zkpcp.testing import MemoryStore, _Tables, _Version
from zkpcp.usecases.counting import count_anew
from zkpcp.usecases.forget import delete_page, recover_page
from zkpcp.usecases.handoffs import leave
from zkpcp.usecases.housekeeping import sweep
from zkpcp.usecases.key_links import take_links
from zkpcp.usecases.rotation import Rotating, begin_rotation
from zkpcp.usecases.verify import verify_context

MAIN: Final = "memory/main"
SECRET: Final = "memory.sensitive/main"

Tamper = Callable[[_Tables], object]


async def problems(world: World) -> list[str]:
    """What a check of the counted rows says."""
    async with world.open() as session:
        await take_links(world.services, session.keyring)
        checks = await verify_context(world.services, session, lambda *_: None)
    [counted] = [check for check in checks if check.name == "counted rows"]
    return counted.problems


async def filled(world: World) -> None:
    async with world.owner() as owner:
        await owner.write("notes/boat", "under the willow")
        await owner.write("notes/boat", "behind the weir")
        await owner.write("notes/key", "under the mat")
        await owner.write("notes/knee", "it creaks", sensitivity="sensitive")
        await owner.patch({"name": "Ada Reed"})
        await owner.patch({"name": "Ada Lovelace"})


def page_of(tables: _Tables, version: int, slot: str = MAIN) -> tuple[str, str]:
    [key] = [key for key, row in tables.pages.items() if (row.version, row.slot) == (version, slot)]
    return key


def slot_of(row: PageRow | SlotHeadRow | _Version) -> str:
    return row.page.slot if isinstance(row, _Version) else row.slot


def dropped(tables: _Tables) -> None:
    del tables.pages[page_of(tables, 1)]


def dropped_sensitive(tables: _Tables) -> None:
    del tables.pages[page_of(tables, 1, SECRET)]


def dropped_version(tables: _Tables) -> None:
    tables.versions.clear()


def dropped_change(tables: _Tables) -> None:
    del tables.changes[min(tables.changes)]


def put_back(tables: _Tables) -> None:
    """The page as it was before its last change, history and all."""
    [(key, earlier)] = tables.versions.items()
    del tables.versions[key]
    tables.pages[key[:2]] = earlier.page


def doubled(tables: _Tables) -> None:
    """A page once more, in the place of another."""
    key, other = page_of(tables, 2), page_of(tables, 1)
    tables.pages[other] = tables.pages[key]


def exchanged(tables: _Tables) -> None:
    """The same number of rows, one of them from before."""
    [(key, earlier)] = tables.versions.items()
    tables.pages[key[:2]], tables.versions[key] = earlier.page, replace(earlier, page=tables.pages[key[:2]])


def other_end(tables: _Tables) -> None:
    """When a version was replaced decides what a question about a time is answered with."""
    [(key, earlier)] = tables.versions.items()
    tables.versions[key] = replace(earlier, until_ms=earlier.until_ms + 1)


def dropped_head(tables: _Tables) -> None:
    [key] = [key for key in tables.slot_heads if key[1] == MAIN]
    del tables.slot_heads[key]


def swapped_heads(tables: _Tables) -> None:
    one, other = (next(key for key in tables.slot_heads if key[1] == slot) for slot in (MAIN, SECRET))
    first, second = tables.slot_heads[one], tables.slot_heads[other]
    tables.slot_heads[one] = replace(first, sealed=second.sealed)


def excused(tables: _Tables) -> None:
    """A row dropped with a remnant that says a sweep took it."""
    before = tables.copy()
    dropped(tables)
    [gone] = before.pages.keys() - tables.pages.keys()
    tables.remnants.update(remnant_of(before, gone))


def excused_by_a_false_end(tables: _Tables) -> None:
    excused(tables)
    [(key, leaf)] = tables.remnants.items()
    tables.remnants[key] = replace(leaf, expires_ms=1)


def remnant_of(tables: _Tables, key: tuple[str, str]) -> dict[tuple[str, str, int, str, str, int], Leaf]:
    row = tables.pages[key]
    leaf = leaf_of("pages", row)
    assert leaf is not None
    return {(row.context_id, row.slot, row.generation, "pages", row.page_id, row.version): leaf}


@every_store
@pytest.mark.requirement("AUD-05")
async def test_every_change_that_was_meant_leaves_sums_that_come_out(stored_world: World) -> None:
    world = stored_world
    await filled(world)
    await world.switch(HANDOFF)
    async with world.owner() as owner:
        services, who = world.services, owner.who
        gone = await owner.write("notes/gone", "the old mooring")
        await delete_page(services, who, page_id=gone.page_id)
        await owner.write("notes/soon", "an hour", expires="2027-01-15T09:00:00Z")
        await owner.write("notes/key", "on the beam", sensitivity="sensitive")
        await recover_page(services, who, gone.page_id)
    await world.partition("boats")
    async with world.owner() as owner:
        await owner.write("boats/skiff", "leaks", partition="boats")

    assert await problems(world) == []


@pytest.mark.parametrize(
    ("tamper", "slot"),
    [
        (dropped, MAIN),
        (dropped_sensitive, SECRET),
        (dropped_version, MAIN),
        (dropped_change, "profile.core"),
        (put_back, MAIN),
        (doubled, MAIN),
        (exchanged, MAIN),
        (other_end, MAIN),
        (dropped_head, MAIN),
        (swapped_heads, MAIN),
        (excused, MAIN),
        (excused_by_a_false_end, MAIN),
    ],
)
async def test_rows_that_are_not_those_that_were_counted_are_found_by_their_slot(
    world: World, tamper: Tamper, slot: str
) -> None:
    await filled(world)
    world.tamper(tamper)

    found = await problems(world)

    assert found
    assert {problem.partition(":")[0] for problem in found} == {slot}
    async with world.owner() as owner:
        # Where the head itself is away, nothing is written that could not be counted.
        if tamper not in (dropped_head, swapped_heads):
            await owner.write("notes/new", "written later")
            assert len(await problems(world)) == len(found)


async def test_a_slot_put_back_whole_is_found_by_the_log(world: World) -> None:
    await filled(world)
    before = world.tables()
    async with world.owner() as owner:
        await owner.write("notes/late", "written after the copy")
        await owner.write("notes/ankle", "it creaks too", sensitivity="sensitive")

    def restore(tables: _Tables) -> None:
        for name in ("pages", "versions", "slot_heads"):
            stored, old = getattr(tables, name), getattr(before, name)
            for key in [key for key, row in stored.items() if slot_of(row) == MAIN]:
                del stored[key]
            stored.update({key: row for key, row in old.items() if slot_of(row) == MAIN})

    world.tamper(restore)
    [found] = await problems(world)
    assert found.startswith(f"{MAIN}: entry ")


async def test_a_head_that_is_gone_stops_writing_to_its_slot_and_is_tampering(world: World) -> None:
    await filled(world)
    world.tamper(dropped_head)
    async with world.owner() as owner:
        with pytest.raises(CorruptError):
            await owner.write("notes/new", "nowhere to count it")
        assert (await world.last_entry()).action == "tampering.found"
        await owner.write("notes/elbow", "elsewhere", sensitivity="sensitive")
        assert (await owner.read("notes/boat")).body == "behind the weir"


@every_store
@pytest.mark.requirement("ERA-08")
async def test_what_a_sweep_took_is_taken_off_by_the_next_change(stored_world: World) -> None:
    world = stored_world
    await filled(world)
    await world.switch(HANDOFF)
    async with world.owner() as owner:
        await owner.write("notes/soon", "an hour", expires="2027-01-15T09:00:00Z")
        await owner.write("notes/soon", "an hour still", expires="2027-01-15T09:00:00Z")
        await leave(world.services, owner.who, title="t", content="c", expires="2027-01-15T09:00:00Z", sender="zkpcp")
        gone = await owner.write("notes/gone", "the old mooring")
        await owner.write("notes/gone", "the older mooring")
        await delete_page(world.services, owner.who, page_id=gone.page_id)
    world.clock.advance(40 * 24 * HOUR_MS)
    await sweep(world.services, world.context)
    await world.sign_in()

    async with world.store.read() as tx:
        left = await tx.heads.remnants(world.context_id, [MAIN, "handoff"])
    assert sorted(each.kind for each in left) == ["handoffs", "page_versions", "page_versions", "pages"]
    assert await problems(world) == []
    async with world.owner() as owner:
        await owner.write("notes/new", "text")
    assert await problems(world) == []
    async with world.store.read() as tx:
        assert [each.kind for each in await tx.heads.remnants(world.context_id, [MAIN, "handoff"])] == ["handoffs"]


@every_store
@pytest.mark.requirement("KEY-12")
async def test_a_change_of_keys_moves_every_row_that_was_counted(stored_world: World) -> None:
    world = stored_world
    await filled(world)
    async with world.open() as session:
        await begin_rotation(world.services, session)
        assert await problems(world) == []
        rotating = Rotating(world.services, session)
        while await rotating.step():
            assert await problems(world) == []
        async with world.owner() as owner:
            await owner.write("notes/boat", "before the end")
        await rotating.end()
    assert await problems(world) == []
    async with world.store.read() as tx:
        assert {row.generation for row in await tx.heads.heads(world.context_id)} == {2}


@pytest.mark.requirement("KEY-12")
async def test_a_row_lost_before_or_during_a_change_of_keys_keeps_it_from_its_end(world: World) -> None:
    await filled(world)
    async with world.open() as session:
        await begin_rotation(world.services, session)
        world.tamper(dropped)
        rotating = Rotating(world.services, session)
        while await rotating.step():
            pass
        with pytest.raises(ConflictError, match="missing"):
            await rotating.end()
        assert await problems(world) == [f"{MAIN}: 0 rows, and not the 1 that were counted"]
        await rotating.end(leave_damaged=True)
    assert await problems(world) == []


@every_store
async def test_a_context_from_before_is_counted_from_when_its_owner_says_so(stored_world: World) -> None:
    world = stored_world
    await filled(world)
    await world.uncounted()
    async with world.owner() as owner:
        await owner.write("notes/boat", "not counted yet")
    async with world.open() as session:
        checks = await verify_context(world.services, session, lambda *_: None)
        [counted] = [check for check in checks if check.name == "counted rows"]
        assert (counted.looked_at, counted.holds, bool(counted.note)) == (0, True, True)
        await count_anew(world.services, session)
        assert (await world.last_entry()).action == "rows.counted"
    assert await problems(world) == []
    async with world.owner() as owner:
        await owner.write("notes/boat", "counted")
        await owner.patch({"name": "Ada"})
    assert await problems(world) == []


async def test_a_context_from_before_is_counted_by_a_change_of_keys_too(world: World) -> None:
    await filled(world)
    await world.uncounted()
    async with world.open() as session:
        await begin_rotation(world.services, session)
        rotating = Rotating(world.services, session)
        while await rotating.step():
            assert await problems(world) == []
        await rotating.end()
    assert await problems(world) == []
    world.tamper(dropped)
    assert await problems(world) == [f"{MAIN}: 2 rows, and not the 3 that were counted"]


async def test_whoever_saw_what_is_missing_can_count_anew_and_nobody_else(world: World) -> None:
    await filled(world)
    world.tamper(dropped)
    assert await problems(world)
    async with world.open() as session:
        await count_anew(world.services, session)
        assert await problems(world) == []
        await begin_rotation(world.services, session)
        with pytest.raises(ConflictError, match="being changed"):
            await count_anew(world.services, session)
    team = await World.founded(MemoryStore(), kind="team")
    bob = await team.join("bob")
    async with bob.open() as session:
        with pytest.raises(ForbiddenError):
            await count_anew(team.services, session)


async def test_whoever_wrote_by_the_roster_before_is_refused_once_rows_are_counted(world: World) -> None:
    await filled(world)
    await world.uncounted()
    granted = await world.grant(*EVERYTHING)
    async with world.client(granted) as client:
        async with world.open() as session:
            await count_anew(world.services, session)
        with pytest.raises(ConflictError):
            await client.write("notes/late", "by the roster before")
    assert await problems(world) == []


def test_a_roster_from_before_counts_nothing() -> None:
    roster = Roster("ctx", 1, 1, b"o" * 32, ())
    assert not roster.counts(MAIN, 1)
    counted = replace(roster, counted={"partitions": 2, "handoff": 1})
    assert [counted.counts(slot, 1) for slot in (MAIN, "handoff", "profile.core")] == [False, True, False]
    assert [counted.counts(slot, 2) for slot in (MAIN, "proposals/x", "profile.core")] == [True, True, False]

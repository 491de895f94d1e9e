"""A host that changes search indexes: an answer is right, or an error; never a page that the caller may not see."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.flows.usecase_support import Hand, World
from zkpcp.core.instants import to_rfc3339
from zkpcp.core.stored import IndexPlace
from zkpcp.errors import CorruptError, ZkpcpError
from zkpcp.testing import MemoryStore, _Tables
from zkpcp.usecases.forget import delete_page

NORMAL = "memory/main"
SENSITIVE = "memory.sensitive/main"
Change = Callable[[_Tables], None]


async def lived(world: World) -> list[_Tables]:
    """Several states of a store, the last one being what is there now."""
    states: list[_Tables] = []

    def keep() -> None:
        states.append(world.tables().copy())
        world.clock.advance(1_001)

    async with world.owner() as owner:
        await owner.write("notes/boat", "the boat is under the willow")
        await owner.write("notes/secret", "the boiler is not a secret yet")
        keep()
        await owner.write("notes/secret", "the boiler is a secret", sensitivity="sensitive")
        await owner.write("notes/hidden", "the willow hides the boiler", sensitivity="sensitive")
        keep()
        await owner.write("notes/boat", "the boat is at the bridge with the boiler")
        await owner.write("notes/gone", "a boiler that goes")
        keep()
        await delete_page(owner.services, owner.who, path="notes/gone")
        await owner.write("notes/last", "the last boat")
        world.clock.advance(1_000)
        keep()
    return states


async def scores(hand: Hand, query: str, *, scan: bool) -> Sequence[tuple[str, float]]:
    now = to_rfc3339(hand.services.clock.now_ms())
    results = await hand.search(query, as_of=now if scan else None)
    assert results.searched_all
    return [(each.head.path.value, each.score) for each in results.found]


async def right_or_refused(world: World, granted_scopes: tuple[str, ...]) -> bool:
    """Whether every answer of a caller is what its pages say; False where one is refused as damage."""
    world.clock.advance(1_000)
    granted = await world.grant(*granted_scopes)
    right = True
    async with world.client(granted) as client:
        for query in ("boiler", "boat willow", "secret", '"the boat" -bridge'):
            try:
                assert await scores(client, query, scan=False) == await scores(client, query, scan=True)
            except CorruptError:
                right = False
        try:
            assert await client.paths() == ["notes/boat", "notes/last"] or "memory.sensitive:read" in granted_scopes
        except CorruptError:
            right = False
    return right


def put_back(older: _Tables, slot: str, *, places: bool, slots: bool) -> Change:
    """The whole index of a slot as it was."""

    def change(tables: _Tables) -> None:
        tables.index_parts = {
            **{key: row for key, row in tables.index_parts.items() if key[1] != slot},
            **{key: row for key, row in older.index_parts.items() if key[1] == slot},
        }
        if places:
            tables.index_places = dict(older.index_places)
        if slots:
            tables.index_slots = dict(older.index_slots)

    return change


@pytest.mark.parametrize("slot", [NORMAL, SENSITIVE])
@pytest.mark.parametrize("state", [0, 1, 2])
@pytest.mark.parametrize("more", [True, False])
@pytest.mark.requirement("KEY-05", "MEM-17")
async def test_an_index_put_back_as_a_whole_is_noticed(world: World, slot: str, state: int, more: bool) -> None:
    states = await lived(world)
    changed = {key: row for key, row in states[state].index_parts.items() if key[1] == slot} != {
        key: row for key, row in states[-1].index_parts.items() if key[1] == slot
    }
    world.tamper(put_back(states[state], slot, places=more, slots=more))

    # Where the host takes the note of an index away as well, the pages themselves are searched.
    right = await right_or_refused(world, ("memory:read", "memory.sensitive:read"))
    assert not right or more or not changed
    assert await right_or_refused(world, ("memory:read",)) or slot == NORMAL


@pytest.mark.requirement("KEY-05", "MEM-17")
async def test_parts_of_another_slot_or_context_do_not_fit(world: World) -> None:
    await lived(world)
    other = await World.founded(MemoryStore(), handle="eve")
    await lived(other)
    here, there = dict(world.tables().index_parts), other.tables().index_parts

    def swap_slots(tables: _Tables) -> None:
        for context_id, slot, part in here:
            beside = here.get((context_id, SENSITIVE if slot == NORMAL else NORMAL, part))
            if beside is not None:
                tables.index_parts[context_id, slot, part] = replace(beside, slot=slot)
        assert tables.index_parts != here

    def swap_contexts(tables: _Tables) -> None:
        for (_, slot, part), row in there.items():
            tables.index_parts[world.context_id, slot, part] = replace(row, context_id=world.context_id)

    for change in (swap_slots, swap_contexts):
        world.tamper(change)
        assert not await right_or_refused(world, ("memory:read",))


@pytest.mark.parametrize(
    "place",
    [
        None,
        IndexPlace(NORMAL, 0, 1),
        IndexPlace(NORMAL, 0, 4_000_000),
        IndexPlace(NORMAL, 7, 0),
        IndexPlace(SENSITIVE, 0, 0),
        IndexPlace("profile/core", 0, 0),
    ],
)
@pytest.mark.requirement("KEY-05")
async def test_an_edited_place_leads_to_a_right_answer_or_an_error(world: World, place: IndexPlace | None) -> None:
    await lived(world)
    async with world.owner() as owner:
        page_id = (await owner.read("notes/boat")).id
        key = (world.context_id, page_id)

        def move(tables: _Tables) -> None:
            if place is None:
                del tables.index_places[key]
            else:
                tables.index_places[key] = place

        world.tamper(move)
        for body in ("the boat is away", "the boat is back with the boiler"):
            try:
                await owner.write("notes/boat", body)
            except CorruptError:
                break
    await right_or_refused(world, ("memory:read", "memory.sensitive:read"))
    await right_or_refused(world, ("memory:read",))


@given(data=st.data())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.requirement("KEY-05", "MEM-17", "MEM-20")
async def test_whatever_rows_of_the_index_come_back_or_go_an_answer_is_right_or_refused(data: st.DataObject) -> None:
    world = await World.founded(MemoryStore())
    states = await lived(world)
    every = sorted({key for state in states for key in state.index_parts})
    chosen = data.draw(st.lists(st.tuples(st.sampled_from(every), st.integers(-1, len(states) - 1)), max_size=6))
    slots = data.draw(st.sampled_from([None, *states]))
    segments = data.draw(st.sampled_from([None, None, 0, 1, 2, 1 << 62]))

    def change(tables: _Tables) -> None:
        for key, state in chosen:
            row = None if state < 0 else states[state].index_parts.get(key)
            if row is None:
                tables.index_parts.pop(key, None)
            else:
                tables.index_parts[key] = row
        if slots is not None:
            tables.index_slots = dict(slots.index_slots)
        if segments is not None:
            tables.index_slots = {key: replace(row, segments=segments) for key, row in tables.index_slots.items()}

    world.tamper(change)
    await right_or_refused(world, ("memory:read",))
    await right_or_refused(world, ("memory:read", "memory.sensitive:read"))
    async with world.owner() as owner:
        try:
            await owner.write("notes/more", "more of the boat")
        except ZkpcpError:
            return
    await right_or_refused(world, ("memory:read", "memory.sensitive:read"))

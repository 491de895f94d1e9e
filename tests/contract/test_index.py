"""Search indexes: parts by name, places by page, one writer of a slot at a time, and an end with what they index."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from tests.contract.rows import ELSEWHERE, HERE, NOW, context, page
from zkpcp.core.stored import IndexPartRow, IndexPlace, IndexSlotRow
from zkpcp.errors import NotFoundError
from zkpcp.ports import Store

SLOT = "memory/main"
OTHER = "memory.sensitive/main"


def part(name: str, sealed: bytes = b"sealed", *, slot: str = SLOT, stamp: int = 1) -> IndexPartRow:
    return IndexPartRow(HERE, slot, name, stamp, sealed)


@pytest.fixture
async def founded(store: Store) -> Store:
    async with store.write() as tx:
        await tx.contexts.add(context())
        await tx.contexts.add(context(context_id=ELSEWHERE, handle="elsewhere"))
    return store


async def test_parts_are_replaced_dropped_and_found_by_slot_and_name(founded: Store) -> None:
    async with founded.write() as tx:
        await tx.index.put([part("0/meta"), part("0/words/1"), part("0/meta", b"other", slot=OTHER)])
        await tx.index.put([part("0/meta", b"newer", stamp=2)])
        await tx.index.drop(HERE, SLOT, ["0/words/1", "0/delta/7"])

    async with founded.read() as tx:
        assert await tx.index.parts(HERE, SLOT, ["0/meta", "0/words/1"]) == [part("0/meta", b"newer", stamp=2)]
        assert await tx.index.parts(HERE, OTHER, ["0/meta"]) == [part("0/meta", b"other", slot=OTHER)]
        assert await tx.index.parts(ELSEWHERE, SLOT, ["0/meta"]) == []
        assert await tx.index.parts(HERE, SLOT, []) == []


async def test_a_slot_is_indexed_from_its_first_turn_on(founded: Store) -> None:
    async with founded.write() as tx:
        assert await tx.index.slots(HERE, [SLOT]) == []
        assert await tx.index.turn(HERE, SLOT, 3) == IndexSlotRow(HERE, SLOT, 3, 0)
        await tx.index.set_slot(IndexSlotRow(HERE, SLOT, 4, 2))

    async with founded.write() as tx:
        assert await tx.index.turn(HERE, SLOT, 3) == IndexSlotRow(HERE, SLOT, 4, 2)
        assert await tx.index.slots(HERE, [SLOT, OTHER]) == [IndexSlotRow(HERE, SLOT, 4, 2)]


async def test_writers_of_one_slot_take_turns_and_lose_nothing(founded: Store) -> None:
    async def one_more() -> None:
        async with founded.write() as tx:
            row = await tx.index.turn(HERE, SLOT, 1)
            stored = {each.part: each for each in await tx.index.parts(HERE, SLOT, ["0/meta"])}
            await asyncio.sleep(0)
            count = stored["0/meta"].stamp if stored else 0
            await tx.index.put([part("0/meta", stamp=count + 1)])
            await tx.index.set_slot(replace(row, segments=row.segments + 1))

    await asyncio.gather(*(one_more() for _ in range(8)))

    async with founded.read() as tx:
        assert [each.stamp for each in await tx.index.parts(HERE, SLOT, ["0/meta"])] == [8]
        assert [each.segments for each in await tx.index.slots(HERE, [SLOT])] == [8]


async def test_a_place_is_the_last_one_given_and_goes_with_a_swept_page(founded: Store) -> None:
    async with founded.write() as tx:
        await tx.pages.add(page(expires_ms=NOW + 1), 1, b"tag")
        await tx.index.set_place(HERE, "page", IndexPlace(SLOT, 0, 7))
        await tx.index.set_place(HERE, "page", IndexPlace(OTHER, 1, 8))
        await tx.index.set_place(HERE, "kept", IndexPlace(SLOT, 0, 9))
        assert await tx.index.place(HERE, "page") == IndexPlace(OTHER, 1, 8)
        assert await tx.index.place(ELSEWHERE, "page") is None

    async with founded.write() as tx:
        await tx.pages.delete_expired(HERE, NOW + 1)
        assert await tx.index.place(HERE, "page") is None
        await tx.index.set_place(HERE, "kept", None)
        assert await tx.index.place(HERE, "kept") is None


async def test_a_cleared_index_takes_its_parts_and_places_and_no_others(founded: Store) -> None:
    async with founded.write() as tx:
        await tx.index.put([part("0/meta"), part("0/meta", slot=OTHER)])
        await tx.index.set_place(HERE, "page", IndexPlace(SLOT, 0, 7))
        await tx.index.set_place(HERE, "other", IndexPlace(OTHER, 0, 7))
        await tx.index.clear(HERE, SLOT)

    async with founded.read() as tx:
        assert await tx.index.parts(HERE, SLOT, ["0/meta"]) == []
        assert len(await tx.index.parts(HERE, OTHER, ["0/meta"])) == 1
        assert await tx.index.place(HERE, "page") is None
        assert await tx.index.place(HERE, "other") is not None


async def test_a_slot_knows_whether_another_page_is_there(founded: Store) -> None:
    async with founded.write() as tx:
        await tx.pages.add(page(), 1, b"one")
        assert not await tx.pages.has_others(HERE, SLOT, "page", NOW)
        await tx.pages.add(page(page_id="brief", expires_ms=NOW + 1), 1, b"two")
        assert await tx.pages.has_others(HERE, SLOT, "page", NOW)
        assert not await tx.pages.has_others(HERE, SLOT, "page", NOW + 1)
        assert not await tx.pages.has_others(HERE, OTHER, "page", NOW)


async def test_there_is_no_index_without_a_context(store: Store) -> None:
    with pytest.raises(NotFoundError):
        async with store.write() as tx:
            await tx.index.put([part("0/meta")])

"""The search index beside the pages: always in step, blind to closed slots, and never wrong without a word."""

from __future__ import annotations

import asyncio
import random  # noqa: TID251 - seeded choices, the same in every run
from dataclasses import replace

import pytest

from tests.flows.usecase_support import EVERYTHING, Hand, World, every_store
from zkpcp.core.instants import to_rfc3339
from zkpcp.errors import CorruptError, ForbiddenError
from zkpcp.testing import FixedClock, _Tables
from zkpcp.usecases import forget
from zkpcp.usecases.filters import Filters
from zkpcp.usecases.indexing import rebuild_index

WORDS = ("boiler", "boilers", "service", "garden", "the", "willow", "boat", "running", "key", "mat", "蜂蜜", "café")
QUERIES = ("boiler service", "the boats", "running willow key", "蜂蜜", "cafe garden the mat")


def chosen(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 - choices of a test, not a secret


def clock_of(world: World) -> FixedClock:
    clock = world.services.clock
    assert isinstance(clock, FixedClock)
    return clock


async def answers(hand: Hand, query: str, *, scan: bool, filters: Filters | None = None) -> list[tuple[object, ...]]:
    """What a search says; a search as of now counts by scanning the pages themselves."""
    now = to_rfc3339(hand.services.clock.now_ms())
    results = await hand.search(query, as_of=now if scan else None, filters=filters)
    return [(each.head, each.score, each.snippet, each.why) for each in results.found]


async def live_through(world: World, hand: Hand, draw: random.Random, steps: int) -> None:
    """Some pages come, change, become sensitive, relate to each other, expire, go and come back."""
    for _ in range(steps):
        clock_of(world).advance(1_000)
        path = f"notes/n{draw.randrange(12)}"
        body = " ".join(draw.choices(WORDS, k=draw.randrange(1, 12)))
        match draw.randrange(10):
            case 0 if path in await hand.paths():
                deleted = await forget.delete_page(hand.services, hand.who, path=path)
                if draw.random() < 0.5:
                    await forget.recover_page(hand.services, hand.who, deleted.page_id)
            case 1:
                await hand.write(path, body, sensitivity="sensitive")
            case 2:
                await hand.write(path, body, lifecycle=draw.choice(["stale", "archived"]), tags=["old"])
            case 3:
                await hand.write(
                    path, body, relations=[{"rel": "supersedes", "target": f"notes/n{draw.randrange(12)}"}]
                )
            case 4:
                ends_ms = hand.services.clock.now_ms() + draw.randrange(1, 20) * 1_000
                await hand.write(path, body, expires=to_rfc3339(ends_ms))
            case 5:
                await hand.write(path, body, valid_until="2026-01-01", tags=["old", "new"])
            case _:
                await hand.write(path, body, tags=["new"], type="semantic")


@every_store
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.requirement("MEM-17", "MEM-18", "MEM-20")
async def test_the_index_answers_as_a_scan_of_the_pages_does(stored_world: World, seed: int) -> None:
    draw = chosen(seed)
    some = (None, Filters(tags=("old",)), Filters(prefix="notes/n1"), Filters(type="semantic", include_archived=True))
    async with stored_world.owner() as owner:
        for _ in range(4):
            await live_through(stored_world, owner, draw, 12)
            for query in QUERIES:
                for filters in some:
                    found = await answers(owner, query, scan=False, filters=filters)
                    assert found == await answers(owner, query, scan=True, filters=filters)


@pytest.mark.requirement("MEM-13", "MEM-17")
async def test_pages_of_a_closed_slot_change_no_byte_of_an_answer(world: World) -> None:
    granted = await world.grant("memory:read", "memory:write")
    async with world.owner() as owner:
        await live_through(world, owner, chosen(3), 20)
    async with world.client(granted) as client:
        before = [await answers(client, query, scan=False) for query in QUERIES], await client.paths()
    async with world.owner() as owner:
        for number in range(5):
            await owner.write(f"secret/{number}", "the boiler and the willow " * 5, sensitivity="sensitive")
        await owner.write("secret/1", "other words", sensitivity="sensitive")
        await forget.delete_page(owner.services, owner.who, path="secret/2")
    async with world.client(granted) as client:
        assert ([await answers(client, query, scan=False) for query in QUERIES], await client.paths()) == before


@every_store
async def test_pages_written_at_once_are_all_found(stored_world: World) -> None:
    async with stored_world.owner() as owner:
        await asyncio.gather(*(owner.write(f"notes/n{number}", f"boiler number{number}") for number in range(12)))

        assert len(await owner.found("boiler")) == 12
        for number in range(12):
            assert (await owner.found(f"number{number}"))[0] == f"notes/n{number}"
        assert await answers(owner, "boiler", scan=False) == await answers(owner, "boiler", scan=True)


async def test_a_word_that_no_page_has_finds_what_it_may_have_meant(world: World) -> None:
    async with world.owner() as owner:
        await owner.write("home/heat", "The boiler was serviced in March.")
        await owner.write("home/boat", "The boat lies under the willow.")

        for typed in ("boilr", "boielr", "boilerr", "bpiler", "boile"):
            assert await owner.found(typed) == ["home/heat"], typed
        assert await owner.found("wilow") == ["home/boat"]
        assert await owner.found("xyzzyx") == []


@pytest.mark.parametrize("kind", ["meta", "heads", "words", "postings"])
@pytest.mark.requirement("KEY-05")
async def test_a_changed_missing_or_older_part_of_the_index_is_found_out(world: World, kind: str) -> None:
    def parts(tables: _Tables) -> list[tuple[str, str, str]]:
        return [key for key in tables.index_parts if f"/{kind}" in key[2]]

    async with world.owner() as owner:
        await owner.write("notes/boat", "the boat is under the willow")
        older = dict(world.tables().index_parts)
        await owner.write("notes/boat", "the boat is under the bridge")
        sound = dict(world.tables().index_parts)
        assert parts(world.tables())

        def flip(tables: _Tables) -> None:
            for key in parts(tables):
                row = tables.index_parts[key]
                tables.index_parts[key] = replace(row, sealed=row.sealed[:-1] + bytes([row.sealed[-1] ^ 1]))

        def drop(tables: _Tables) -> None:
            for key in parts(tables):
                del tables.index_parts[key]

        def put_back(tables: _Tables) -> None:
            for key in parts(tables):
                tables.index_parts[key] = older[key]

        for change in (flip, drop, put_back):
            world.tamper(change)
            with pytest.raises(CorruptError) as error:
                await owner.search("boat")
            assert "boat" not in str(error.value)
            assert (await world.last_entry()).action == "tampering.found"
            world.tamper(lambda tables: tables.index_parts.update(sound))
        assert await owner.found("boat") == ["notes/boat"]


@pytest.mark.requirement("KEY-05")
async def test_a_page_that_the_host_drops_or_puts_back_is_missed_by_a_search_that_finds_it(world: World) -> None:
    async with world.owner() as owner:
        written = await owner.write("notes/boat", "the boat is under the willow")
        older = world.tables().pages[world.context_id, written.page_id]
        clock_of(world).advance(1)
        await owner.write("notes/boat", "the boat is under the bridge")
        world.tamper(lambda tables: tables.pages.update({(world.context_id, written.page_id): older}))
        with pytest.raises(CorruptError):
            await owner.search("boat")
        world.tamper(lambda tables: tables.pages.pop((world.context_id, written.page_id)))
        with pytest.raises(CorruptError):
            await owner.search("boat")


async def test_a_listing_reads_the_directory_and_not_the_pages(world: World) -> None:
    async with world.owner() as owner:
        await owner.write("notes/boat", "the boat")
        await owner.write("work/plan", "the plan")
        world.tamper(lambda tables: tables.pages.update({k: replace(v, head=b"") for k, v in tables.pages.items()}))

        assert await owner.paths(Filters(prefix="notes/")) == ["notes/boat"]
        assert await owner.paths() == ["notes/boat", "work/plan"]


@every_store
async def test_a_lost_index_is_scanned_around_and_made_again(stored_world: World) -> None:
    async with stored_world.owner() as owner:
        await live_through(stored_world, owner, chosen(5), 25)
        before = [await answers(owner, query, scan=False) for query in QUERIES]
        async with stored_world.store.write() as tx:
            for slot in owner.who.readable_slots():
                await tx.index.clear(owner.who.context_id, slot)
                row = await tx.index.turn(owner.who.context_id, slot, 1)
                await tx.index.set_slot(replace(row, segments=0))
        assert [await answers(owner, query, scan=False) for query in QUERIES] == before
        clock_of(stored_world).advance(60_000)
        await owner.write("notes/new", "a boiler while there is no index")
        seen: list[tuple[int, int]] = []

        done = await rebuild_index(owner.services, owner.who, lambda *told: seen.append(told))

        assert done == len(seen) == len(await owner.paths(Filters(include_archived=True)))
        assert (await stored_world.last_entry()).action == "memory_list"
        for query in QUERIES:
            assert await answers(owner, query, scan=False) == await answers(owner, query, scan=True)
        await owner.write("notes/after", "another boiler")
        assert "notes/after" in await owner.found("boiler")


async def test_only_the_owner_makes_the_index_again(world: World) -> None:
    granted = await world.grant(*EVERYTHING)
    async with world.client(granted) as client:
        with pytest.raises(ForbiddenError):
            await rebuild_index(client.services, client.who, lambda *_: None)

"""Two at the same moment, clocks that jump, ends that lie behind: nothing is lost or half-written."""

from __future__ import annotations

import asyncio

import pytest

from tests.flows.usecase_support import HOUR_MS, MINUTE_MS, NOW_MS, Granted, World, every_store, follows
from zkpcp.core.access import RIGHTS
from zkpcp.core.instants import to_rfc3339
from zkpcp.errors import ConflictError, InvalidInputError, NotFoundError, RefusedError
from zkpcp.usecases import review
from zkpcp.usecases.housekeeping import sweep
from zkpcp.usecases.partitions import describe_partition
from zkpcp.usecases.remember import Written
from zkpcp.usecases.verify import verify_context

WRITER = ("memory:read", "memory:write")
DAY_MS = 24 * HOUR_MS


async def is_whole(world: World) -> None:
    assert follows(await world.audit_rows())
    await world.sign_in()
    async with world.open() as session:
        checks = await verify_context(world.services, session, lambda *_: None)
    assert [check for check in checks if not check.holds] == []


@every_store
@pytest.mark.requirement("MEM-02", "MEM-04")
async def test_two_paths_that_differ_in_case_alone_written_at_once_are_one_page(stored_world: World) -> None:
    one, other = [await stored_world.grant(*WRITER) for _ in range(2)]

    async def write(granted: Granted, path: str, text: str) -> Written | None:
        async with stored_world.client(granted) as client:
            try:
                return await client.write(path, text)
            except ConflictError:
                return None

    for number in range(8):
        results = await asyncio.gather(
            write(one, f"Notes/Boat-{number}", "one"), write(other, f"notes/boat-{number}", "other")
        )
        done = [result for result in results if result is not None]
        assert [result.created for result in done].count(True) == 1
        assert len({result.page_id for result in done}) == 1

    async with stored_world.owner() as owner:
        paths = await owner.paths()
        assert sorted(path.lower() for path in paths) == [f"notes/boat-{number}" for number in range(8)]
        for path in paths:
            assert (await owner.read(path.upper())).body in ("one", "other")
            assert await owner.found(path.rpartition("/")[2]) != []
    await is_whole(stored_world)


@pytest.mark.requirement("MEM-08", "MEM-15")
async def test_a_proposal_onto_a_page_closed_to_its_author_says_nothing_of_it(world: World) -> None:
    closed = await world.partition("closed")
    async with world.open() as session:
        await review.set_review(world.services, session, "proposals")
    await world.refresh()
    bea = await world.join("bea", {"main": RIGHTS})
    granted = await world.grant("memory:read", "memory:propose", "review:read", member=bea)
    async with world.owner() as owner:
        await owner.write("plan", "what nobody else knows", partition="closed")

    async with world.client(granted) as client:
        shown = []
        for path in ("plan", "free"):
            made = await review.propose_page(client.services, client.who, path=path, body="mine")
            listed = (await review.list_proposals(client.services, client.who)).proposals
            shown.append([(each.page.partition, each.page.body) for each in listed if each.proposal_id == made])
        assert shown[0] == shown[1] == [("main", "mine")]

    async with world.owner() as owner:
        waiting = {
            each.page.path.value: each for each in (await review.list_proposals(owner.services, owner.who)).proposals
        }
        compared = await review.compare(owner.services, owner.who, waiting["plan"].proposal_id)
        assert compared.is_stale
        assert compared.current is not None
        with pytest.raises(ConflictError):
            await review.approve(
                owner.services, owner.who, waiting["plan"].proposal_id, seen_updated=compared.current.updated
            )
        assert (await owner.read("plan")).body == "what nobody else knows"
        assert (await owner.read("plan")).partition == "closed"
    assert closed


@every_store
@pytest.mark.requirement("MEM-11")
async def test_an_end_in_the_past_is_refused_by_its_field_and_nothing_is_stored(stored_world: World) -> None:
    async with stored_world.owner() as owner:
        kept = await owner.write("a", "stays")
        for path, expected in (("a", kept.updated), ("new", None)):
            for expires in (to_rfc3339(NOW_MS), to_rfc3339(NOW_MS - DAY_MS), "1970-01-01T00:00:00Z"):
                with pytest.raises(InvalidInputError) as refused:
                    await owner.write(path, "gone at once", expected=expected, expires=expires)
                assert [item.path for item in refused.value.violations] == ["/frontmatter/expires"]
        assert await owner.paths() == ["a"]
        assert (await owner.read("a")).body == "stays"
        assert (await owner.read("a")).updated == kept.updated


@every_store
@pytest.mark.requirement("MEM-10", "MEM-11", "AUD-05")
async def test_a_clock_that_jumps_ahead_and_back_loses_what_had_ended_and_nothing_else(stored_world: World) -> None:
    granted = await stored_world.grant(*WRITER)
    async with stored_world.owner() as owner:
        first = await owner.write("a", "heron one")
        await owner.write("brief", "heron for a day", expires=to_rfc3339(NOW_MS + DAY_MS))

    stored_world.clock.advance(400 * DAY_MS)
    await sweep(stored_world.services, stored_world.context)
    with pytest.raises(RefusedError):
        async with stored_world.client(granted) as client:
            await client.read("a")
    await stored_world.sign_in()
    async with stored_world.owner() as owner:
        assert await owner.paths() == ["a"]
        second = await owner.write("a", "heron two", expected=first.updated)

    stored_world.clock.advance(-400 * DAY_MS + MINUTE_MS)
    await stored_world.sign_in()
    async with stored_world.owner() as owner:
        third = await owner.write("a", "heron three", expected=second.updated)
        assert first.updated < second.updated < third.updated
        with pytest.raises(NotFoundError):
            await owner.read("brief")
        assert await owner.found("heron") == ["a"]
    await is_whole(stored_world)


@every_store
@pytest.mark.requirement("MEM-12")
async def test_a_partition_renamed_at_the_moment_of_a_write_has_the_page_or_the_write_is_refused(
    stored_world: World,
) -> None:
    partition = await stored_world.partition("name-0")
    granted = await stored_world.grant(*WRITER)

    async def write(number: int) -> list[str]:
        """The fields that were wrong."""
        async with stored_world.client(granted) as client:
            try:
                await client.write(f"p/{number}", "text", partition=f"name-{number}")
            except InvalidInputError as refused:
                return [item.path for item in refused.violations]
        return []

    async def rename(number: int) -> None:
        async with stored_world.open() as session:
            await describe_partition(
                stored_world.services, session, partition, name=f"name-{number + 1}", description=""
            )

    wrong = [(await asyncio.gather(write(number), rename(number)))[0] for number in range(6)]

    async with stored_world.owner() as owner:
        assert all(fields in ([], ["/frontmatter/partition"]) for fields in wrong)
        assert await owner.paths() == [f"p/{number}" for number, fields in enumerate(wrong) if not fields]
        for path in await owner.paths():
            assert (await owner.read(path)).partition == "name-6"
    await is_whole(stored_world)

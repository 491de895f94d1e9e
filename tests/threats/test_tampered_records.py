"""A host that changes, moves or swaps stored records: each is found out and logged, without a word of content."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from tests.flows.usecase_support import EVERYTHING, NOW_MS, Hand, World
from zkpcp.core.audit import Outcome
from zkpcp.core.stored import PageRow
from zkpcp.errors import NotFoundError, RefusedError, TamperedError
from zkpcp.testing import _Tables
from zkpcp.vault import records

SECRET = "the boat is under the willow"
OTHER = "the key is under the mat"
LATER = "2099-01-01T00:00:00Z"
"""A search as of another time scans the pages themselves."""

Look = Callable[[Hand], Awaitable[object]]


def flipped(data: bytes, at: int = -1) -> bytes:
    changed = bytearray(data)
    changed[at] ^= 1
    return bytes(changed)


async def found_out(world: World, act: Awaitable[object], *, categories: tuple[str, ...] = ("memory",)) -> None:
    """The act fails as tampering without a word of content, and leaves one entry that says so."""
    before = len(await world.entries())
    with pytest.raises(TamperedError) as error:
        await act
    assert not [word for word in ("boat", "willow", "under", "notes") if word in str(error.value)]
    entries = await world.entries()
    assert len(entries) == before + 1
    assert (entries[-1].action, entries[-1].outcome) == ("tampering.found", Outcome.ERROR)
    assert entries[-1].categories == categories


def page_change(world: World, page_id: str, change: Callable[[PageRow], PageRow]) -> Callable[[_Tables], None]:
    key = (world.context_id, page_id)

    def apply(tables: _Tables) -> None:
        tables.pages[key] = change(tables.pages[key])

    return apply


CHANGES: dict[str, Callable[[PageRow], PageRow]] = {
    "another id": lambda row: replace(row, page_id="pg_00"),
    "another generation": lambda row: replace(row, generation=row.generation + 1),
    "an older version": lambda row: replace(row, version=row.version - 1),
    "a newer version": lambda row: replace(row, version=row.version + 1),
    "an earlier date": lambda row: replace(row, updated_ms=row.updated_ms - 1),
    "a longer retention": lambda row: replace(row, expires_ms=NOW_MS * 2),
    "no retention": lambda row: replace(row, expires_ms=None),
}
SLOTS: dict[str, Callable[[PageRow], PageRow]] = {
    "made sensitive": lambda row: replace(row, slot="memory.sensitive/main"),
    "made proposed": lambda row: replace(row, review_state="proposed"),
}


async def one_page(world: World) -> str:
    async with world.owner() as owner:
        written = await owner.write("notes/boat", SECRET, expires="2099-01-01T00:00:00Z")
        await owner.write("notes/boat", SECRET)
    return written.page_id


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.requirement("KEY-05")
async def test_a_page_relabelled_in_its_row_does_not_open(world: World, change: Callable[[PageRow], PageRow]) -> None:
    page_id = await one_page(world)
    granted = await world.grant(*EVERYTHING)
    world.tamper(page_change(world, page_id, change))

    async with world.client(granted) as client:
        await found_out(world, client.read("notes/boat"))
        await found_out(world, client.read(page_id=page_id))
        await found_out(world, client.write("notes/boat", "mine now"))
        await found_out(world, client.search("boat"))
        await found_out(world, client.search("boat", as_of=LATER))
        await found_out(world, client.brief(), categories=("memory", "profile.core"))


@pytest.mark.parametrize("change", SLOTS.values(), ids=SLOTS)
async def test_a_page_moved_to_another_slot_or_state_does_not_open(
    world: World, change: Callable[[PageRow], PageRow]
) -> None:
    page_id = await one_page(world)
    world.tamper(page_change(world, page_id, change))

    async with world.owner() as owner:
        await found_out(world, owner.read("notes/boat"))
        await found_out(world, owner.list())
        await found_out(world, owner.search("boat"))


@pytest.mark.parametrize(
    ("part", "looks"),
    [
        ("sealed", [lambda hand: hand.read("notes/boat"), lambda hand: hand.search("boat"), lambda hand: hand.brief()]),
        ("head", [lambda hand: hand.search("boat"), lambda hand: hand.search("boat", as_of=LATER)]),
        (
            "terms",
            [
                lambda hand: hand.search("boat"),
                lambda hand: hand.search("nothing", as_of=LATER),
                lambda hand: hand.write("notes/boat", "new"),
            ],
        ),
    ],
)
@pytest.mark.parametrize("at", [0, 1, 25, 57, -1])
async def test_a_changed_byte_of_body_head_or_terms_is_found_by_what_opens_it(
    world: World, part: str, looks: list[Look], at: int
) -> None:
    page_id = await one_page(world)

    def change(row: PageRow) -> PageRow:
        parts = {"sealed": row.sealed, "head": row.head, "terms": row.terms}
        changed = {part: flipped(parts[part], at)}
        return replace(row, **changed)  # type: ignore[arg-type]  # one of three members of bytes

    world.tamper(page_change(world, page_id, change))

    async with world.owner() as owner:
        for look in looks:
            before = len(await world.entries())
            with pytest.raises(Exception, match=r"box") as error:
                await look(owner)
            assert type(error.value).__name__ in ("TamperedError", "CorruptError")
            assert len(await world.entries()) == before + 1
            assert (await world.last_entry()).action == "tampering.found"


@pytest.mark.parametrize("part", ["sealed", "head", "terms"])
async def test_one_part_of_a_page_does_not_pass_for_another(world: World, part: str) -> None:
    page_id = await one_page(world)

    def change(row: PageRow) -> PageRow:
        parts = {"sealed": row.head, "head": row.terms, "terms": row.sealed}
        return replace(row, **{part: parts[part]})  # type: ignore[arg-type]  # one of three members of bytes

    world.tamper(page_change(world, page_id, change))

    async with world.owner() as owner:
        await found_out(world, owner.read("notes/boat") if part == "sealed" else owner.search("boat"))


@pytest.mark.parametrize("whole_row", [True, False])
async def test_two_pages_that_changed_places_are_found_out(world: World, *, whole_row: bool) -> None:
    page_id = await one_page(world)
    async with world.owner() as owner:
        other = await owner.write("notes/key", OTHER)

    def swap(tables: _Tables) -> None:
        first, second = (world.context_id, page_id), (world.context_id, other.page_id)
        one, two = tables.pages[first], tables.pages[second]
        if not whole_row:
            one, two = replace(one, page_id=two.page_id), replace(two, page_id=one.page_id)
        tables.pages[first], tables.pages[second] = two, one

    world.tamper(swap)

    async with world.owner() as owner:
        for act in (owner.read("notes/boat"), owner.read(page_id=page_id), owner.read(page_id=other.page_id)):
            await found_out(world, act)
        await found_out(world, owner.write("notes/key", "mine now"))


async def test_a_path_tag_that_leads_to_another_page_is_found_out(world: World) -> None:
    page_id = await one_page(world)
    async with world.owner() as owner:
        other = await owner.write("notes/key", OTHER)

    def swap(tables: _Tables) -> None:
        turned = {page_id: other.page_id, other.page_id: page_id}
        tables.tags.update({tag: turned[target] for tag, target in tables.tags.items()})

    world.tamper(swap)

    async with world.owner() as owner:
        await found_out(world, owner.read("notes/boat"))
        await found_out(world, owner.write("notes/boat", "mine now"))


@pytest.mark.requirement("CTX-05")
async def test_a_page_of_another_context_does_not_open_here(world: World) -> None:
    page_id = await one_page(world)
    other = await World.founded(world.store, handle="bea")
    async with other.owner() as owner:
        foreign = await owner.write("notes/boat", OTHER)

    def smuggle(tables: _Tables) -> None:
        row = tables.pages[other.context_id, foreign.page_id]
        tables.pages[world.context_id, page_id] = replace(row, context_id=world.context_id)
        tables.pages[world.context_id, foreign.page_id] = replace(row, context_id=world.context_id)

    world.tamper(smuggle)

    async with world.owner() as owner:
        await found_out(world, owner.read("notes/boat"))
        await found_out(world, owner.read(page_id=foreign.page_id))


async def test_a_record_that_is_gone_is_just_not_found(world: World) -> None:
    # What a single read cannot notice; integrity heads are for that (§9.1).
    page_id = await one_page(world)
    world.tamper(lambda tables: tables.pages.pop((world.context_id, page_id)))

    async with world.owner() as owner:
        with pytest.raises(NotFoundError):
            await owner.read("notes/boat")


async def test_a_profile_changed_moved_or_taken_from_elsewhere_does_not_open(world: World) -> None:
    other = await World.founded(world.store, handle="bea")
    for each in (world, other):
        async with each.owner() as owner:
            await owner.patch({"name": SECRET})
            await owner.patch({"name": OTHER})
    key = (world.context_id, "profile.core")
    true = world.tables().profiles[key]
    foreign = replace(world.tables().profiles[other.context_id, "profile.core"], context_id=world.context_id)
    false = [
        replace(true, sealed=flipped(true.sealed)),
        replace(true, version=true.version - 1),
        replace(true, updated_ms=true.updated_ms + 1),
        replace(true, generation=2),
        foreign,
    ]

    for row in false:
        world.tamper(lambda tables, row=row: tables.profiles.update({key: row}))  # type: ignore[misc]  # bound at once
        async with world.owner() as owner:
            await found_out(world, owner.profiles(), categories=("profile.core",))
            await found_out(world, owner.patch({"name": "Eve"}), categories=("profile.core",))
            with pytest.raises(TamperedError):
                await owner.brief()
        assert world.tables().profiles[key] == row


@pytest.mark.requirement("PROF-04")
async def test_the_change_log_cannot_be_laid_at_another_door(world: World) -> None:
    async with world.owner() as owner:
        await owner.patch({"name": SECRET})
        async with world.store.read() as tx:
            (row,) = await tx.profiles.changes(world.context_id, "profile.core", 1)
        keys = owner.who.keys
        assert records.open_change(keys, row) == ("/name",)

        for false in (
            replace(row, principal="human:eve"),
            replace(row, client="cli_eve"),
            replace(row, at_ms=row.at_ms + 1),
            replace(row, version=row.version + 1),
        ):
            with pytest.raises(TamperedError):
                records.open_change(keys, false)


async def test_a_changed_record_is_never_half_used(world: World) -> None:
    page_id = await one_page(world)
    world.tamper(page_change(world, page_id, lambda row: replace(row, sealed=flipped(row.sealed))))
    rows = dict(world.tables().pages)

    async with world.owner() as owner:
        await found_out(world, owner.write("notes/boat", "mine now"))
        with pytest.raises(RefusedError):
            await owner.write("Notes/boat/", "mine now")

    assert world.tables().pages == rows

"""What a change of keys reads and writes: links, rows of earlier generations, path tags of each, and their end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, get_args

import pytest

from tests.contract.rows import (
    ELSEWHERE,
    HERE,
    NOW,
    change,
    entry,
    fill,
    keyring,
    page,
    profile,
    proposal,
)
from zkpcp.core.stored import (
    KeyLinkRow,
    PageRow,
    ProposalRow,
    RotatedKind,
    RotatedRow,
)
from zkpcp.errors import ConflictError, NotFoundError
from zkpcp.ports import Store

KINDS: Final[tuple[RotatedKind, ...]] = get_args(RotatedKind)
COUNTED: Final = {*KINDS, "index", "inbox", "path_tags"}


def link(generation: int = 1, slot: str = "memory/main", *, context_id: str = HERE) -> KeyLinkRow:
    return KeyLinkRow(context_id, slot, generation, "rec", b"sealed")


@pytest.fixture
async def filled(store: Store) -> Store:
    """One row of each kind, all of generation 1, in two contexts."""
    for context_id, handle in ((HERE, "here"), (ELSEWHERE, "elsewhere")):
        await fill(store, context_id, handle)
        async with store.write() as tx:
            await tx.pages.replace(page(context_id=context_id, version=2, expires_ms=NOW + 1000))
            await tx.proposals.add(proposal(context_id=context_id))
            await tx.index.turn(context_id, "memory/main", 1)
    return store


async def left(store: Store, context_id: str = HERE, generation: int = 2) -> Mapping[str, int]:
    async with store.read() as tx:
        return await tx.rotation.left(context_id, generation)


def sealed_anew(row: RotatedRow) -> RotatedRow:
    if isinstance(row, PageRow):
        return replace(row, generation=2, sealed=b"anew", head=b"anew head", terms=b"anew terms")
    return replace(row, generation=2, sealed=b"anew")


@pytest.mark.requirement("KEY-12")
async def test_links_come_by_slot_and_end_with_their_generation(filled: Store) -> None:
    mine = [link(), link(2), link(slot="profile.core")]
    async with filled.write() as tx:
        await tx.rotation.add_links([*mine, link(context_id=ELSEWHERE)])

    async with filled.write() as tx:
        assert set(await tx.rotation.links(HERE)) == set(mine)
        assert await tx.rotation.links(HERE, ["profile.core"]) == [link(slot="profile.core")]
        assert await tx.rotation.links(HERE, []) == []
        await tx.rotation.end(HERE, 2)

    async with filled.read() as tx:
        assert await tx.rotation.links(HERE) == [link(2)]
        assert await tx.rotation.links(ELSEWHERE) == [link(context_id=ELSEWHERE)]


@pytest.mark.requirement("KEY-12")
async def test_every_kind_of_sealed_row_is_counted_and_found_until_it_is_of_the_live_generation(filled: Store) -> None:
    assert set(await left(filled)) == COUNTED
    assert [kind for kind, number in (await left(filled)).items() if not number] == []
    assert not any((await left(filled, generation=1)).values())

    for kind in KINDS:
        async with filled.write() as tx:
            rows = await tx.rotation.behind(HERE, kind, 2, 10)
            assert {row.context_id for row in rows} == {HERE}
            assert [await tx.rotation.reseal(kind, sealed_anew(row), row) for row in rows] == [True] * len(rows)
            assert await tx.rotation.behind(HERE, kind, 2, 10) == []
            assert await tx.rotation.behind(HERE, kind, 3, 10) == [sealed_anew(row) for row in rows]

    after = await left(filled)
    assert {kind for kind, number in after.items() if number} == {"index", "inbox", "path_tags"}
    assert all(number >= 1 for number in (await left(filled, ELSEWHERE)).values())


@pytest.mark.requirement("KEY-12")
async def test_rows_come_in_order_and_some_can_be_passed_over(filled: Store) -> None:
    async with filled.write() as tx:
        for name in ("b", "a", "c"):
            await tx.pages.add(page(page_id=name), 1, name.encode())

    async with filled.read() as tx:
        ids = [row.page_id for row in await tx.rotation.behind(HERE, "pages", 2, 10) if isinstance(row, PageRow)]
        assert ids == ["a", "b", "c", "page"]
        some = await tx.rotation.behind(HERE, "pages", 2, 2, skip=1)
        assert [row.page_id for row in some if isinstance(row, PageRow)] == ["b", "c"]


@pytest.mark.requirement("KEY-12")
async def test_a_row_that_changed_meanwhile_is_left_as_it_is(filled: Store) -> None:
    async with filled.read() as tx:
        [read] = await tx.rotation.behind(HERE, "pages", 2, 10)
        [asked] = await tx.rotation.behind(HERE, "proposals", 2, 10)
    assert isinstance(read, PageRow)
    assert isinstance(asked, ProposalRow)
    newer = page(version=3, sealed=b"an edit", expires_ms=NOW + 1000)
    async with filled.write() as tx:
        await tx.pages.replace(newer)
        await tx.proposals.replace(replace(asked, generation=2, sealed=b"admitted"))

    async with filled.write() as tx:
        assert not await tx.rotation.reseal("pages", sealed_anew(read), read)
        assert not await tx.rotation.reseal("proposals", sealed_anew(asked), asked)
        assert not await tx.rotation.reseal("pages", replace(newer, context_id="another", generation=2), newer)
        assert await tx.pages.page(HERE, "page", ["memory/main"], NOW) == newer


@pytest.mark.requirement("KEY-12", "MEM-02")
async def test_a_page_has_a_tag_of_each_generation_and_no_other_page_has_the_same(filled: Store) -> None:
    async with filled.read() as tx:
        assert [head.page_id for head in await tx.rotation.untagged(HERE, 2, 10)] == ["page"]
        assert await tx.rotation.untagged(HERE, 2, 10, skip=1) == []
    async with filled.write() as tx:
        await tx.pages.claim(HERE, "page", 2, b"newer tag")
        await tx.pages.claim(HERE, "page", 2, b"newer tag")
        assert await tx.rotation.untagged(HERE, 2, 10) == []
        assert await tx.pages.by_tag(HERE, 1, b"tag of page") == "page"
        assert await tx.pages.by_tag(HERE, 2, b"newer tag") == "page"
        assert await tx.pages.by_tag(ELSEWHERE, 2, b"newer tag") is None
    with pytest.raises(ConflictError):
        async with filled.write() as tx:
            await tx.pages.claim(HERE, "item", 2, b"newer tag")

    async with filled.write() as tx:
        await tx.rotation.end(HERE, 2)
        assert await tx.pages.by_tag(HERE, 1, b"tag of page") is None
        assert await tx.pages.by_tag(HERE, 2, b"newer tag") == "page"
        assert await tx.pages.by_tag(ELSEWHERE, 1, b"tag of page") == "page"


@pytest.mark.requirement("KEY-12")
async def test_keyrings_of_earlier_epochs_go_and_those_of_the_live_one_stay(filled: Store) -> None:
    async with filled.write() as tx:
        await tx.grants.put_keyring(keyring(epoch=2))
        await tx.grants.delete_keyrings_before(HERE, 2)

    async with filled.read() as tx:
        assert await tx.grants.keyring(HERE, "grant", "grant", 1) is None
        assert await tx.grants.keyring(HERE, "grant", "grant", 2) == keyring(epoch=2)
        assert await tx.grants.principal_keyring(HERE, "human:me") is None
        assert await tx.grants.keyring(ELSEWHERE, "grant", "grant", 1) is not None


@pytest.mark.requirement("KEY-12", "KEY-07")
async def test_the_log_remembers_the_newest_roster_that_an_entry_was_written_by(filled: Store) -> None:
    async with filled.write() as tx:
        await tx.audit.append(entry(2), 5)
        await tx.audit.append(entry(3), 4)
        await tx.audit.append(entry(4))

    async with filled.write() as tx:
        head = await tx.audit.head(HERE)
        assert (head.seq, head.roster_version) == (4, 5)
        assert (await tx.audit.head(ELSEWHERE)).roster_version == 0


@pytest.mark.requirement("KEY-10")
async def test_what_a_wrap_remembers_of_the_log_is_looked_up_without_its_entry(filled: Store) -> None:
    async with filled.read() as tx:
        newest = await tx.audit.newest(HERE)
        assert (newest.seq, newest.hash) == (1, entry().hash)
        assert await tx.audit.hash_of(HERE, 1) == entry().hash
        assert await tx.audit.hash_of(HERE, 2) is None
        assert await tx.audit.hash_of("another", 1) is None
        with pytest.raises(NotFoundError):
            await tx.audit.newest("another")


@pytest.mark.requirement("PROF-01", "KEY-12")
async def test_namespaces_are_those_with_content(filled: Store) -> None:
    async with filled.write() as tx:
        await tx.profiles.put(profile(namespace="pcp.home"), change(namespace="pcp.home"))
        assert await tx.rotation.namespaces(HERE) == ["pcp.home", "profile.core"]
        assert await tx.rotation.namespaces("another") == []


async def test_there_are_no_links_without_a_context(store: Store) -> None:
    with pytest.raises(NotFoundError):
        async with store.write() as tx:
            await tx.rotation.add_links([link()])

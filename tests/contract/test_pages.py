"""Pages, path tags and the inbox keep their promises on every engine."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from tests.contract.rows import HERE, NOW, context, item, page
from zkpcp.core.stored import HeadRow, TermsRow
from zkpcp.errors import ConflictError
from zkpcp.ports import Store

OPEN = "memory/main"
SENSITIVE = "memory.sensitive/main"
BOTH = frozenset({OPEN, SENSITIVE})


@pytest.fixture(autouse=True)
async def _context(store: Store) -> None:
    async with store.write() as tx:
        await tx.contexts.add(context())


@pytest.mark.requirement("MEM-02")
async def test_a_path_tag_has_one_page_and_a_refusal_writes_nothing(store: Store) -> None:
    async with store.write() as tx:
        await tx.pages.add(page(), 1, b"tag")
        with pytest.raises(ConflictError):
            await tx.pages.add(page(page_id="second"), 1, b"tag")
        with pytest.raises(ConflictError):
            await tx.pages.add_to_inbox(item(), 1, b"tag")
        await tx.pages.add(page(page_id="third"), 2, b"tag")

    async with store.read() as tx:
        assert await tx.pages.by_tag(HERE, 1, b"tag") == "page"
        assert await tx.pages.by_tag(HERE, 2, b"tag") == "third"
        assert await tx.pages.by_tag(HERE, 3, b"tag") is None
        assert await tx.pages.count(HERE) == 2
        assert await tx.pages.inbox(HERE, BOTH, 10) == []


@pytest.mark.requirement("MEM-02")
async def test_of_many_who_write_to_one_path_at_once_one_wins(store: Store) -> None:
    async def add(name: str) -> str | None:
        try:
            async with store.write() as tx:
                await tx.pages.add(page(page_id=name), 1, b"tag")
        except ConflictError:
            return None
        return name

    names = [name for name in await asyncio.gather(*(add(f"page-{n}") for n in range(8))) if name]

    assert len(names) == 1
    async with store.read() as tx:
        assert await tx.pages.by_tag(HERE, 1, b"tag") == names[0]
        assert await tx.pages.count(HERE) == 1


async def test_a_page_is_replaced_by_the_version_after_it_only(store: Store) -> None:
    second = page(version=2, slot=SENSITIVE, generation=3, review_state="proposed", updated_ms=NOW + 1, sealed=b"two")
    async with store.write() as tx:
        await tx.pages.add(page(), 1, b"tag")
        await tx.pages.replace(second)
        for stale in (page(version=1), second, page(version=4), page(page_id="stranger", version=2)):
            with pytest.raises(ConflictError):
                await tx.pages.replace(stale)

    async with store.read() as tx:
        assert await tx.pages.page(HERE, "page", [SENSITIVE], NOW) == second


async def test_a_locked_page_loses_no_update(store: Store) -> None:
    async with store.write() as tx:
        await tx.pages.add(page(), 1, b"tag")

    async def write_on() -> None:
        async with store.write() as tx:
            row = await tx.pages.page(HERE, "page", BOTH, NOW, lock=True)
            assert row is not None
            await tx.pages.replace(replace(row, version=row.version + 1, sealed=row.sealed + b"+"))

    await asyncio.gather(*(write_on() for _ in range(8)))

    async with store.read() as tx:
        row = await tx.pages.page(HERE, "page", BOTH, NOW)
        assert row is not None
        assert (row.version, row.sealed) == (9, b"sealed" + b"+" * 8)


@pytest.mark.parametrize("lock", [False, True])
async def test_a_page_shows_to_holders_of_its_slot_until_it_expires(store: Store, *, lock: bool) -> None:
    row = page(expires_ms=NOW)
    async with store.write() as tx:
        await tx.pages.add(row, 1, b"tag")

        assert await tx.pages.page(HERE, "page", BOTH, NOW - 1, lock=lock) == row
        assert await tx.pages.page(HERE, "page", BOTH, NOW, lock=lock) is None
        assert await tx.pages.page(HERE, "page", [SENSITIVE], NOW - 1, lock=lock) is None
        assert await tx.pages.page(HERE, "page", [], NOW - 1, lock=lock) is None


async def test_listings_and_searches_see_approved_pages_of_open_slots_until_they_expire(store: Store) -> None:
    rows = [
        page(page_id="d"),
        page(page_id="a", slot=SENSITIVE, head=b"h", terms=b"t"),
        page(page_id="c", expires_ms=NOW + 1),
        page(page_id="expired", expires_ms=NOW),
        page(page_id="proposed", review_state="proposed"),
        page(page_id="closed", slot="memory/other"),
    ]
    async with store.write() as tx:
        for row in rows:
            await tx.pages.add(row, 1, row.page_id.encode())

    async with store.read() as tx:
        heads = await tx.pages.heads(HERE, BOTH, NOW)
        terms = await tx.pages.terms(HERE, BOTH, NOW)
        assert [row.page_id for row in heads] == [row.page_id for row in terms] == ["a", "c", "d"]
        assert heads[0] == HeadRow("a", SENSITIVE, 1, 1, "approved", NOW, None, b"h")
        assert terms[0] == TermsRow("a", SENSITIVE, 1, 1, "approved", NOW, None, b"t")
        assert [row.page_id for row in await tx.pages.heads(HERE, [SENSITIVE], NOW)] == ["a"]
        assert [row.page_id for row in await tx.pages.terms(HERE, [], NOW)] == []
        several = await tx.pages.pages(HERE, [row.page_id for row in reversed(rows)], BOTH, NOW)
        assert [row.page_id for row in several] == ["a", "c", "d", "proposed"]
        assert several[0] == rows[1]
        assert list(await tx.pages.pages(HERE, [], BOTH, NOW)) == []


async def test_the_inbox_hands_out_the_oldest_items_of_open_slots(store: Store) -> None:
    async with store.write() as tx:
        for name, updated_ms, slot in (("c", 1, SENSITIVE), ("b", 3, SENSITIVE), ("a", 2, SENSITIVE), ("x", 0, OPEN)):
            await tx.pages.add_to_inbox(item(page_id=name, updated_ms=updated_ms, slot=slot), 1, name.encode())

        assert await tx.pages.inbox(HERE, [SENSITIVE], 2) == [
            item(page_id="c", updated_ms=1),
            item(page_id="a", updated_ms=2),
        ]
        assert list(await tx.pages.inbox(HERE, [], 2)) == []


async def test_an_inbox_item_is_admitted_once_and_keeps_its_path(store: Store) -> None:
    async with store.write() as tx:
        await tx.pages.add_to_inbox(item(), 1, b"tag")

    async def admit() -> bool:
        async with store.write() as tx:
            return await tx.pages.admit(page(page_id="item", slot=SENSITIVE))

    assert sorted(await asyncio.gather(*(admit() for _ in range(6)))) == [False] * 5 + [True]
    async with store.read() as tx:
        assert await tx.pages.page(HERE, "item", [SENSITIVE], NOW) == page(page_id="item", slot=SENSITIVE)
        assert await tx.pages.by_tag(HERE, 1, b"tag") == "item"
        assert list(await tx.pages.inbox(HERE, [SENSITIVE], 10)) == []


async def test_a_discarded_item_frees_its_path_and_an_admitted_page_keeps_its_own(store: Store) -> None:
    async with store.write() as tx:
        await tx.pages.add_to_inbox(item(), 1, b"tag")
        await tx.pages.discard_inbox(HERE, "item")
        assert await tx.pages.by_tag(HERE, 1, b"tag") is None

        await tx.pages.add(page(), 1, b"tag")
        await tx.pages.discard_inbox(HERE, "page")
        assert await tx.pages.by_tag(HERE, 1, b"tag") == "page"


async def test_what_expired_goes_with_its_paths(store: Store) -> None:
    async with store.write() as tx:
        for name, expires_ms in (("past", NOW - 1), ("edge", NOW), ("ahead", NOW + 1), ("never", None)):
            await tx.pages.add(page(page_id=name, expires_ms=expires_ms), 1, name.encode())
        await tx.pages.add_to_inbox(item(expires_ms=NOW), 1, b"item")

        assert await tx.pages.delete_expired(HERE, NOW) == 3
        assert await tx.pages.delete_expired(HERE, NOW) == 0
        tags = [await tx.pages.by_tag(HERE, 1, tag) for tag in (b"past", b"edge", b"item", b"ahead", b"never")]
        assert tags == [None, None, None, "ahead", "never"]
        assert await tx.pages.count(HERE) == 2

"""Pages, path tags and the inbox keep their promises on every engine."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from tests.contract.rows import ELSEWHERE, HERE, NOW, context, item, page
from zkpcp.core.stored import DeletedRow, HeadRow, TermsRow
from zkpcp.errors import ConflictError, NotFoundError
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


@pytest.mark.requirement("ERA-07")
async def test_a_deleted_page_is_in_no_answer_and_its_path_is_free_at_once(store: Store) -> None:
    async with store.write() as tx:
        await tx.pages.add(page(), 1, b"tag")
        await tx.pages.add(page(page_id="other"), 1, b"other")
        await tx.pages.delete(HERE, "page", 1, deleted_ms=NOW, purge_ms=NOW + 10)
        await tx.pages.add(page(page_id="second"), 1, b"tag")

    async with store.read() as tx:
        assert await tx.pages.page(HERE, "page", BOTH, NOW) is None
        assert [row.page_id for row in await tx.pages.pages(HERE, ["page", "other"], BOTH, NOW)] == ["other"]
        assert [row.page_id for row in await tx.pages.heads(HERE, BOTH, NOW)] == ["other", "second"]
        assert [row.page_id for row in await tx.pages.terms(HERE, BOTH, NOW)] == ["other", "second"]
        assert await tx.pages.count(HERE) == 2
        assert await tx.pages.by_tag(HERE, 1, b"tag") == "second"


async def test_only_the_version_that_is_stored_is_deleted(store: Store) -> None:
    async with store.write() as tx:
        await tx.pages.add(page(), 1, b"tag")
        for page_id, version in (("page", 2), ("page", 0), ("stranger", 1)):
            with pytest.raises(ConflictError):
                await tx.pages.delete(HERE, page_id, version, deleted_ms=NOW, purge_ms=NOW + 10)

        assert await tx.pages.by_tag(HERE, 1, b"tag") == "page"
        assert list(await tx.pages.deleted(HERE, BOTH, NOW, 10)) == []


async def test_of_many_who_delete_and_recover_a_page_at_once_one_wins(store: Store) -> None:
    async with store.write() as tx:
        await tx.pages.add(page(), 1, b"tag")

    async def delete() -> bool:
        try:
            async with store.write() as tx:
                await tx.pages.delete(HERE, "page", 1, deleted_ms=NOW, purge_ms=NOW + 10)
        except ConflictError:
            return False
        return True

    async def recover(tag: bytes) -> bool:
        try:
            async with store.write() as tx:
                await tx.pages.recover(HERE, "page", 1, tag, recovered_ms=NOW)
        except (ConflictError, NotFoundError):
            return False
        return True

    assert sorted(await asyncio.gather(*(delete() for _ in range(6)))) == [False] * 5 + [True]
    assert sorted(await asyncio.gather(*(recover(b"tag%d" % (n % 2)) for n in range(6)))) == [False] * 5 + [True]
    async with store.read() as tx:
        tags = [await tx.pages.by_tag(HERE, 1, tag) for tag in (b"tag0", b"tag1")]
        assert sorted(tags, key=str) == [None, "page"]
        assert await tx.pages.page(HERE, "page", BOTH, NOW) == page()


async def test_a_deleted_page_comes_back_as_it_was_to_a_free_path_only(store: Store) -> None:
    row = page(slot=SENSITIVE, generation=3, version=7, expires_ms=NOW + 99, updated_ms=NOW - 5, sealed=b"\0\xff")
    async with store.write() as tx:
        await tx.pages.add(row, 1, b"tag")
        await tx.pages.delete(HERE, "page", 7, deleted_ms=NOW, purge_ms=NOW + 10)
        await tx.pages.add_to_inbox(item(), 1, b"tag")
        with pytest.raises(ConflictError):
            await tx.pages.recover(HERE, "page", 1, b"tag", recovered_ms=NOW)
        with pytest.raises(NotFoundError):
            await tx.pages.recover(HERE, "item", 1, b"free", recovered_ms=NOW)

        assert await tx.pages.by_tag(HERE, 1, b"free") is None
        assert await tx.pages.deleted_page(HERE, "page", BOTH, NOW) == row
        await tx.pages.recover(HERE, "page", 1, b"free", recovered_ms=NOW)
        with pytest.raises(NotFoundError):
            await tx.pages.recover(HERE, "page", 1, b"free too", recovered_ms=NOW)

    async with store.read() as tx:
        assert await tx.pages.page(HERE, "page", [SENSITIVE], NOW) == row
        assert await tx.pages.by_tag(HERE, 1, b"free") == "page"
        assert await tx.pages.by_tag(HERE, 1, b"free too") is None
        assert list(await tx.pages.deleted(HERE, BOTH, NOW, 10)) == []


async def test_deleted_pages_of_open_slots_are_listed_until_their_time_is_over(store: Store) -> None:
    rows = {
        "a": (page(page_id="a", head=b"h"), NOW - 3, NOW + 1),
        "b": (page(page_id="b", slot=SENSITIVE), NOW - 1, NOW + 2),
        "c": (page(page_id="c"), NOW - 1, NOW + 9),
        "edge": (page(page_id="edge"), NOW - 2, NOW),
        "closed": (page(page_id="closed", slot="memory/other"), NOW, NOW + 9),
    }
    async with store.write() as tx:
        for name, (row, deleted_ms, purge_ms) in rows.items():
            await tx.pages.add(row, 1, name.encode())
            await tx.pages.delete(HERE, name, 1, deleted_ms=deleted_ms, purge_ms=purge_ms)

        listed = list(await tx.pages.deleted(HERE, BOTH, NOW, 10))
        assert [row.head.page_id for row in listed] == ["b", "c", "a"]
        assert listed[2] == DeletedRow(HeadRow("a", OPEN, 1, 1, "approved", NOW, None, b"h"), NOW - 3, NOW + 1)
        assert list(await tx.pages.deleted(HERE, BOTH, NOW, 1)) == listed[:1]
        assert [row.head.page_id for row in await tx.pages.deleted(HERE, [OPEN], NOW, 10)] == ["c", "a"]
        assert list(await tx.pages.deleted(HERE, [], NOW, 10)) == []
        seen = [await tx.pages.deleted_page(HERE, name, BOTH, NOW) for name in rows]
        assert seen == [rows["a"][0], rows["b"][0], rows["c"][0], None, None]


async def test_of_too_many_deleted_pages_the_first_go_first(store: Store) -> None:
    big = 100
    async with store.write() as tx:
        for number, name in enumerate(("first", "second", "third", "fourth")):
            await tx.pages.add(page(page_id=name, sealed=bytes(big)), 1, name.encode())
            await tx.pages.delete(HERE, name, 1, deleted_ms=NOW + number, purge_ms=NOW + 1000)
        each = big + len(page().head) + len(page().terms)

        async def left() -> list[str]:
            return [row.head.page_id for row in await tx.pages.deleted(HERE, BOTH, NOW, 10)]

        assert await tx.pages.purge_deleted_beyond(HERE, 4, 4 * each) == 0
        assert await tx.pages.purge_deleted_beyond(ELSEWHERE, 0, 0) == 0
        assert await tx.pages.purge_deleted_beyond(HERE, 3, 4 * each) == 1
        assert await left() == ["fourth", "third", "second"]
        assert await tx.pages.purge_deleted_beyond(HERE, 3, 3 * each - 1) == 1
        assert await left() == ["fourth", "third"]
        assert await tx.pages.purge_deleted_beyond(HERE, 0, 4 * each) == 2
        assert await left() == []


async def test_what_is_past_its_time_is_purged_and_nothing_else(store: Store) -> None:
    async with store.write() as tx:
        for name, purge_ms in (("past", NOW - 1), ("edge", NOW), ("ahead", NOW + 1)):
            await tx.pages.add(page(page_id=name), 1, name.encode())
            await tx.pages.delete(HERE, name, 1, deleted_ms=NOW - 5, purge_ms=purge_ms)
        await tx.pages.add(page(), 1, b"edge")

        assert await tx.pages.purge_deleted(ELSEWHERE, NOW) == 0
        assert await tx.pages.purge_deleted(HERE, NOW) == 2
        assert await tx.pages.purge_deleted(HERE, NOW) == 0
        assert [row.head.page_id for row in await tx.pages.deleted(HERE, BOTH, 0, 10)] == ["ahead"]
        assert await tx.pages.by_tag(HERE, 1, b"edge") == "page"

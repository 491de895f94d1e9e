"""Earlier versions: kept by every change, chosen by time, closed where either slot is closed, gone with their page."""

from __future__ import annotations

import asyncio

import pytest

from tests.contract.rows import ELSEWHERE, HERE, NOW, context, page
from zkpcp.core.stored import PageRow
from zkpcp.errors import ConflictError
from zkpcp.ports import Store, Transaction

OPEN, SENSITIVE = "memory/main", "memory.sensitive/main"
BOTH = frozenset({OPEN, SENSITIVE})
LATER = NOW + 1000


@pytest.fixture(autouse=True)
async def contexts(store: Store) -> None:
    async with store.write() as tx:
        await tx.contexts.add(context())
        await tx.contexts.add(context(context_id=ELSEWHERE, handle="elsewhere"))


def version(number: int, at_ms: int, *, page_id: str = "page", slot: str = OPEN, expires: int | None = None) -> PageRow:
    texts = {name: f"{name} {page_id} {number}".encode() for name in ("sealed", "head", "terms")}
    return page(page_id=page_id, version=number, updated_ms=at_ms, slot=slot, expires_ms=expires, **texts)


async def write(tx: Transaction, *rows: PageRow) -> None:
    first, *others = rows
    await tx.pages.add(first, 1, first.page_id.encode())
    for row in others:
        await tx.pages.replace(row)


async def at(tx: Transaction, at_ms: int, slots: frozenset[str] = BOTH, now_ms: int = LATER) -> list[PageRow]:
    """The versions of a time; the three ways to ask have to agree."""
    terms = await tx.history.terms_as_of(HERE, slots, now_ms, at_ms, 100)
    heads = await tx.history.heads_as_of(HERE, slots, now_ms, at_ms, 100)
    ids = [row.page_id for row in heads]
    rows = list(await tx.history.pages_as_of(HERE, [*ids, "stranger"], slots, now_ms, at_ms))
    assert [(row.page_id, row.version, row.head) for row in heads] == [(r.page_id, r.version, r.head) for r in rows]
    assert [(row.page_id, row.version, row.terms) for row in terms] == [(r.page_id, r.version, r.terms) for r in rows]
    return rows


async def complete(tx: Transaction, at_ms: int, slots: frozenset[str] = BOTH, now_ms: int = LATER) -> bool:
    return await tx.history.is_complete(HERE, slots, now_ms, at_ms)


async def test_each_change_keeps_the_version_that_it_replaces_as_it_was(store: Store) -> None:
    rows = [version(1, NOW), version(2, NOW + 10, slot=SENSITIVE, expires=LATER + 1), version(3, NOW + 20)]
    async with store.write() as tx:
        await write(tx, *rows)
        with pytest.raises(ConflictError):
            await tx.pages.replace(version(3, NOW + 30))

    async with store.read() as tx:
        listed = await tx.history.versions(HERE, "page", BOTH, LATER, 10)
        assert [(row.head.version, row.head.head, row.until_ms) for row in listed] == [
            (2, rows[1].head, NOW + 20),
            (1, rows[0].head, NOW + 10),
        ]
        assert len(await tx.history.versions(HERE, "page", BOTH, LATER, 1)) == 1
        assert [await tx.history.version(HERE, "page", n, BOTH, LATER) for n in (1, 2, 3)] == [*rows[:2], None]
        assert await tx.history.version(ELSEWHERE, "page", 1, BOTH, LATER) is None
        for at_ms, expected in (
            (-1, []),
            (0, rows[:1]),
            (9, rows[:1]),
            (10, rows[1:2]),
            (20, rows[2:]),
            (99, rows[2:]),
        ):
            assert await at(tx, NOW + at_ms) == expected
            assert await complete(tx, NOW + at_ms)
            first = await tx.history.first_after(HERE, "page", BOTH, LATER, NOW + at_ms)
            assert first == next((row for row in rows if row.updated_ms > NOW + at_ms), None)
        assert await tx.history.terms_as_of(HERE, BOTH, LATER, NOW, 0) == []


async def test_a_version_is_open_only_where_its_own_slot_and_its_pages_are(store: Store) -> None:
    normal, sensitive = frozenset({OPEN}), frozenset({SENSITIVE})
    async with store.write() as tx:
        await write(tx, version(1, NOW, slot=SENSITIVE), version(2, NOW + 10))
        await write(tx, version(1, NOW, page_id="shut"), version(2, NOW + 10, page_id="shut", slot=SENSITIVE))

        for slots in (normal, sensitive, frozenset[str]()):
            assert await at(tx, NOW, slots) == []
            for page_id in ("page", "shut"):
                assert await tx.history.versions(HERE, page_id, slots, LATER, 10) == []
                assert await tx.history.version(HERE, page_id, 1, slots, LATER) is None
        assert [row.page_id for row in await at(tx, NOW)] == ["page", "shut"]
        assert [row.page_id for row in await at(tx, NOW + 10, normal)] == ["page"]
        # What was closed then is told apart from what is not kept by nobody; a page closed now is not there at all.
        assert [await complete(tx, NOW, slots) for slots in (BOTH, normal, sensitive)] == [True, False, False]
        assert await complete(tx, NOW - 1, normal)
        assert (await tx.history.first_after(HERE, "page", normal, LATER, NOW)) == version(2, NOW + 10)
        assert (await tx.history.first_after(HERE, "shut", normal, LATER, NOW)) is None


async def test_a_page_was_not_there_while_it_was_deleted(store: Store) -> None:
    async with store.write() as tx:
        await write(tx, version(1, NOW), version(2, NOW + 10))
        await tx.pages.delete(HERE, "page", 2, deleted_ms=NOW + 20, purge_ms=LATER)
        assert await at(tx, NOW) == []
        assert [await complete(tx, NOW + at_ms) for at_ms in (-1, 0, 19, 20)] == [True, False, False, True]

        await tx.pages.recover(HERE, "page", 1, b"page", recovered_ms=NOW + 30)
        await tx.pages.replace(version(3, NOW + 40))

        seen = {at_ms: [row.version for row in await at(tx, NOW + at_ms)] for at_ms in (0, 10, 19, 20, 29, 30, 39, 40)}
        assert seen == {0: [1], 10: [2], 19: [2], 20: [], 29: [], 30: [2], 39: [2], 40: [3]}
        assert all([await complete(tx, NOW + at_ms) for at_ms in (-1, 0, 19, 20, 29, 30, 40)])
        assert await tx.history.first_after(HERE, "page", BOTH, LATER, NOW + 25) is None


async def test_what_is_trimmed_is_known_to_be_lacking(store: Store) -> None:
    times = [NOW + 10 * n for n in range(6)]
    rows = [version(n, at_ms) for n, at_ms in enumerate(times, start=1)]
    async with store.write() as tx:
        await write(tx, *rows)
        await write(tx, version(1, NOW, page_id="other"), version(2, NOW + 1, page_id="other"))

        assert await tx.history.trim(ELSEWHERE, "page", keep=0, since_ms=LATER) == 0
        assert await tx.history.trim(HERE, "page", keep=5, since_ms=NOW) == 0
        assert await tx.history.trim(HERE, "page", keep=3, since_ms=NOW) == 2
        assert [row.head.version for row in await tx.history.versions(HERE, "page", BOTH, LATER, 10)] == [5, 4, 3]
        assert await tx.history.trim(HERE, "page", keep=3, since_ms=times[3]) == 1
        assert [row.head.version for row in await tx.history.versions(HERE, "page", BOTH, LATER, 10)] == [5, 4]
        # That the page is younger than that cannot be told any more, so it is not claimed.
        known = {at_ms: await complete(tx, at_ms) for at_ms in (NOW - 1, NOW, times[2], times[3], times[5])}
        assert known == {NOW - 1: False, NOW: False, times[2]: False, times[3]: True, times[5]: True}
        assert await tx.history.first_after(HERE, "page", BOTH, LATER, NOW) == rows[3]

        assert await tx.history.sweep(HERE, LATER, keep=1, since_ms=NOW) == 1
        assert await tx.history.sweep(HERE, LATER, keep=1, since_ms=times[4]) == 1
        assert await tx.history.sweep(HERE, LATER, keep=0, since_ms=0) == 1
        assert await tx.history.sweep(HERE, LATER, keep=0, since_ms=0) == 0


@pytest.mark.requirement("ERA-07", "ERA-08")
async def test_what_expires_takes_its_versions_along(store: Store) -> None:
    async with store.write() as tx:
        await write(tx, version(1, NOW), version(2, NOW + 10, expires=NOW + 50), version(3, NOW + 20))
        await write(tx, version(1, NOW, page_id="brief"), version(2, NOW + 10, page_id="brief", expires=NOW + 60))

        for now_ms in (NOW + 60, LATER):
            # A version past its own end and a page past its end are in no answer, swept or not.
            assert [row.version for row in await at(tx, NOW + 10, now_ms=now_ms)] == []
            assert [row.head.version for row in await tx.history.versions(HERE, "page", BOTH, now_ms, 9)] == [1]
            assert await tx.history.versions(HERE, "brief", BOTH, now_ms, 9) == []
            assert await tx.history.version(HERE, "brief", 1, BOTH, now_ms) is None
            assert [await complete(tx, NOW + at_ms, now_ms=now_ms) for at_ms in (-1, 0, 59)] == [False, False, False]
            assert await complete(tx, NOW + 60, now_ms=now_ms)
            assert await tx.pages.delete_expired(HERE, now_ms) == (1 if now_ms == NOW + 60 else 0)
            assert await tx.history.sweep(HERE, now_ms, keep=9, since_ms=NOW) == (1 if now_ms == NOW + 60 else 0)
        # Were the id to come back, nothing of the old page would come with it.
        await write(tx, version(3, LATER, page_id="brief"))
        assert await tx.history.versions(HERE, "brief", BOTH, LATER, 9) == []


@pytest.mark.requirement("ERA-07")
async def test_a_purge_takes_the_versions_along_and_leaves_a_mark_on_its_slot_only(store: Store) -> None:
    async with store.write() as tx:
        await write(tx, version(1, NOW), version(2, NOW + 10, slot=SENSITIVE))
        await tx.pages.delete(HERE, "page", 2, deleted_ms=NOW + 20, purge_ms=NOW + 30)
        await write(tx, version(1, NOW + 5, page_id="other"))
        assert await tx.pages.purge_deleted(HERE, NOW + 30) == 1
        await write(tx, version(3, LATER))

        assert await tx.history.versions(HERE, "page", BOTH, LATER, 9) == []
        assert [await complete(tx, NOW + at_ms, frozenset({SENSITIVE})) for at_ms in (-1, 19, 20)] == [
            False,
            False,
            True,
        ]
        assert [await complete(tx, NOW + at_ms, frozenset({OPEN})) for at_ms in (4, 19)] == [False, False]
        assert await tx.history.is_complete(ELSEWHERE, BOTH, LATER, NOW)


async def test_of_many_who_replace_a_version_at_once_one_does_and_one_version_is_kept(store: Store) -> None:

    async with store.write() as tx:
        await write(tx, version(1, NOW))

    async def replace() -> bool:
        try:
            async with store.write() as tx:
                await tx.pages.replace(version(2, NOW + 10))
        except ConflictError:
            return False
        return True

    assert sorted(await asyncio.gather(*(replace() for _ in range(6)))) == [False] * 5 + [True]
    async with store.read() as tx:
        assert [row.head.version for row in await tx.history.versions(HERE, "page", BOTH, LATER, 9)] == [1]

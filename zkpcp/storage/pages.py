"""Where sealed pages, their path tags, the sensitive inbox and deleted pages are kept.

Implements ``ports.Pages``. Slots and expiry are filtered in the query, so a row that the caller may not open does
not leave the database (§5.2.2). A path tag is unique per context and generation whoever holds the page: that is what
makes MEM-02 and MEM-08 hold under concurrent writers. A ConflictError leaves the transaction usable.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from zkpcp.core.leaves import Journal
from zkpcp.core.stored import DeletedRow, HeadRow, InboxRow, PageRow, SlotTally, TermsRow
from zkpcp.errors import ConflictError, NotFoundError
from zkpcp.storage.driver import Driver, one, spread
from zkpcp.storage.history import SqlHistory
from zkpcp.storage.statements import load

_SQL = load("pages")

_PURGED_AT_ONCE: Final = 100

_page = spread(PageRow)
_head = spread(HeadRow)
_terms = spread(TermsRow)
_tally = spread(SlotTally)
_item = spread(InboxRow)
_deleted = spread(DeletedRow)


class SqlPages:
    """Pages, path tags and the inbox in SQL."""

    def __init__(self, driver: Driver, journal: Journal) -> None:
        self._driver = driver
        self._journal = journal
        self._history = SqlHistory(driver, journal)

    async def add(self, row: PageRow, tag_generation: int, tag: bytes) -> None:
        """Insert page and path tag. Raises ConflictError when the tag is taken."""
        await self._claim(row.context_id, tag_generation, tag, row.page_id)
        await self._insert(row)

    async def replace(self, row: PageRow) -> None:
        """Update in place; what was stored goes into the history. Raises ConflictError unless it is the one before."""
        if not await self._history.keep(row.context_id, row.page_id, row.version - 1, until_ms=row.updated_ms):
            raise ConflictError("the page changed meanwhile")
        changed = await self._driver.execute(_SQL["replace"], *_members(row), row.version - 1)
        if not changed:
            raise ConflictError("the page changed meanwhile")
        self._journal.put("pages", row)

    async def claim(self, context_id: str, page_id: str, tag_generation: int, tag: bytes) -> None:
        """Add one more path tag, which it may have. Raises ConflictError when something else has it."""
        claimed = await self._driver.execute(_SQL["claim_tag"], context_id, tag_generation, tag, page_id)
        if not claimed and await self.by_tag(context_id, tag_generation, tag) != page_id:
            raise ConflictError("the path is taken")

    async def by_tag(self, context_id: str, tag_generation: int, tag: bytes) -> str | None:
        """The id of the page or inbox item at a path tag."""
        row = await self._driver.fetch_one(_SQL["by_tag"], context_id, tag_generation, tag)
        return None if row is None else str(row[0])

    async def page(
        self, context_id: str, page_id: str, slots: Collection[str], now_ms: int, *, lock: bool = False
    ) -> PageRow | None:
        """A page that is in one of ``slots`` and not expired."""
        statement = _SQL["page_locked" if lock else "page"]
        return one(_page, await self._driver.fetch_one(statement, context_id, page_id, list(slots), now_ms))

    async def pages(
        self, context_id: str, page_ids: Sequence[str], slots: Collection[str], now_ms: int
    ) -> Sequence[PageRow]:
        """Those of these pages that are in one of ``slots`` and not expired, by page id."""
        rows = await self._driver.fetch_all(_SQL["pages"], context_id, list(page_ids), list(slots), now_ms)
        return [_page(row) for row in rows]

    async def heads(self, context_id: str, slots: Collection[str], now_ms: int) -> Sequence[HeadRow]:
        """Heads of every approved, unexpired page in ``slots``, by page id."""
        return [_head(row) for row in await self._driver.fetch_all(_SQL["heads"], context_id, list(slots), now_ms)]

    async def terms(self, context_id: str, slots: Collection[str], now_ms: int) -> Sequence[TermsRow]:
        """Term vectors of every approved, unexpired page in ``slots``, by page id."""
        return [_terms(row) for row in await self._driver.fetch_all(_SQL["terms"], context_id, list(slots), now_ms)]

    async def has_others(self, context_id: str, slot: str, page_id: str, now_ms: int) -> bool:
        """Whether a slot has an unexpired page besides this one."""
        return await self._driver.fetch_one(_SQL["has_others"], context_id, slot, page_id, now_ms) is not None

    async def tally(self, context_id: str, slots: Collection[str], now_ms: int) -> Sequence[SlotTally]:
        """Those of ``slots`` that have approved, unexpired pages, counted."""
        return [_tally(row) for row in await self._driver.fetch_all(_SQL["tally"], context_id, list(slots), now_ms)]

    async def count(self, context_id: str) -> int:
        """The number of pages and inbox items, expired ones that are not swept yet included."""
        rows = [await self._driver.fetch_one(_SQL[name], context_id) for name in ("count", "count_inbox")]
        return sum(int(row[0]) for row in rows if row is not None)

    async def add_to_inbox(self, row: InboxRow, tag_generation: int, tag: bytes) -> None:
        """Insert item and path tag. Raises ConflictError when the tag is taken."""
        await self._claim(row.context_id, tag_generation, tag, row.page_id)
        added = await self._driver.execute(
            _SQL["add_to_inbox"],
            row.context_id,
            row.page_id,
            row.slot,
            row.generation,
            row.grant_id,
            row.updated_ms,
            row.expires_ms,
            row.sealed,
            row.signature,
        )
        if not added:
            raise ConflictError("the inbox item exists already")

    async def inbox(self, context_id: str, slots: Collection[str], limit: int) -> Sequence[InboxRow]:
        """The oldest items waiting in the inboxes of these slots."""
        return [_item(row) for row in await self._driver.fetch_all(_SQL["inbox"], context_id, list(slots), limit)]

    async def admit(self, row: PageRow) -> bool:
        """Turn the inbox item into this page, its path tag unchanged; False when another request did it first."""
        if not await self._driver.execute(_SQL["leave_inbox"], row.context_id, row.page_id):
            return False
        await self._insert(row)
        return True

    async def discard_inbox(self, context_id: str, page_id: str) -> None:
        """Delete an inbox item and its path tag; a page of the same id keeps its own."""
        if await self._driver.execute(_SQL["leave_inbox"], context_id, page_id):
            await self._driver.execute(_SQL["free_tags"], context_id, [page_id])

    async def delete_expired(self, context_id: str, now_ms: int) -> int:
        """Delete pages and inbox items past their end with paths and histories; the number deleted (ERA-08)."""
        rows = await self._driver.fetch_all(_SQL["delete_expired_pages"], context_id, now_ms)
        pages = [_page(row) for row in rows]
        for page in pages:
            self._journal.took("pages", page)
        await self._history.forget(context_id, [(page.page_id, page.slot, page.expires_ms) for page in pages])
        items = await self._driver.fetch_all(_SQL["delete_expired_inbox"], context_id, now_ms)
        gone = [*rows, *items]
        if gone:
            ids = [*(page.page_id for page in pages), *(str(row[0]) for row in items)]
            await self._driver.execute(_SQL["free_tags"], context_id, ids)
            await self._driver.execute(_SQL["forget_places"], context_id, ids)
        return len(gone)

    async def delete(self, context_id: str, page_id: str, version: int, *, deleted_ms: int, purge_ms: int) -> None:
        """Move a page to the deleted ones and free its path. Raises ConflictError unless this version is stored."""
        row = one(_page, await self._driver.fetch_one(_SQL["take_page"], context_id, page_id, version))
        if row is None:
            raise ConflictError("the page changed meanwhile")
        self._journal.took("pages", row)
        await self._driver.execute(_SQL["set_aside"], *_members(row), deleted_ms, purge_ms)
        await self._driver.execute(_SQL["free_tags"], context_id, [page_id])

    async def deleted(self, context_id: str, slots: Collection[str], now_ms: int, limit: int) -> Sequence[DeletedRow]:
        """Deleted pages in ``slots`` that can still be recovered, the last deleted first."""
        rows = await self._driver.fetch_all(_SQL["deleted"], context_id, list(slots), now_ms, limit)
        return [_deleted((_head(head), deleted_ms, purge_ms)) for *head, deleted_ms, purge_ms in rows]

    async def deleted_page(self, context_id: str, page_id: str, slots: Collection[str], now_ms: int) -> PageRow | None:
        """One of them as it was, locked until this transaction ends."""
        return one(_page, await self._driver.fetch_one(_SQL["deleted_page"], context_id, page_id, list(slots), now_ms))

    async def recover(
        self, context_id: str, page_id: str, tag_generation: int, tag: bytes, *, recovered_ms: int
    ) -> None:
        """Put a deleted page back at this path tag. Raises ConflictError for a taken tag, NotFoundError."""
        await self._claim(context_id, tag_generation, tag, page_id)
        row = await self._driver.fetch_one(_SQL["take_deleted"], context_id, page_id)
        if row is None:
            await self._driver.execute(_SQL["release_tag"], context_id, tag_generation, tag)
            raise NotFoundError("there is no such deleted page")
        *members, deleted_ms = row
        await self._insert(_page(members))
        await self._history.note_absence(context_id, page_id, deleted_ms, recovered_ms)

    async def purge_deleted(self, context_id: str, now_ms: int) -> int:
        """Delete for good, with its history, what was deleted and is past its time; the number (ERA-07)."""
        gone = await self._driver.fetch_all(_SQL["purge_deleted"], context_id, now_ms)
        await self._history.forget(context_id, gone)
        return len(gone)

    async def purge_deleted_beyond(self, context_id: str, most_pages: int, most_bytes: int) -> int:
        """Delete the first deleted, with their histories, until so many pages and sealed bytes are left; the number."""
        size = await self._driver.fetch_one(_SQL["deleted_size"], context_id)
        pages, sealed = (0, 0) if size is None else (int(size[0]), int(size[1]))
        purged = 0
        while pages > most_pages or sealed > most_bytes:
            gone: list[str] = []
            for page_id, page_bytes in await self._driver.fetch_all(_SQL["first_deleted"], context_id, _PURGED_AT_ONCE):
                if pages <= most_pages and sealed <= most_bytes:
                    break
                gone.append(str(page_id))
                pages, sealed = pages - 1, sealed - int(page_bytes)
            rows = await self._driver.fetch_all(_SQL["purge_these"], context_id, gone)
            await self._history.forget(context_id, rows)
            purged += len(rows)
        return purged

    async def _claim(self, context_id: str, generation: int, tag: bytes, page_id: str) -> None:
        if not await self._driver.execute(_SQL["claim_tag"], context_id, generation, tag, page_id):
            raise ConflictError("the path is taken")

    async def _insert(self, row: PageRow) -> None:
        if not await self._driver.execute(_SQL["add"], *_members(row)):
            raise ConflictError("the page exists already")
        self._journal.put("pages", row)


def _members(row: PageRow) -> tuple[str, str, str, int, int, str, int, int | None, bytes, bytes, bytes]:
    return (
        row.context_id,
        row.page_id,
        row.slot,
        row.generation,
        row.version,
        row.review_state,
        row.updated_ms,
        row.expires_ms,
        row.sealed,
        row.head,
        row.terms,
    )

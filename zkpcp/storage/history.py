"""Where the earlier versions of pages are kept, and what is known of a time that has passed.

Implements ``ports.History``. A version is the very row that a page had, moved aside in the transaction that replaced
it. Both the slot of the version and the slot that its page is in now are filtered in the query, and so is the end of
either (§5.2.2). It does NOT prove that no version was taken out: a host that drops rows makes answers poorer, and
``is_complete`` trusts what is there.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from zkpcp.core.leaves import Journal
from zkpcp.core.stored import HeadRow, PageRow, TermsRow, VersionRow
from zkpcp.storage.driver import Driver, Row, Value, one, spread
from zkpcp.storage.statements import load

_SQL = load("history")

_page = spread(PageRow)
_head = spread(HeadRow)
_terms = spread(TermsRow)
_version = spread(VersionRow)


class SqlHistory:
    """Earlier versions in SQL."""

    def __init__(self, driver: Driver, journal: Journal) -> None:
        self._driver = driver
        self._journal = journal

    async def keep(self, context_id: str, page_id: str, version: int, *, until_ms: int) -> bool:
        """Copy the stored version of a page, which is about to be replaced; False unless it is this one."""
        row = one(_page, await self._driver.fetch_one(_SQL["keep"], context_id, page_id, version, until_ms))
        if row is None:
            return False
        self._journal.took("pages", row)
        self._journal.put("page_versions", row, until_ms=until_ms)
        return True

    async def terms_as_of(
        self, context_id: str, slots: Collection[str], now_ms: int, at_ms: int, limit: int
    ) -> Sequence[TermsRow]:
        """Term vectors of the approved versions that were current at ``at_ms``, by page id."""
        rows = await self._driver.fetch_all(_SQL["terms_as_of"], context_id, list(slots), now_ms, at_ms, limit)
        return [_terms(row) for row in rows]

    async def heads_as_of(
        self, context_id: str, slots: Collection[str], now_ms: int, at_ms: int, limit: int
    ) -> Sequence[HeadRow]:
        """Heads of the same versions, in the same order."""
        rows = await self._driver.fetch_all(_SQL["heads_as_of"], context_id, list(slots), now_ms, at_ms, limit)
        return [_head(row) for row in rows]

    async def pages_as_of(
        self, context_id: str, page_ids: Sequence[str], slots: Collection[str], now_ms: int, at_ms: int
    ) -> Sequence[PageRow]:
        """Those of the same versions that belong to these pages."""
        arguments = (context_id, list(slots), now_ms, at_ms, list(page_ids))
        return [_page(row) for row in await self._driver.fetch_all(_SQL["pages_as_of"], *arguments)]

    async def first_after(
        self, context_id: str, page_id: str, slots: Collection[str], now_ms: int, at_ms: int
    ) -> PageRow | None:
        """The earliest version kept of those that came after ``at_ms``; None for a page that was deleted then."""
        arguments = (context_id, list(slots), now_ms, at_ms, page_id)
        return one(_page, await self._driver.fetch_one(_SQL["first_after"], *arguments))

    async def is_complete(self, context_id: str, slots: Collection[str], now_ms: int, at_ms: int) -> bool:
        """Whether ``terms_as_of`` can lack nothing that was current at ``at_ms`` in pages of these slots."""
        for name in ("gone_since", "unknown_at"):
            if await self._driver.fetch_one(_SQL[name], context_id, list(slots), now_ms, at_ms) is not None:
                return False
        return True

    async def versions(
        self, context_id: str, page_id: str, slots: Collection[str], now_ms: int, limit: int
    ) -> Sequence[VersionRow]:
        """Earlier versions of a page, the newest first."""
        rows = await self._driver.fetch_all(_SQL["versions"], context_id, list(slots), now_ms, page_id, limit)
        return [_version((_head(head), until_ms)) for *head, until_ms in rows]

    async def version(
        self, context_id: str, page_id: str, version: int, slots: Collection[str], now_ms: int
    ) -> PageRow | None:
        """One of them."""
        arguments = (context_id, list(slots), now_ms, page_id, version)
        return one(_page, await self._driver.fetch_one(_SQL["version"], *arguments))

    async def trim(self, context_id: str, page_id: str, *, keep: int, since_ms: int) -> int:
        """Keep of one page the newest ``keep`` that were current after ``since_ms``; the number deleted."""
        return await self._end("trim", context_id, page_id, keep, since_ms)

    async def sweep(self, context_id: str, now_ms: int, *, keep: int, since_ms: int) -> int:
        """The same for all pages; versions past an end of their own go too (ERA-08)."""
        old = await self._end("sweep_old", context_id, since_ms, now_ms)
        return old + await self._end("sweep_many", context_id, keep)

    async def note_absence(self, context_id: str, page_id: str, from_ms: int, until_ms: int) -> None:
        """Remember that a page was deleted and is back."""
        await self._driver.execute(_SQL["note_absence"], context_id, page_id, from_ms, max(from_ms, until_ms))

    async def forget(self, context_id: str, gone: Sequence[Row]) -> None:
        """Delete the histories of pages that are gone for good: id, slot, and until when each was there."""
        if not gone:
            return
        ends: dict[str, int] = {}
        for _, slot, end_ms in gone:
            ends[slot] = max(end_ms, ends.get(slot, end_ms))
        for slot, end_ms in sorted(ends.items()):
            await self._driver.execute(_SQL["mark"], context_id, slot, end_ms)
        page_ids = [str(row[0]) for row in gone]
        await self._end("forget_versions", context_id, page_ids)
        await self._driver.execute(_SQL["forget_absences"], context_id, page_ids)

    async def _end(self, statement: str, *arguments: Value) -> int:
        """Delete versions; their number."""
        rows = await self._driver.fetch_all(_SQL[statement], *arguments)
        for *row, until_ms in rows:
            self._journal.took("page_versions", _page(row), until_ms=int(until_ms))
        return len(rows)

"""What memory said at an earlier time: ``as_of`` of reading and searching, and how much history is kept (MEM-19, §5.2).

A page that is open to the caller now is shown as it was then, if that version is open to the caller too: of the slot
of then and the slot of now, the stricter decides. So a page that was sensitive stays closed in its past, and one that
became sensitive is closed altogether. Deleted and expired pages are in no answer, about whatever time; an answer that
may lack one says that it is not exact. A date means its end, or now if the day is not over.

Decisions where the protocol is silent: an instant ahead is answered from what is there now, not exactly. Reading a page
whose version of then is gone answers the earliest one kept, not exactly; a search leaves such a page out. A page never
changes its path, so its path is that of then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from zkpcp.core.instants import parse_date_or_instant, read_field, to_rfc3339
from zkpcp.core.pages import Page
from zkpcp.core.slots import category_of
from zkpcp.core.stored import HeadRow, PageRow, TermsRow
from zkpcp.errors import NotFoundError, TamperedError
from zkpcp.ports import Transaction
from zkpcp.usecases.access import Acting
from zkpcp.usecases.call import Call, calling
from zkpcp.usecases.inbox import admit_waiting
from zkpcp.usecases.partition_names import partition_names
from zkpcp.usecases.recall import READ, check_one_of, check_read_scope, open_found, page_id_at
from zkpcp.usecases.services import Services
from zkpcp.vault import records

MOST_SCANNED: Final = 50_000
"""How many pages a search of the past looks at: it has no index to go by."""

_NOT_THEN = "there was no such page then, or it is not open to this connection"


@dataclass(frozen=True, slots=True)
class AsOf:
    """A time that a client asks about. Versions are chosen by ``at_ms``, validity by ``instant_ms``."""

    at_ms: int
    instant_ms: int
    lies_ahead: bool

    @property
    def text(self) -> str:
        """The instant as it is reported."""
        return to_rfc3339(self.instant_ms)


@dataclass(frozen=True, slots=True, repr=False)
class Then:
    """The versions of a time, to search in. ``whole``: no bound cut them short; ``exact``: none can be lacking."""

    vectors: Sequence[TermsRow]
    heads: Sequence[HeadRow]
    whole: bool
    exact: bool


@dataclass(frozen=True, slots=True, repr=False)
class PageThen:
    """A page as it was. Not ``exact``: what it said then is not kept or not open, and this is what came next."""

    page: Page
    as_of: str
    exact: bool


def parse_as_of(text: str | None, now_ms: int) -> AsOf | None:
    """The time in the field ``as_of``. Raises InvalidInputError."""
    span = read_field("as_of", text, parse_date_or_instant, "a date or instant")
    if span is None:
        return None
    lies_ahead = span.first_ms > now_ms
    # Chosen by the end of the day even where that lies ahead: a clock that was set back has left later stamps.
    return AsOf(span.last_ms, span.last_ms if lies_ahead else min(span.last_ms, now_ms), lies_ahead)


async def read_page_as_of(
    services: Services, acting: Acting, *, as_of: str, path: str | None = None, page_id: str | None = None
) -> PageThen:
    """The page with this path or id as it was. Raises NotFoundError, InvalidInputError."""
    async with calling(services, acting, READ, "memory") as call:
        check_one_of(path, page_id)
        check_read_scope(acting)
        now_ms = services.clock.now_ms()
        then = parse_as_of(as_of, now_ms)
        if then is None:
            raise TypeError("a time is needed")
        await admit_waiting(call)
        async with services.store.read() as tx:
            wanted = page_id if path is None else await page_id_at(tx, acting, path)
            row, exact = await _version_then(tx, acting, wanted, now_ms, then)
            names = await partition_names(tx, call)
        if row is None:
            raise NotFoundError(_NOT_THEN)
        call.decrypted = True
        page = names.page(open_found(acting, row, path, page_id))
        if page.recorded_at_ms > then.at_ms:
            raise NotFoundError(_NOT_THEN)
        call.object_ids.add(page.id)
        call.categories = {category_of(row.slot)}
        call.looks_into([row.slot])
        async with services.store.write() as tx:
            await call.record(tx)
        return PageThen(page, then.text, exact and not then.lies_ahead)


async def versions_then(tx: Transaction, call: Call, then: AsOf, slots: Collection[str]) -> Then:
    """What there was to search at a time in some of the slots that are open. Raises TamperedError."""
    acting, now_ms = call.acting, call.services.clock.now_ms()
    vectors = await tx.history.terms_as_of(acting.context_id, slots, now_ms, then.at_ms, MOST_SCANNED + 1)
    heads = await tx.history.heads_as_of(acting.context_id, slots, now_ms, then.at_ms, MOST_SCANNED + 1)
    complete = await tx.history.is_complete(acting.context_id, slots, now_ms, then.at_ms)
    _check_time((*vectors, *heads), then)
    return Then(
        vectors=vectors[:MOST_SCANNED],
        heads=heads[:MOST_SCANNED],
        whole=len(vectors) <= MOST_SCANNED,
        exact=complete and not then.lies_ahead,
    )


async def pages_then(tx: Transaction, call: Call, page_ids: Sequence[str], then: AsOf) -> Sequence[PageRow]:
    """Some of the same versions as a whole. Raises TamperedError."""
    acting, now_ms = call.acting, call.services.clock.now_ms()
    rows = await tx.history.pages_as_of(acting.context_id, page_ids, acting.readable_slots(), now_ms, then.at_ms)
    _check_time(rows, then)
    return rows


async def trim_history(tx: Transaction, services: Services, context_id: str, page_id: str) -> None:
    """Delete the versions of a page that are more or older than are kept."""
    keep, since_ms = services.history_kept()
    await tx.history.trim(context_id, page_id, keep=keep, since_ms=since_ms)


async def _version_then(
    tx: Transaction, acting: Acting, page_id: str | None, now_ms: int, then: AsOf
) -> tuple[PageRow | None, bool]:
    if page_id is None:
        return None, True
    slots = acting.readable_slots()
    rows = await tx.history.pages_as_of(acting.context_id, [page_id], slots, now_ms, then.at_ms)
    _check_time(rows, then)
    if rows:
        return rows[0], True
    return await tx.history.first_after(acting.context_id, page_id, slots, now_ms, then.at_ms), False


def _check_time(rows: Iterable[records.Placed], then: AsOf) -> None:
    """The instant of writing is bound to each version: a store that answers with a later one is found out."""
    if any(row.updated_ms > then.at_ms for row in rows):
        raise TamperedError("the store answers about another time than the one asked for")

"""Searching pages by what they say, with the search index of the open slots (MEM-17 to MEM-20).

Only what the caller's own keys open takes part, statistics included, so nothing outside it shows in a result, a score
or a count (MEM-13). Where a slot has no index yet, and for ``as_of``, the term vectors of all pages are scanned; both
count exactly the same. Versions are not kept yet, so ``as_of`` says honestly when it cannot be exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zkpcp.core import ranking
from zkpcp.core import terms as term_format
from zkpcp.core.instants import parse_date_or_instant, read_field, to_rfc3339
from zkpcp.core.pages import Head, Page, head_of
from zkpcp.core.paths import PagePath
from zkpcp.core.ranking import Candidate, Scored
from zkpcp.core.schemas import JsonValue
from zkpcp.core.slots import MAIN_PARTITION, category_of
from zkpcp.core.stored import HeadRow, TermsRow
from zkpcp.core.terms import Query
from zkpcp.errors import ForbiddenError, InvalidInputError, TamperedError, Violation
from zkpcp.ports import Transaction
from zkpcp.usecases.access import Acting
from zkpcp.usecases.call import Call, calling
from zkpcp.usecases.filters import Filters
from zkpcp.usecases.inbox import admit_waiting
from zkpcp.usecases.indexed import open_index
from zkpcp.usecases.services import Services
from zkpcp.vault import records
from zkpcp.vault.cursors import open_cursor, seal_cursor

ACTION = "memory_search"
MAX_RESULTS = 500
"""How deep cursors reach into one ranking."""


@dataclass(frozen=True, slots=True, repr=False)
class Found:
    """One result: the page's head, its score within this answer, the part of its text that matched, and why."""

    head: Head
    score: float
    snippet: str
    why: str


@dataclass(frozen=True, slots=True, repr=False)
class Results:
    """Part of a ranking. ``searched_all`` is False when a bound or a quarantined page cut the search short."""

    found: tuple[Found, ...]
    searched_all: bool
    as_of: str | None
    as_of_exact: bool
    next_cursor: str | None


_WITHOUT_HIT = Head(
    path=PagePath("_"),
    id="",
    title="",
    type=None,
    tags=(),
    lifecycle="active",
    valid_from=None,
    valid_until=None,
    updated_ms=0,
    expires_ms=None,
    sensitivity="normal",
    partition=MAIN_PARTITION,
    supersedes=(),
)
"""Stands for every page without a hit: it counts in the statistics, and its own head stays sealed."""


@dataclass(frozen=True, slots=True, repr=False)
class _Hits:
    query: Query
    scored: list[Scored[Head]]
    exact: bool
    indexed: bool


async def search_pages(
    services: Services,
    acting: Acting,
    *,
    query: str,
    filters: Filters,
    limit: int,
    cursor: str | None = None,
    as_of: str | None = None,
) -> Results:
    """The pages that answer a query best. Raises InvalidInputError for a query without words or a foreign cursor."""
    async with calling(services, acting, ACTION, "memory") as call:
        if "memory:read" not in acting.scopes:
            raise ForbiddenError("searching pages needs another scope", ("memory:read",))
        filters.check()
        words = _words(query)
        moment = read_field("as_of", as_of, parse_date_or_instant, "a date or instant")
        as_of_ms = None if moment is None else moment.last_ms
        bound = filters.as_json() | {"query": query, "as_of": as_of}
        start = _start(open_cursor(acting.keys, ACTION, bound, cursor)) if cursor is not None else 0
        more_waiting = await admit_waiting(call)
        wanted = min(start + limit + 1, MAX_RESULTS)
        async with services.store.read() as tx:
            hits = await _hits(tx, call, words, filters, as_of_ms, wanted)
            found = await _found(tx, call, hits, hits.scored[start : start + limit])
        end = start + limit
        next_cursor = seal_cursor(acting.keys, ACTION, bound, end, services.entropy) if end < len(hits.scored) else None
        async with services.store.write() as tx:
            await call.record(tx)
        return Results(
            found=tuple(found),
            searched_all=not more_waiting,
            as_of=None if as_of_ms is None else to_rfc3339(as_of_ms),
            as_of_exact=hits.exact,
            next_cursor=next_cursor,
        )


async def _hits(
    tx: Transaction, call: Call, query: Query, filters: Filters, as_of_ms: int | None, wanted: int
) -> _Hits:
    """The ranking, as far as ``wanted``. The index knows what is there now; an earlier time takes a scan."""
    opened = await open_index(tx, call.acting, call.services.clock.now_ms()) if as_of_ms is None else None
    if opened is None:
        return await _scanned(tx, call, query, filters, as_of_ms)
    call.decrypted = call.decrypted or opened.pages > 0
    understood, scored = await opened.search(query, filters, wanted)
    return _Hits(understood, scored[:MAX_RESULTS], exact=True, indexed=True)


async def _scanned(tx: Transaction, call: Call, query: Query, filters: Filters, as_of_ms: int | None) -> _Hits:
    acting, services = call.acting, call.services
    now_ms = services.clock.now_ms()
    slots = acting.readable_slots()
    vectors = await tx.pages.terms(acting.context_id, slots, now_ms)
    heads = {row.page_id: row for row in await tx.pages.heads(acting.context_id, slots, now_ms)}
    gone = as_of_ms is not None and await tx.pages.deleted_since(acting.context_id, slots, as_of_ms)
    # What was deleted longer ago than deleted pages are kept has left no trace.
    kept_since_ms = now_ms - services.deleted_retention_s * 1000
    call.decrypted = call.decrypted or bool(vectors)
    exact = True
    if as_of_ms is not None:
        # A page changed since then had another text at that time, which is not kept yet; a deleted one is not searched.
        known = as_of_ms >= kept_since_ms or as_of_ms < acting.context.created_ms
        exact = known and not gone and all(row.updated_ms <= as_of_ms or row.version == 1 for row in vectors)
        vectors = [row for row in vectors if row.updated_ms <= as_of_ms]
    ranked = ranking.rank(
        query,
        _candidates(acting, query, vectors, heads),
        now_ms=now_ms if as_of_ms is None else as_of_ms,
        limit=len(vectors),
    )
    return _Hits(query, [item for item in ranked if filters.admit(item.head)][:MAX_RESULTS], exact, indexed=False)


def _candidates(
    acting: Acting, query: Query, vectors: Sequence[TermsRow], heads: dict[str, HeadRow]
) -> list[Candidate[Head]]:
    """Every page with its counts of the query's terms; what filters leave out later still counts in the statistics."""
    probe = term_format.probe(query.terms)
    candidates = []
    for row in vectors:
        with records.open_terms(acting.keys, row) as blob:
            length, counts = term_format.length_of(blob), term_format.lookup(blob, probe)
        hit = bool(counts) and row.page_id in heads
        head = records.open_head(acting.keys, heads[row.page_id]) if hit else _WITHOUT_HIT
        candidates.append(Candidate(head, length, counts if hit else {}))
    return candidates


async def _found(tx: Transaction, call: Call, hits: _Hits, part: Sequence[Scored[Head]]) -> list[Found]:
    acting = call.acting
    ids = [item.head.id for item in part]
    rows = await tx.pages.pages(acting.context_id, ids, acting.readable_slots(), call.services.clock.now_ms())
    pages: dict[str, Page] = {}
    for row in rows:
        pages[row.page_id] = records.open_page(acting.keys, row)
        call.categories.add(category_of(row.slot))
    # Index and pages change together: one that is away or older in the same snapshot was taken or put back.
    if hits.indexed and any(item.head.id not in pages or head_of(pages[item.head.id]) != item.head for item in part):
        raise TamperedError("the search index and the pages do not agree")
    call.object_ids.update(pages)
    call.counts["results"] = len(pages)
    return [_result(hits.query, item, pages[item.head.id]) for item in part if item.head.id in pages]


def _result(query: Query, item: Scored[Head], page: Page) -> Found:
    in_body = list(term_format.find(page.body, query))
    return Found(
        head=head_of(page),
        score=round(item.score, 4),
        snippet=ranking.snippet(page.body, in_body),
        why=ranking.why(query, in_title=term_format.find(page.title, query), in_body=in_body),
    )


def _words(text: str) -> Query:
    query = term_format.terms_of_query(text)
    if not query.words:
        raise InvalidInputError("the query has no words", [Violation("/query", "must hold at least one word")])
    return query


def _start(place: JsonValue) -> int:
    return place if isinstance(place, int) else 0

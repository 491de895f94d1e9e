"""Searching pages by what they say, with the search index of the open slots (MEM-17 to MEM-20).

Only what the caller's own keys open takes part, statistics included, so nothing outside it shows in a result, a score
or a count (MEM-13). Where a slot has no index yet, and for ``as_of``, term vectors are scanned; both count exactly the
same. An earlier time is searched in the versions of then, as ``usecases.history`` finds them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from zkpcp.core import asking, ranking
from zkpcp.core import terms as term_format
from zkpcp.core.asking import Asked
from zkpcp.core.pages import Head, Page, head_of
from zkpcp.core.paths import PagePath
from zkpcp.core.ranking import SNIPPET_CHARS, Candidate, Scored
from zkpcp.core.schemas import JsonValue
from zkpcp.core.slots import MAIN_PARTITION, category_of
from zkpcp.core.stored import HeadRow, TermsRow
from zkpcp.core.terms import Finder, Hit, Query
from zkpcp.errors import ForbiddenError, InvalidInputError, TamperedError, Violation
from zkpcp.ports import Transaction
from zkpcp.usecases.access import Acting
from zkpcp.usecases.call import Call, calling
from zkpcp.usecases.filters import Filters
from zkpcp.usecases.history import AsOf, Then, pages_then, parse_as_of, versions_then
from zkpcp.usecases.inbox import admit_waiting
from zkpcp.usecases.indexed import open_index
from zkpcp.usecases.partition_names import PartitionNames, partition_names
from zkpcp.usecases.services import Services
from zkpcp.vault import records
from zkpcp.vault.cursors import open_cursor, seal_cursor

ACTION: Final = "memory_search"
MAX_RESULTS: Final = 500
"""How deep cursors reach into one ranking."""
MOST_CHECKED: Final = 200
"""How many pages of a ranking are opened to see whether they hold a phrase."""
MOST_CHECKED_CHARS: Final = 4 << 20
READ_PER_PAGE: Final = 1 << 15
"""How much of a page, in characters, is looked through for the words to show; of the rest the index tells the words."""
READ_PER_CALL: Final = 1 << 18
_READ_AT_A_TIME: Final = 1 << 14
"""How much is read before other requests get their turn."""


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


@dataclass(slots=True, repr=False)
class _Hits:
    query: Query
    scored: list[Scored[Head]]
    exact: bool
    complete: bool
    indexed: bool
    then: AsOf | None = None
    pages: dict[str, _Opened] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, repr=False)
class _Opened:
    """A page with those of a query's terms that it is filed under."""

    page: Page
    head: Head
    terms: frozenset[str]


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
        asked = _asked(query)
        then = parse_as_of(as_of, services.clock.now_ms())
        bound = filters.as_json() | {"query": query, "as_of": as_of}
        start = _start(open_cursor(acting.keys, ACTION, bound, cursor)) if cursor is not None else 0
        more_waiting = await admit_waiting(call)
        wanted = min(start + limit + 1, MAX_RESULTS)
        async with services.store.read() as tx:
            names = await partition_names(tx, call)
            slots = filters.slots(acting.readable_slots(), names)
            call.looks_into(slots)
            hits = await _hits(tx, call, asked, filters, slots, then, wanted)
            if asked.has_phrases:
                await _keep_phrases(tx, call, hits, asked, wanted)
            part = hits.scored[start : start + limit]
            await _open(tx, call, hits, part)
        found = await _found(call, hits, part, names)
        end = start + limit
        next_cursor = seal_cursor(acting.keys, ACTION, bound, end, services.entropy) if end < len(hits.scored) else None
        async with services.store.write() as tx:
            await call.record(tx)
        return Results(
            found=tuple(found),
            searched_all=hits.complete and not more_waiting and not asked.cut,
            as_of=None if then is None else then.text,
            as_of_exact=hits.exact,
            next_cursor=next_cursor,
        )


async def _hits(
    tx: Transaction,
    call: Call,
    asked: Asked,
    filters: Filters,
    slots: frozenset[str],
    then: AsOf | None,
    wanted: int,
) -> _Hits:
    """The ranking, as far as ``wanted``. The index knows what is there now; an earlier time takes a scan."""
    opened = await open_index(tx, call.acting, call.services.clock.now_ms(), slots) if then is None else None
    if opened is None:
        return await _scanned(tx, call, asked, filters, then, slots)
    call.decrypted = call.decrypted or opened.pages > 0
    understood, scored, complete = await opened.search(asked, filters, MAX_RESULTS if asked.has_phrases else wanted)
    return _Hits(understood, scored[:MAX_RESULTS], exact=True, complete=complete, indexed=True)


async def _scanned(
    tx: Transaction, call: Call, asked: Asked, filters: Filters, then: AsOf | None, slots: frozenset[str]
) -> _Hits:
    now_ms = call.services.clock.now_ms()
    at = await (_now(tx, call, slots) if then is None else versions_then(tx, call, then, slots))
    call.decrypted = call.decrypted or bool(at.vectors)
    heads = {row.page_id: row for row in at.heads}
    candidates, admitted, complete = _candidates(call.acting, asked, filters, at.vectors, heads)
    at_ms = now_ms if then is None else then.instant_ms
    score = ranking.scorer(asked.query, ranking.corpus_of(candidates))
    ranked = ranking.in_order(
        Scored(each.head, score(each) * ranking.standing(each.head, at_ms))
        for each in candidates
        if each.head.id in admitted
    )
    scored = [item for item in ranked if filters.admit(item.head)][:MAX_RESULTS]
    return _Hits(asked.query, scored, at.exact, complete and at.whole, indexed=False, then=then)


async def _now(tx: Transaction, call: Call, slots: Collection[str]) -> Then:
    context_id, now_ms = call.acting.context_id, call.services.clock.now_ms()
    vectors = await tx.pages.terms(context_id, slots, now_ms)
    heads = await tx.pages.heads(context_id, slots, now_ms)
    return Then(vectors, heads, whole=True, exact=True)


def _candidates(
    acting: Acting, asked: Asked, filters: Filters, vectors: Sequence[TermsRow], heads: dict[str, HeadRow]
) -> tuple[list[Candidate[Head]], set[str], bool]:
    """Every page with its counts of the query's terms, the ids of those that may be shown, and whether all is indexed.

    What filters leave out counts in the statistics all the same.
    """
    words, required = set(asked.query.terms), {*filters.terms(), *asked.required}
    probe = term_format.probe({*words, *required, *asked.barred, term_format.CUT_TERM})
    candidates = []
    admitted: set[str] = set()
    complete = True
    for row in vectors:
        with records.open_terms(acting.keys, row) as blob:
            length, found = term_format.length_of(blob), term_format.lookup(blob, probe)
        complete = complete and term_format.CUT_TERM not in found
        counts = {term: count for term, count in found.items() if term in words}
        fits = required <= found.keys() and found.keys().isdisjoint(asked.barred)
        shown = bool(counts) and fits and row.page_id in heads
        head = records.open_head(acting.keys, heads[row.page_id]) if shown else _WITHOUT_HIT
        if shown:
            admitted.add(head.id)
        candidates.append(Candidate(head, length, counts))
    return candidates, admitted, complete


async def _keep_phrases(tx: Transaction, call: Call, hits: _Hits, asked: Asked, wanted: int) -> None:
    """Leave the pages that hold the phrases asked for, as far as ``wanted``; within bounds, and it says so."""
    kept: list[Scored[Head]] = []
    room = MOST_CHECKED_CHARS
    for number, item in enumerate(hits.scored):
        if len(kept) >= wanted:
            break
        if number == MOST_CHECKED or room <= 0:
            hits.complete = False
            break
        await _open(tx, call, hits, [item])
        opened = hits.pages.get(item.head.id)
        if opened is None:
            continue
        page = opened.page
        room -= len(page.body)
        if asked.admits(map(term_format.plain, (page.title, page.body, " ".join(page.tags)))):
            kept.append(item)
        else:
            del hits.pages[item.head.id]
        await asyncio.sleep(0)
    hits.scored = kept


async def _open(tx: Transaction, call: Call, hits: _Hits, part: Sequence[Scored[Head]]) -> None:
    """Open these pages, unless they are open. Raises TamperedError where index and pages do not agree."""
    acting = call.acting
    heads = {item.head.id: item.head for item in part if item.head.id not in hits.pages}
    if not heads:
        return
    if hits.then is None:
        now_ms = call.services.clock.now_ms()
        rows = await tx.pages.pages(acting.context_id, [*heads], acting.readable_slots(), now_ms)
    else:
        rows = await pages_then(tx, call, [*heads], hits.then)
    probe = term_format.probe(hits.query.terms)
    for row in rows:
        page = records.open_page(acting.keys, row)
        head = head_of(page)
        with records.open_terms(acting.keys, row) as blob:
            terms = frozenset(term_format.lookup(blob, probe))
        # Opened to find out whether it is what was sealed there: a search must notice what a host did to a result.
        # Index and pages change together: one that is away or older in the same snapshot was taken or put back.
        if not records.has_head(acting.keys, row, head) or (hits.indexed and heads.get(row.page_id) != head):
            raise TamperedError("the search index and the pages do not agree")
        hits.pages[row.page_id] = _Opened(page, head, terms)
    if hits.indexed and not heads.keys() <= hits.pages.keys():
        raise TamperedError("the search index and the pages do not agree")


async def _found(call: Call, hits: _Hits, part: Sequence[Scored[Head]], names: PartitionNames) -> list[Found]:
    finder = Finder(hits.query)
    found: list[Found] = []
    read = 0
    for item in part:
        opened = hits.pages.get(item.head.id)
        if opened is None:
            continue
        result = _result(finder, hits.query, item, opened)
        found.append(replace(result, head=names.head(result.head)))
        call.object_ids.add(item.head.id)
        call.categories.add(category_of(records.slot_of(opened.page)))
        if finder.looked - read > _READ_AT_A_TIME:
            read = finder.looked
            await asyncio.sleep(0)
    call.counts["results"] = len(found)
    return found


def _result(finder: Finder, query: Query, item: Scored[Head], opened: _Opened) -> Found:
    page = opened.page
    held = [number for number, word in enumerate(query.words) if not opened.terms.isdisjoint((word.exact, *word.stems))]
    room = min(READ_PER_PAGE, max(SNIPPET_CHARS, READ_PER_CALL - finder.looked))
    parts = ranking.to_read(page.body, [query.words[number].text for number in held], room)
    in_title = list(finder.find(page.title[:room]))
    in_body = [hit for start, end in parts for hit in finder.find(page.body, start, end)]
    snippet = ranking.snippet(page.body, in_body)
    if sum(end - start for start, end in parts) < len(page.body):
        # Of what was not read, the page's own terms tell which words are there.
        named = {hit.word for hit in (*in_title, *in_body)}
        in_body += [Hit(0, 0, number) for number in held if number not in named]
    why = ranking.why(query, in_title=in_title, in_body=in_body)
    return Found(head=opened.head, score=round(item.score, 4), snippet=snippet, why=why)


def _asked(text: str) -> Asked:
    asked = asking.parse(text)
    if not asked.query.words:
        raise InvalidInputError("the query has no words", [Violation("/query", "must hold at least one word")])
    return asked


def _start(place: JsonValue) -> int:
    return place if isinstance(place, int) else 0

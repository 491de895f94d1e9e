"""What a search or a listing reads of the index, and no more (MEM-17, MEM-18).

Only slots that the caller may read are looked at, so nothing of a closed one counts anywhere. Where a slot has pages
but no index that fits, ``open_index`` says so, and the caller reads the pages themselves.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from zkpcp.core import index, ranking, spelling
from zkpcp.core import pages as page_format
from zkpcp.core.asking import Asked
from zkpcp.core.index import Counts, Reader, Segment
from zkpcp.core.pages import Head
from zkpcp.core.ranking import Corpus, Scored
from zkpcp.core.stored import IndexSlotRow
from zkpcp.core.terms import CUT_TERM, Query, QueryWord
from zkpcp.errors import TamperedError
from zkpcp.ports import Transaction
from zkpcp.usecases.access import Acting
from zkpcp.usecases.filters import Filters
from zkpcp.usecases.indexing import open_parts, open_segments
from zkpcp.vault import index as sealed_index

_LOOK_FURTHER = 4


@dataclass(slots=True, repr=False)
class _Part:
    """One segment with what was opened of it."""

    row: IndexSlotRow
    which: int
    reader: Reader
    opened: dict[str, bytes] = field(default_factory=dict)
    counts: dict[str, Counts] = field(default_factory=dict)
    heads: dict[int, list[bytes]] = field(default_factory=dict)


_Place = tuple[int, int]
_Scores = list[dict[int, float]]
"""For each segment, the pages with a hit."""


class OpenIndex:
    """Every segment of the slots a caller may read, within one transaction."""

    def __init__(self, tx: Transaction, acting: Acting, parts: Sequence[_Part], now_ms: int) -> None:
        self._tx = tx
        self._acting = acting
        self._parts = parts
        self._now_ms = now_ms

    @property
    def pages(self) -> int:
        """How many pages it holds."""
        return sum(part.reader.segment.size(self._now_ms)[0] for part in self._parts)

    async def search(self, asked: Asked, filters: Filters, wanted: int) -> tuple[Query, list[Scored[Head]], bool]:
        """The query as it was understood, at least ``wanted`` pages of its ranking, and whether every word is indexed.

        The ranking is shorter when there are not so many; phrases are not looked at.
        """
        query = asked.query
        required = [*filters.terms(), *asked.required]
        others = [*required, *asked.barred, CUT_TERM]
        await self._count([*query.terms, *others])
        understood = await self._spelled(query)
        if understood is not query:
            await self._count([*understood.terms, *others])
        scores = self._scores(understood, required, asked.barred)
        complete = not any(part.counts[CUT_TERM] for part in self._parts)
        return understood, await self._best(scores, filters, wanted), complete

    async def directory(self, prefix: str) -> list[Head]:
        """The heads of all pages whose path begins with ``prefix``."""
        return [page_format.decode_head(line) for _, line in await self.lines(prefix)]

    async def lines(self, prefix: str) -> list[tuple[bytes, bytes]]:
        """The same, not decoded yet, each behind its path in lower case."""
        found: list[tuple[bytes, bytes]] = []
        start = prefix.lower().encode()
        for part in self._parts:
            segment = part.reader.segment
            await self._open(part, [f"heads/{chunk}" for chunk in segment.heads])
            hidden = segment.hidden(self._now_ms)
            for chunk in sorted(segment.heads):
                lines = index.lines_of_heads(part.opened[f"heads/{chunk}"])
                for number, line in enumerate(lines, chunk * index.PAGES_PER_HEADS):
                    if line and number not in hidden:
                        path = page_format.path_in_head(line).lower()
                        if path.startswith(start):
                            found.append((path, line))
        return found

    async def _count(self, terms: Collection[str]) -> None:
        for part in self._parts:
            await self._open(part, part.reader.opens(terms), part.reader.needs(terms))
            part.counts = part.reader.counts(terms, part.opened, self._now_ms)

    async def _spelled(self, query: Query) -> Query:
        """The query with words that no page has taken for those that may have been meant."""
        words: list[QueryWord] = []
        blocks: list[bytes] | None = None
        for word in query.words:
            known = any(part.counts[term] for part in self._parts for term in (word.exact, *word.stems))
            if known or len(word.text) < spelling.FEWEST_CHARS:
                words.append(word)
                continue
            if blocks is None:
                blocks = await self._vocabulary()
            near = spelling.near(word.text, blocks)
            words.append(_meant(word, near) if near else word)
        return query if words == list(query.words) else replace(query, words=tuple(words))

    async def _vocabulary(self) -> list[bytes]:
        blocks: list[bytes] = []
        for part in self._parts:
            await self._open(part, index.all_words(part.reader.segment))
            blocks += part.reader.vocabulary(part.opened)
        return blocks

    def _scores(self, query: Query, required: Sequence[str], barred: Sequence[str]) -> _Scores:
        sizes = [part.reader.segment.size(self._now_ms) for part in self._parts]
        pages, length = sum(size[0] for size in sizes), sum(size[1] for size in sizes)
        frequencies = {term: sum(len(part.counts[term]) for part in self._parts) for term in query.terms}
        corpus = Corpus(pages, length / pages if pages else 0.0, frequencies)
        scores: _Scores = []
        for part in self._parts:
            found = ranking.scores(query, corpus, part.reader.segment.lengths, part.counts)
            needed = [part.counts[term] for term in required]
            unwanted = set().union(*(part.counts[term] for term in barred))
            if needed or unwanted:
                found = {
                    number: score
                    for number, score in found.items()
                    if number not in unwanted and all(number in counts for counts in needed)
                }
            scores.append(found)
        return scores

    async def _best(self, scores: _Scores, filters: Filters, wanted: int) -> list[Scored[Head]]:
        """Enough of the ranking: only heads that can matter to its first places are opened."""
        asked = self._asked(scores)
        related = await self._superseded([*asked], scores)
        for place, number in asked:
            del scores[place][number]
        # Most pages pass what the index cannot tell, so that only few more than wanted are opened at first.
        look = wanted + _LOOK_FURTHER
        while True:
            first, complete = _first(scores, look)
            places = {place: asked[place] if place in asked else scores[place[0]][place[1]] for place in related}
            places |= first | asked
            heads = await self._heads(places)
            ranked = ranking.in_order(
                Scored(head, places[place] * ranking.standing(head, self._now_ms)) for place, head in heads.items()
            )
            admitted = [item for item in (ranked if complete else ranked[:look]) if filters.admit(item.head)]
            if complete or len(admitted) >= wanted:
                return admitted
            look *= 4

    def _asked(self, scores: _Scores) -> dict[_Place, float]:
        """Those of the hits whose heads have to be asked about their life."""
        numbers = [(place, part.reader.segment.asked()) for place, part in enumerate(self._parts)]
        return {
            (place, number): scores[place][number]
            for place, there in numbers
            for number in there
            if number in scores[place]
        }

    async def _superseded(self, asked: Sequence[_Place], scores: _Scores) -> set[_Place]:
        """Hits that other hits supersede."""
        heads = await self._heads(asked)
        targets = {target.lower().encode() for head in heads.values() for target in head.supersedes}
        if not targets:
            return set()
        lines = await self._lines((place, number) for place, found in enumerate(scores) for number in found)
        return {place for place, line in lines.items() if page_format.path_in_head(line).lower() in targets}

    async def _heads(self, places: Iterable[_Place]) -> dict[_Place, Head]:
        return {place: page_format.decode_head(line) for place, line in (await self._lines(places)).items()}

    async def _lines(self, places: Iterable[_Place]) -> dict[_Place, bytes]:
        by_part: dict[int, set[int]] = {}
        for place, number in places:
            by_part.setdefault(place, set()).add(number)
        found: dict[_Place, bytes] = {}
        for place, numbers in by_part.items():
            part = self._parts[place]
            at = {number: index.heads_part(number) for number in numbers}
            for name in await self._open(part, sorted({name for name, _ in at.values()})):
                part.heads[int(name.partition("/")[2])] = index.lines_of_heads(part.opened[name])
            for number, (_, line) in at.items():
                found[place, number] = part.heads[number // index.PAGES_PER_HEADS][line]
        return found

    async def _open(self, part: _Part, names: Collection[str], read: Collection[str] = ()) -> list[str]:
        """Open what is not open yet, reading ``read`` along with it; the names that were opened now."""
        new = [name for name in names if name not in part.opened]
        if new:
            segment = part.reader.segment
            part.opened |= await open_parts(self._tx, self._acting, part.row, segment, part.which, new, read)
        return new


async def open_index(tx: Transaction, acting: Acting, now_ms: int, among: Collection[str]) -> OpenIndex | None:
    """The index of these slots, which the caller may read; None when one of them has pages that are not indexed."""
    slots = sorted(among)
    tallies = {each.slot: (each.pages, each.marks) for each in await tx.pages.tally(acting.context_id, slots, now_ms)}
    rows = {row.slot: row for row in await tx.index.slots(acting.context_id, slots)}
    parts: list[_Part] = []
    for slot in slots:
        row = rows.get(slot)
        if row is None or not row.segments or row.generation != acting.keys.roster.generation:
            if slot in tallies:
                return None
            continue
        segments = await open_segments(tx, acting, row)
        _check_tally(segments, tallies.get(slot, (0, 0)), now_ms)
        for which, segment in enumerate(segments):
            hash_ = sealed_index.bucket_hash(acting.keys, slot, row.generation, which)
            parts.append(_Part(row, which, Reader(segment, hash_)))
    return OpenIndex(tx, acting, parts, now_ms)


def _meant(word: QueryWord, near: Sequence[str]) -> QueryWord:
    stems = (*word.stems, *(f"s:{other}" for other in near))
    return replace(word, stems=stems, weight=word.weight * spelling.GUESS_WEIGHT)


def _check_tally(segments: Sequence[Segment], tally: tuple[int, int], now_ms: int) -> None:
    """Raise TamperedError unless index and pages agree: both change in one transaction.

    So an index that was put back as a whole, or pages taken from under it, do not go unnoticed.
    """
    counted = [segment.tally(now_ms) for segment in segments]
    if (sum(pages for pages, _ in counted), sum(marks for _, marks in counted)) != tally:
        raise TamperedError("the search index and the pages do not agree")


def _first(scores: _Scores, look: int) -> tuple[dict[_Place, float], bool]:
    """The first ``look`` places with those that score as much as the last of them, and whether that is all."""
    if look < sum(map(len, scores)):
        [*_, least] = heapq.nlargest(look, chain.from_iterable(found.values() for found in scores))
    else:
        least = 0.0
    first = {
        (place, number): score
        for place, found in enumerate(scores)
        for number, score in found.items()
        if score >= least
    }
    return first, len(first) == sum(map(len, scores))

"""Which pages answer a query best, and what of them to show.

Implements the ranking of PCP §5.5: BM25 over exact words and stems, then what a page's life says about it (MEM-11 and
the relations of §5.2.5). Pure: what may be seen at all was filtered before (MEM-17), and the statistics are of the
candidates given, so nothing else can show in a score (MEM-13).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from zkpcp.core import terms
from zkpcp.core.paths import PagePath
from zkpcp.core.terms import Query

# The best lexical setting found; these and ``terms.COMMON_WEIGHT`` were chosen on two sets, LoCoMo sessions and pcp547.
K1: Final = 0.9
B: Final = 0.4
EXACT_WEIGHT: Final = 0.3
STEM_WEIGHT: Final = 1.0

STALE_FACTOR: Final = 0.7
NOT_CURRENT_FACTOR: Final = 0.5
SUPERSEDED_FACTOR: Final = 0.5

SNIPPET_CHARS: Final = 240
_ELLIPSIS: Final = "…"
_WHY_WORDS: Final = 6
_SOUGHT_WORDS: Final = 3


class Head(Protocol):
    """What ranking asks of a page; ``core.pages.Head`` is one."""

    @property
    def path(self) -> PagePath: ...
    @property
    def id(self) -> str: ...
    @property
    def lifecycle(self) -> str: ...
    @property
    def updated_ms(self) -> int: ...
    @property
    def supersedes(self) -> Sequence[str]: ...
    def is_current(self, now_ms: int) -> bool: ...


H = TypeVar("H", bound=Head)


@dataclass(frozen=True, slots=True, repr=False)
class Candidate(Generic[H]):
    """A page that may be shown: its ``length`` in weighted words and the counts of the query's terms it holds."""

    head: H
    length: int
    frequencies: Mapping[str, int]


@dataclass(frozen=True, slots=True, repr=False)
class Scored(Generic[H]):
    """A page with its score, above 0; scores compare within one answer only."""

    head: H
    score: float


@dataclass(frozen=True, slots=True, repr=False)
class Corpus:
    """The statistics BM25 rests on: pages, their mean length, and how many of them hold each of the query's terms."""

    pages: int
    mean_length: float
    document_frequencies: Mapping[str, int]


def rank(query: Query, candidates: Iterable[Candidate[H]], *, now_ms: int, limit: int) -> list[Scored[H]]:
    """The best ``limit`` pages that hold a word of the query; equal scores go to the newer page, then by id.

    ``candidates`` are all pages of the searched slots that the caller may see, also those without a hit.
    """
    everything = list(candidates)
    score = scorer(query, corpus_of(everything))
    scored = [
        Scored(candidate.head, score(candidate) * standing(candidate.head, now_ms))
        for candidate in everything
        if candidate.frequencies
    ]
    return in_order(scored)[:limit]


def in_order(scored: Iterable[Scored[H]]) -> list[Scored[H]]:
    """Pages that score anything, best first, each superseded one behind those that supersede it."""
    return _successors_first([item for item in scored if item.score > 0])


def corpus_of(candidates: Sequence[Candidate[H]]) -> Corpus:
    """Count the candidates."""
    counts: Counter[str] = Counter()
    for candidate in candidates:
        counts.update(candidate.frequencies.keys())
    total = sum(candidate.length for candidate in candidates)
    return Corpus(len(candidates), total / len(candidates) if candidates else 0.0, counts)


def scorer(query: Query, corpus: Corpus) -> Callable[[Candidate[H]], float]:
    """Okapi BM25 with Lucene's idf: per word, ``EXACT_WEIGHT`` for the word and ``STEM_WEIGHT`` for its stem.

    The stems of one word under several languages are taken for one term, as frequent as the most frequent of them.
    """
    slots: dict[str, list[int]] = {}
    weights: list[float] = []
    for forms, weight in _weights(query, corpus):
        for form in forms:
            slots.setdefault(form, []).append(len(weights))
        weights.append(weight)
    base, per_word = _damping(corpus)

    def score(candidate: Candidate[H]) -> float:
        # Over the few terms that the page holds, not over the query's: this runs for every page.
        counts: dict[int, int] = {}
        for term, count in candidate.frequencies.items():
            for slot in slots.get(term, ()):
                if count > counts.get(slot, 0):
                    counts[slot] = count
        damping = base + per_word * candidate.length
        return sum([weights[slot] * counts[slot] / (counts[slot] + damping) for slot in sorted(counts)])

    return score


def scores(
    query: Query, corpus: Corpus, lengths: Sequence[int], counts: Mapping[str, Mapping[int, int]]
) -> dict[int, float]:
    """What ``scorer`` gives, term by term: pages are numbers, with their lengths and their counts of each term."""
    base, per_word = _damping(corpus)
    damping = [base + per_word * length for length in lengths]
    totals = [0.0] * len(damping)
    hit: set[int] = set()
    for forms, weight in _weights(query, corpus):
        found = _highest(counts, forms)
        hit.update(found)
        for number, count in found.items():
            totals[number] += weight * count / (count + damping[number])
    return {number: totals[number] for number in hit}


def standing(head: Head, now_ms: int) -> float:
    """What a page's life leaves of its score: less when stale or outside its validity."""
    factor = STALE_FACTOR if head.lifecycle == "stale" else 1.0
    return factor if head.is_current(now_ms) else factor * NOT_CURRENT_FACTOR


def snippet(body: str, hits: Sequence[terms.Hit], max_chars: int = SNIPPET_CHARS) -> str:
    """The part of a body that holds most of the query's words, on one line; its start when it holds none."""
    if not hits:
        return _cut(body, 0, max_chars)
    best = _richest(hits, max_chars - max_chars // 6)
    # Some words before the first hit, so that it can be read.
    return _cut(body, max(0, hits[best].start - max_chars // 6), max_chars)


def to_read(text: str, words: Iterable[str], room: int) -> list[tuple[int, int]]:
    """Which parts of a text to look at, ``room`` characters at most: its start, and where these words may stand first.

    Only the ``_SOUGHT_WORDS`` longest are sought, in two spellings: each character is passed a few times at most.
    """
    if len(text) <= room:
        return [(0, len(text))]
    starts = {0}
    for word in sorted(words, key=len, reverse=True)[:_SOUGHT_WORDS]:
        starts |= {max(0, at - SNIPPET_CHARS) for at in map(text.find, {word, word.capitalize()}) if at >= 0}
    width = room // len(starts)
    parts: list[tuple[int, int]] = []
    for start in sorted(starts):
        begin = max(start, parts[-1][1]) if parts else start
        if begin < start + width:
            parts.append((begin, min(start + width, len(text))))
    return parts


def why(query: Query, *, in_title: Iterable[terms.Hit], in_body: Iterable[terms.Hit]) -> str:
    """Which of the query's words matched, and where: ``boiler in the title; service in the text``; or nothing."""
    title_words = _names(query, in_title, frozenset())
    places = ((title_words, "the title"), (_names(query, in_body, frozenset(title_words)), "the text"))
    return "; ".join(f"{', '.join(words[:_WHY_WORDS])} in {place}" for words, place in places if words)


def _weights(query: Query, corpus: Corpus) -> Iterator[tuple[tuple[str, ...], float]]:
    """The forms of each word that are taken for one term, and what the term weighs."""
    for word in query.words:
        yield (word.exact,), word.weight * EXACT_WEIGHT * _idf((word.exact,), corpus)
        yield word.stems, word.weight * STEM_WEIGHT * _idf(word.stems, corpus)


def _damping(corpus: Corpus) -> tuple[float, float]:
    return K1 * (1 - B), K1 * B / corpus.mean_length if corpus.mean_length else 0.0


def _highest(counts: Mapping[str, Mapping[int, int]], forms: Sequence[str]) -> Mapping[int, int]:
    present = [counts[form] for form in forms if counts.get(form)]
    if len(present) < 2:  # noqa: PLR2004 - nothing to compare
        return present[0] if present else {}
    highest: dict[int, int] = {}
    for each in present:
        for number, count in each.items():
            if count > highest.get(number, 0):
                highest[number] = count
    return highest


def _idf(forms: Sequence[str], corpus: Corpus) -> float:
    holding = max((corpus.document_frequencies.get(form, 0) for form in forms), default=0)
    return math.log(1 + (corpus.pages - holding + 0.5) / (holding + 0.5))


def _successors_first(scored: list[Scored[H]]) -> list[Scored[H]]:
    """Sort by score, with each superseded page behind the pages that supersede it.

    A successor that matches less well is raised to its predecessor's lowered score rather than the predecessor buried
    under it: whoever asks for the old page should meet the new one first.
    """
    if not any(item.head.supersedes for item in scored):
        return sorted(scored, key=_order)
    by_path = {item.head.path.folded: item for item in scored}
    successors: dict[str, list[str]] = {}
    for item in scored:
        for target in map(str.lower, item.head.supersedes):
            if target in by_path and target != item.head.path.folded:
                successors.setdefault(target, []).append(item.head.path.folded)
    lowered = [
        Scored(item.head, item.score * SUPERSEDED_FACTOR) if path in successors else item
        for path, item in by_path.items()
    ]
    lowered.sort(key=_order)
    return _behind(lowered, successors) if successors else lowered


def _behind(items: list[Scored[H]], successors: Mapping[str, Sequence[str]]) -> list[Scored[H]]:
    by_path = {item.head.path.folded: item for item in items}
    placed: dict[str, Scored[H]] = {}
    for item in items:
        # Depth first without recursion: a chain of successors may be long, and a circle must end.
        stack = [item.head.path.folded]
        opened: set[str] = set()
        while stack:
            path = stack[-1]
            later = () if path in opened else successors.get(path, ())
            opened.add(path)
            waiting = [other for other in later if other not in placed and other not in opened]
            if waiting:
                stack.extend(sorted(waiting, key=lambda other: _order(by_path[other]), reverse=True))
                continue
            stack.pop()
            placed.setdefault(path, Scored(by_path[path].head, max(by_path[path].score, item.score)))
    return list(placed.values())


def _order(item: Scored[H]) -> tuple[float, int, str]:
    return -item.score, -item.head.updated_ms, item.head.id


def _richest(hits: Sequence[terms.Hit], width: int) -> int:
    """The first hit of the first stretch of this width that holds the most different words."""
    best = most = beyond = 0
    inside: Counter[int] = Counter()
    for first, hit in enumerate(hits):
        while beyond < len(hits) and (beyond <= first or hits[beyond].end <= hit.start + width):
            inside[hits[beyond].word] += 1
            beyond += 1
        if len(inside) > most:
            best, most = first, len(inside)
        inside[hit.word] -= 1
        if not inside[hit.word]:
            del inside[hit.word]
    return best


def _cut(body: str, start: int, max_chars: int) -> str:
    if start > 0:
        blank = body.find(" ", start, start + max_chars // 6)
        start = blank + 1 if blank >= 0 else start
    room = max_chars - 2 * len(_ELLIPSIS)
    end = start + room
    if end < len(body):
        blank = body.rfind(" ", start + room * 3 // 4, end)
        end = blank if blank >= 0 else end
    text = " ".join(body[start:end].split())
    return f"{_ELLIPSIS if start > 0 else ''}{text}{_ELLIPSIS if end < len(body) else ''}"


def _names(query: Query, hits: Iterable[terms.Hit], without: frozenset[str]) -> list[str]:
    found = {hit.word for hit in hits}
    names = [word.text for number, word in enumerate(query.words) if number in found]
    return [name for name in names if name not in without]

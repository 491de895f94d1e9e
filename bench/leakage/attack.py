"""Attacks by somebody who sees which rows go with which events, and has similar text.

An event is a page, a write or a query; a tag is a row. Nothing here knows which index it looks at: the control, where a
row is one keyed word, and ours, where it is a bucket of many, differ in the observation alone.

- ``by_cooccurrence``: match tags to words by how often they are seen, and with which others. It starts from the most
  frequent, keeps those it is surest of, measures all others by them, and begins again with more (an iterated attack, in
  the manner of Islam, Kuzu and Kantarcioglu 2012 and of the refined score attack of Damie, Hahn and Peter 2021).
- ``by_injection``: the attacker's own pages spell a code for each word he can think of; a tag that was seen with just
  these pages is that word (after Zhang, Katz and Papamanthou 2016).
- ``linking``: do events that have words in common also have rows in common?
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

TARGETS: Final = 500
"""How many of the most frequent tags are attacked."""
CANDIDATES: Final = 750
"""Among how many words each of them is looked for."""
_ANCHORS: Final = (*(100,) * 6, *(200,) * 8)
_PROFILE_POINTS: Final = 24
_FREQUENCY_WEIGHT: Final = 6.0
"""Above its own worth: at first most anchors are wrong, and how often a word is seen is all there is to go by."""
CODE_WEIGHT: Final = 6
"""In how many of the attacker's pages each of his words stands."""


@dataclass(frozen=True, slots=True)
class Observation:
    """For each tag or word, a set of events as bits of a number: bit i says it was seen in event i."""

    events: int
    seen: Mapping[str, int]

    def most_seen(self, count: int) -> list[str]:
        """Those seen in most events."""
        return sorted(self.seen, key=lambda each: (-self.seen[each].bit_count(), each))[:count]

    def by_event(self) -> list[set[str]]:
        """What was seen in each event."""
        found: list[set[str]] = [set() for _ in range(self.events)]
        for tag, bits in self.seen.items():
            for event in _bits(bits):
                found[event].add(tag)
        return found


def observed(events: Sequence[frozenset[str] | set[str]]) -> Observation:
    """From what was seen in each event."""
    seen: dict[str, int] = {}
    for number, tags in enumerate(events):
        for tag in tags:
            seen[tag] = seen.get(tag, 0) | 1 << number
    return Observation(len(events), seen)


def by_cooccurrence(target: Observation, similar: Observation) -> dict[str, str]:
    """A word for each frequent tag, from an observation of words in similar text."""
    tags, words = target.most_seen(TARGETS), similar.most_seen(CANDIDATES)
    if not tags or not words:
        return {}
    own, known = _Company(target, target.events), _Company(similar, target.events)
    guesses, sureness = _matched(
        {tag: own.profile(tag, tags) for tag in tags}, {word: known.profile(word, words[: len(tags)]) for word in words}
    )
    for size in _ANCHORS:
        before = guesses
        anchors = sorted(guesses, key=lambda tag: -sureness[tag])[:size]
        meant = [guesses[tag] for tag in anchors]
        guesses, sureness = _matched(
            {tag: own.vector(tag, anchors) for tag in tags}, {word: known.vector(word, meant) for word in words}
        )
        if guesses == before and size == _ANCHORS[-1]:
            break
    return guesses


def codes_of(words: Sequence[str], pages: int) -> dict[str, int]:
    """Which of the attacker's pages each word goes into; every word its own ``CODE_WEIGHT`` of them."""
    choices = list(combinations(range(pages), min(CODE_WEIGHT, pages // 2)))
    # Spread over all combinations, so that no page is much longer than another.
    step = max(1, len(choices) // max(1, len(words)))
    return {word: sum(1 << page for page in choices[at * step]) for at, word in enumerate(words[: len(choices)])}


def by_injection(target: Observation, own_events: Sequence[int], codes: Mapping[str, int]) -> dict[str, str]:
    """The word whose code comes nearest to where a tag was seen among the attacker's pages, of equals the first."""
    exact = {code: word for word, code in codes.items()}
    guesses: dict[str, str] = {}
    for tag, bits in target.seen.items():
        pattern = sum(1 << place for place, event in enumerate(own_events) if bits >> event & 1)
        if pattern in exact:
            guesses[tag] = exact[pattern]
        elif pattern:
            guesses[tag] = min(codes, key=lambda word: (codes[word] ^ pattern).bit_count())
    return guesses


def named(guesses: Mapping[str, str], holds: Callable[[str, str], bool], targets: Sequence[str]) -> float:
    """The share of target words that were named: some tag was guessed to be the word, and does hold it."""
    right = {word for tag, word in guesses.items() if holds(tag, word)}
    return len(right & set(targets)) / len(targets)


def pairs_named(
    guesses: Mapping[str, str], target: Observation, words: Sequence[frozenset[str] | set[str]], events: Sequence[int]
) -> float:
    """The share of all pairs of event and word that follow from the guesses, rightly, for these events."""
    right = {
        (event, word)
        for tag, word in guesses.items()
        for event in events
        if target.seen[tag] >> event & 1 and word in words[event]
    }
    return len(right) / sum(len(words[event]) for event in events)


def linking(target: Observation, pairs: Sequence[tuple[int, int]], is_linked: Sequence[bool]) -> float:
    """How well rows in common tell pairs of events that are linked from others: 1 always, 0.5 not at all.

    The chance that a linked pair looks more alike than one that is not (the area under the ROC curve).
    """
    tags = target.by_event()
    alike = [len(tags[one] & tags[two]) / max(1, len(tags[one] | tags[two])) for one, two in pairs]
    return area(alike, is_linked)


def area(scores: Sequence[float], labels: Sequence[bool]) -> float:
    """The area under the ROC curve; equal scores count half."""
    positive = sum(labels)
    negative = len(labels) - positive
    if not positive or not negative:
        return 0.5
    ranks: dict[float, list[int]] = {}
    for rank, score in enumerate(sorted(scores), start=1):
        ranks.setdefault(score, []).append(rank)
    mean_rank = {score: (each[0] + each[-1]) / 2 for score, each in ranks.items()}
    total = sum(mean_rank[score] for score, label in zip(scores, labels, strict=True) if label)
    return (total - positive * (positive + 1) / 2) / (positive * negative)


class _Company:
    """How much more often than by chance two are seen together, in standard deviations, and how often one is at all."""

    def __init__(self, observation: Observation, events: int) -> None:
        self._seen = observation.seen
        self._scale = events / observation.events
        self._events = events
        self._known: dict[tuple[str, str], float] = {}

    def vector(self, each: str, anchors: Sequence[str]) -> list[float]:
        """How often it is seen, and with each anchor."""
        known = self._known
        vector = [_FREQUENCY_WEIGHT * math.sqrt(self._count(self._seen[each]))]
        for anchor in anchors:
            pair = (each, anchor)
            if pair not in known:
                known[pair] = 0.0 if each == anchor else self._excess(self._seen[each], self._seen[anchor])
            vector.append(known[pair])
        return vector

    def profile(self, each: str, others: Sequence[str]) -> list[float]:
        """How often it is seen, and with how many others how much more than by chance: no other has to be known."""
        first, *company = self.vector(each, others)
        company.sort()
        step = max(1, len(company) // _PROFILE_POINTS)
        return [first, *company[::step], *company[-_PROFILE_POINTS:]]

    def _excess(self, one: int, two: int) -> float:
        chance = self._count(one) * self._count(two) / self._events
        return (self._count(one & two) - chance) / math.sqrt(chance + 1)

    def _count(self, bits: int) -> float:
        return bits.bit_count() * self._scale


def _matched(
    tags: Mapping[str, Sequence[float]], words: Mapping[str, Sequence[float]]
) -> tuple[dict[str, str], dict[str, float]]:
    """The best word for each tag, the nearest pairs first, and how much nearer it is than the second best."""
    pairs: list[tuple[float, str, str]] = []
    sureness: dict[str, float] = {}
    for tag, vector in tags.items():
        near = sorted((math.dist(vector, other), word) for word, other in words.items())[:40]
        pairs += [(distance, tag, word) for distance, word in near]
        sureness[tag] = near[1][0] / (near[0][0] + 0.5) if len(near) > 1 else 1.0
    guesses: dict[str, str] = {}
    taken: set[str] = set()
    for _, tag, word in sorted(pairs):
        if tag not in guesses and word not in taken:
            guesses[tag] = word
            taken.add(word)
    return guesses, sureness


def _bits(bits: int) -> list[int]:
    return [at for at, digit in enumerate(bin(bits)[:1:-1]) if digit == "1"]

"""The attacks, each on the control and on ours: the same code, with only the observation changed.

A context of some thousands of notes is written one by one into a real database, twenty of the attacker's pages among
them, and searched. The attacker has the file after each write, which rows each search reads, and as many similar notes.
Guesses are judged in his favor: a bucket that holds a word counts as named by it, among hundreds of others.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Final

from bench.inside import Inside, Seen, founded
from bench.leakage import attack
from bench.leakage.attack import Observation, observed
from bench.leakage.chat import Chat, Note, note
from bench.leakage.observe import Watch, buckets_only, judged, keyed, row_postings, sizes_as_counts

INJECTED: Final = 20
_PAIRS: Final = 20_000
_WORDS_PER_QUERY: Final = 3
_TOO_COMMON: Final = 30
"""So many of the most frequent words are in no query."""
_ALIKE: Final = 0.1
"""This share of all pairs of pages counts as having much in common."""

Done = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Figure:
    """What one attack made of one observation. ``goal`` is what it has to reach on the control, or may on ours."""

    attack: str
    observation: str
    value: float
    goal: str = ""


@dataclass(frozen=True, slots=True)
class Story:
    """What was written, in order, and what the attacker knows of it: his own pages, and similar notes."""

    notes: tuple[Note, ...]
    own: tuple[int, ...]
    codes: dict[str, int]
    similar: Observation

    @property
    def others(self) -> list[int]:
        """The events that are not the attacker's."""
        return sorted(set(range(len(self.notes))) - set(self.own))

    def words(self) -> list[frozenset[str]]:
        """What each event is about."""
        return [each.words for each in self.notes]


def told(pages: int) -> Story:
    """The same story in every run."""
    chat = Chat()
    similar = observed([each.words for each in chat.notes("similar", pages)])
    codes = attack.codes_of(similar.most_seen(len(similar.seen)), INJECTED)
    draw = random.Random(3)  # noqa: S311 - an order, no secret
    notes = list(chat.notes("mine", pages))
    own = sorted(draw.sample(range(pages + INJECTED), INJECTED))
    for page, place in enumerate(own):
        words = [word for word, code in codes.items() if code >> page & 1]
        notes.insert(place, note(f"mail/{page:05d}", words))
    return Story(tuple(notes), tuple(own), codes, similar)


def on_control(story: Story) -> Iterator[Figure]:
    """Row postings, where everything is there to see at rest."""
    rows, words = row_postings(story.notes), story.words()
    yield from _named_by_company(rows, story, lambda row, word: row == keyed(word), "row postings", ">= 50%")
    yield from _injected(rows, story, lambda row, word: row == keyed(word), "row postings", "")
    yield _linked("pages that share words", "row postings", rows, words, "")


async def on_ours(folder: Path, story: Story, queries: int, done: Done) -> list[Figure]:
    """Our database, in a folder with an empty one."""
    watch = Watch(folder / "context.db")
    async with founded(folder) as inside:
        for each in story.notes:
            await inside.write(each.text)
            watch.look()
            done(1)
        changed, resized = buckets_only(watch.changed), buckets_only(watch.resized)
        figures: list[Figure] = []
        async with judged(inside) as holds:
            goal = "<= 5%"
            figures += _named_by_company(changed, story, holds, "rows changed by each write", goal)
            figures += _named_by_company(resized, story, holds, "rows resized by each write", goal)
            figures += _named_at_rest(sizes_as_counts(watch.last), story, holds, "sizes at rest", goal)
            figures += _injected(changed, story, holds, "rows changed by each write", "<= 2%")
            figures += _injected(resized, story, holds, "rows resized by each write", "<= 2%")
            figures.append(
                _linked("pages that share words", "all rows changed", observed(watch.changed), story.words(), "0.5")
            )
            figures.append(_linked_by_growth(watch, story))
            figures += await _searched(inside, story, queries, holds, done)
    return figures


async def same_for_other_words(first: Path, second: Path, pages: int, done: Done) -> list[Figure]:
    """Two memories written side by side: notes as they are, and others as long that share no word with one another."""
    notes = Chat().notes("mine", pages)
    watches = []
    for folder, texts in ((first, notes), (second, _disguised(notes))):
        watch = Watch(folder / "context.db")
        async with founded(folder) as inside:
            for each in texts:
                await inside.write(each.text)
                watch.look()
                done(1)
        watches.append(watch)
    one, two = watches
    question = "other words of the same lengths"
    return [
        Figure(question, "writes that change the same rows", _equal(one.changed, two.changed), "100%"),
        Figure(question, "writes that resize the same rows", _equal(one.resized, two.resized)),
    ]


def _named_by_company(
    target: Observation, story: Story, holds: Callable[[str, str], bool], name: str, goal: str
) -> Iterator[Figure]:
    yield from _named_at_rest(_only(target, story.others), story, holds, name, goal)


def _named_at_rest(
    target: Observation, story: Story, holds: Callable[[str, str], bool], name: str, goal: str
) -> Iterator[Figure]:
    words = observed([story.notes[event].words for event in story.others])
    guesses = attack.by_cooccurrence(target, story.similar)
    share = attack.named(guesses, holds, words.most_seen(attack.TARGETS))
    yield Figure("frequent words named by company", name, share, goal)


def _injected(
    target: Observation, story: Story, holds: Callable[[str, str], bool], name: str, goal: str
) -> Iterator[Figure]:
    guesses = attack.by_injection(target, story.own, story.codes)
    right = {tag: word for tag, word in guesses.items() if holds(tag, word)}
    share = attack.pairs_named(right, target, story.words(), story.others)
    yield Figure("pairs of page and word named by injected pages", name, share, goal)


def _linked(question: str, name: str, target: Observation, words: Sequence[frozenset[str]], goal: str) -> Figure:
    pairs, labels = _pairs(words)
    return Figure(question, name, attack.linking(target, pairs, labels), goal)


def _linked_by_growth(watch: Watch, story: Story) -> Figure:
    pairs, labels = _pairs(story.words())
    nearness = [-abs(watch.grown[one] - watch.grown[two]) for one, two in pairs]
    return Figure("pages that share words", "growth of all rows together", attack.area(nearness, labels))


async def _searched(
    inside: Inside, story: Story, count: int, holds: Callable[[str, str], bool], done: Done
) -> list[Figure]:
    common = frozenset(story.similar.most_seen(_TOO_COMMON))
    asked = list(_queries([story.notes[event].words for event in story.others], common, count, "mine"))
    similar = list(_queries([each.words for each in Chat().notes("similar", count)], common, count, "similar"))
    buckets: list[set[str]] = []
    fetched: list[set[str]] = []
    for query in asked:
        seen = Seen()
        await inside.watched(seen).search(" ".join(sorted(query)))
        buckets.append({part for part in seen.parts if "/postings/" in part})
        fetched.append(set(seen.pages))
        done(1)
    rows = observed(buckets)
    control = observed([{keyed(word) for word in query} for query in asked])
    known, targets = observed(similar), observed(asked).most_seen(attack.TARGETS)
    question = "searches that share a word"
    pairs = _drawn_pairs(len(asked))
    labels = [bool(asked[one] & asked[two]) for one, two in pairs]
    naming = "query words named by company"
    return [
        Figure(question, "a row for each word", attack.linking(control, pairs, labels)),
        Figure(question, "bucket rows read", attack.linking(rows, pairs, labels)),
        Figure(question, "pages fetched", attack.linking(observed(fetched), pairs, labels)),
        Figure(
            naming,
            "a row for each word",
            attack.named(attack.by_cooccurrence(control, known), lambda row, word: row == keyed(word), targets),
        ),
        Figure(naming, "bucket rows read", attack.named(attack.by_cooccurrence(rows, known), holds, targets)),
        Figure("bucket rows of a search", "read", fmean(map(len, buckets))),
        Figure("bucket rows of a search", "of", len(rows.seen)),
    ]


def _queries(
    notes: Sequence[frozenset[str]], common: frozenset[str], count: int, seed: str
) -> Iterator[frozenset[str]]:
    draw = random.Random(f"queries/{seed}")  # noqa: S311 - which words are asked for, no secret
    for _ in range(count):
        words = sorted(draw.choice(notes) - common)
        yield frozenset(draw.sample(words, min(_WORDS_PER_QUERY, len(words))))


def _pairs(words: Sequence[frozenset[str]]) -> tuple[list[tuple[int, int]], list[bool]]:
    """Pairs of pages, and whether they have much in common."""
    pairs = _drawn_pairs(len(words))
    common = [len(words[one] & words[two]) / max(1, len(words[one] | words[two])) for one, two in pairs]
    bound = sorted(common)[-max(1, round(_ALIKE * len(common)))]
    return pairs, [share >= bound for share in common]


def _drawn_pairs(count: int) -> list[tuple[int, int]]:
    draw = random.Random(5)  # noqa: S311 - a sample, no secret
    pairs = ((draw.randrange(count), draw.randrange(count)) for _ in range(_PAIRS))
    return [(one, two) for one, two in pairs if one != two]


def _only(observation: Observation, events: Sequence[int]) -> Observation:
    by_event = observation.by_event()
    return observed([by_event[event] for event in events])


def _disguised(notes: Sequence[Note]) -> list[Note]:
    """Notes whose words are as long, and are in no other note."""
    draw = random.Random(9)  # noqa: S311 - made-up words, no secret
    made = []
    for each in notes:
        others = {word: "".join(draw.choice("bdfgklmnprst") for _ in word) for word in sorted(each.words)}
        made.append(note(each.text.path, [others[word] for word in each.text.body.split()]))
    return made


def _equal(one: Sequence[set[str]], two: Sequence[set[str]]) -> float:
    return fmean(first == second for first, second in zip(one, two, strict=True))

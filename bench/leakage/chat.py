"""A chat-like corpus in two halves: what a person's memory holds, and similar text that an attacker has.

Notes of some dozens of words about one or two topics. How often words occur follows Zipf's law, and each topic has
words of its own, so that words that go together occur together: what a co-occurrence attack lives on. The same seed
gives the same text. It does NOT have grammar, and attackers of real text may fare better or worse.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from bench.inside import Text

VOCABULARY: Final = 3_000
TOPICS: Final = 40
_WORDS_PER_TOPIC: Final = 120
_IN_EVERY_TOPIC: Final = 8
_TOPIC_SHARE: Final = 0.6
_ZIPF_EXPONENT: Final = 1.05
_ONSETS: Final = [
    "b",
    "d",
    "f",
    "g",
    "k",
    "l",
    "m",
    "n",
    "p",
    "r",
    "s",
    "t",
    "v",
    "z",
    "br",
    "dr",
    "kl",
    "pl",
    "st",
    "tr",
]
_VOWELS: Final = ["a", "e", "i", "o", "u"]


@dataclass(frozen=True, slots=True)
class Note:
    """A page, and the words of its body, each as it is indexed."""

    text: Text
    words: frozenset[str]


class Chat:
    """Where notes come from."""

    def __init__(self, seed: int = 7) -> None:
        self._seed = seed
        draw = random.Random(f"{seed}/words")  # noqa: S311 - made-up text, no secret
        self.vocabulary = _made_up(draw)
        self._heights = list(accumulate((rank + 2) ** -_ZIPF_EXPONENT for rank in range(VOCABULARY)))
        self._topic_heights = list(accumulate((rank + 30) ** -0.7 for rank in range(VOCABULARY - _IN_EVERY_TOPIC)))
        self._topics = [self._topic(draw) for _ in range(TOPICS)]

    def notes(self, half: str, count: int) -> list[Note]:
        """So many notes of one half; another half's are of the same kind, and different."""
        return [self._note(half, number) for number in range(count)]

    def _topic(self, draw: random.Random) -> tuple[list[str], list[float]]:
        # All but the most frequent words belong to some topics more than to others, the frequent ones to more topics.
        words = list(
            dict.fromkeys(
                _drawn(draw, self.vocabulary[_IN_EVERY_TOPIC:], self._topic_heights) for _ in range(_WORDS_PER_TOPIC)
            )
        )
        return words, list(accumulate(draw.lognormvariate(0, 0.8) for _ in words))

    def _note(self, half: str, number: int) -> Note:
        draw = random.Random(f"{self._seed}/{half}/{number}")  # noqa: S311 - as above
        topics = draw.sample(self._topics, draw.choice((1, 1, 1, 2)))
        words = [
            _drawn(draw, *draw.choice(topics))
            if draw.random() < _TOPIC_SHARE
            else _drawn(draw, self.vocabulary, self._heights)
            for _ in range(round(draw.lognormvariate(4.2, 0.5)))
        ]
        return note(f"{half}/{number:05d}", words)


def note(path: str, words: Sequence[str]) -> Note:
    """A note that says these words."""
    return Note(Text(path, " ".join(words), title="note"), frozenset(words))


def _drawn(draw: random.Random, words: Sequence[str], heights: Sequence[float]) -> str:
    return words[bisect_left(heights, draw.random() * heights[-1])]


def _made_up(draw: random.Random) -> list[str]:
    words: dict[str, None] = {}
    while len(words) < VOCABULARY:
        words["".join(draw.choice(_ONSETS) + draw.choice(_VOWELS) for _ in range(draw.randint(2, 3)))] = None
    return list(words)

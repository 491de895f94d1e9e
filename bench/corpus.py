"""What the measured contexts hold: pages of about 2 KB, made up from a seed, the same on every machine.

Words follow Zipf's law, as in real text, because term vectors, search and padding all depend on how often words repeat.
The most frequent words of a language are its real ones, so that the language of a page is recognized; all others are
strung together from syllables. It does NOT say anything about how good search results are: nothing here has a meaning.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import Final

BODY_BYTES: Final = 2_000
"""The mean size of a body in UTF-8; bodies lie within a quarter of it."""

_SEED: Final = 20
_VOCABULARY: Final = 8_000
_ZIPF_EXPONENT: Final = 1.05
_TAGS: Final = ("home", "work", "health", "travel", "family", "garden", "music", "food", "money", "ideas")
_TYPES: Final = ("episodic", "semantic", "procedural")
_AREAS: Final = ("projects", "people", "notes", "places", "recipes", "habits")


@dataclass(frozen=True, slots=True)
class _Language:
    frequent: str
    syllables: str


_LANGUAGES: Final = {
    "en": _Language(
        "the of and to in is that for it was on are as with be this by from at have or not but which when we",
        "ba ter ling ver ton der ment sha ker lin ro wick stone brid gar fen mel hol dun pra con tra ly ness cor",
    ),
    "de": _Language(
        "der die und das ist nicht mit von ein eine den auf für sich wird wurde bei aus oder über war sind",
        "ge ver stein berg wal kel lich ung heit schaf ten mer bau fluss gar grün hö tür sal wen der zei tung",
    ),
    "es": _Language(
        "el los las que del por para con una es como más pero su al fue son cuando donde esta y en",
        "ca sa ri to man pue lla ver de ción mar ti nez flo res ga mon te na ra do lu ces pie dra",
    ),
    "ru": _Language(
        # ruff: noqa: RUF001 - Russian is written in Cyrillic
        "и в не на что с как это по но из для она он они так все уже при если когда",
        "го ро ду ма ле сны вер ста пол ка зи мы де ре во рас ска зна ни хо ло под бе рег сне",
    ),
}
# Most of a person's notes are in one language, some in others.
_LANGUAGE_OF_EVERY_TEN: Final = ("en", "en", "en", "en", "en", "en", "de", "de", "es", "ru")


@dataclass(frozen=True, slots=True)
class Page:
    """A page as a client sends it."""

    path: str
    title: str
    type: str
    tags: tuple[str, ...]
    body: str

    def arguments(self) -> dict[str, object]:
        """The arguments of ``memory_write``."""
        frontmatter = {"title": self.title, "type": self.type, "tags": list(self.tags)}
        return {"path": self.path, "body": self.body, "frontmatter": frontmatter}

    @property
    def payload_bytes(self) -> int:
        """What the client wanted kept: path, title, type, tags and body in UTF-8, without any framing."""
        return sum(len(text.encode()) for text in (self.path, self.title, self.type, *self.tags, self.body))


def page(number: int, edition: int = 0) -> Page:
    """The page with this number; another ``edition`` is another text at the same path."""
    language = _LANGUAGE_OF_EVERY_TEN[number % 10]
    place = random.Random(f"{_SEED}/{number}")  # noqa: S311 - made-up text, not a secret
    text = random.Random(f"{_SEED}/{number}/{edition}")  # noqa: S311 - as above
    # Fewer pages deep down than at the top, all told about thirty folders.
    folder = f"{place.choice(_AREAS)}/{place.choice(_TAGS)}" if number % 3 else place.choice(_AREAS)
    return Page(
        path=f"{folder}/{number:05d}",
        title=" ".join(_words(language, text, text.randint(3, 6))),
        type=text.choice(_TYPES),
        tags=tuple(sorted(text.sample(_TAGS, text.randint(1, 3)))),
        body=_body(language, text, round(BODY_BYTES * text.uniform(0.75, 1.25))),
    )


def query(number: int, pages: int) -> str:
    """A query of three words: one of them frequent, two from the title of one of the first ``pages`` pages."""
    draw = random.Random(f"{_SEED}/query/{number}")  # noqa: S311 - as above
    target = draw.randrange(pages)
    language = _LANGUAGE_OF_EVERY_TEN[target % 10]
    named = page(target).title.split()
    frequent = _vocabulary(language)[draw.randint(30, 80)]
    return " ".join([frequent, *draw.sample(named, 2)])


def _body(language: str, draw: random.Random, size: int) -> str:
    parts = [f"# {' '.join(_words(language, draw, 4))}\n"]
    total = len(parts[0].encode())
    while total < size:
        sentence = " ".join(_words(language, draw, draw.randint(6, 16))).capitalize() + "."
        parts.append(f"\n{'- ' if draw.random() < 0.2 else ''}{sentence}\n")
        total += len(parts[-1].encode())
    return "".join(parts)


def _words(language: str, draw: random.Random, count: int) -> list[str]:
    words, heights = _vocabulary(language), _heights()
    return [words[bisect_left(heights, draw.random() * heights[-1])] for _ in range(count)]


@cache
def _heights() -> list[float]:
    return list(accumulate(rank**-_ZIPF_EXPONENT for rank in range(1, _VOCABULARY + 1)))


@cache
def _vocabulary(language: str) -> list[str]:
    facts = _LANGUAGES[language]
    syllables = facts.syllables.split()
    draw = random.Random(f"{_SEED}/{language}")  # noqa: S311 - as above
    words = dict.fromkeys(facts.frequent.split())
    while len(words) < _VOCABULARY:
        words["".join(draw.choice(syllables) for _ in range(draw.randint(2, 4)))] = None
    return list(words)

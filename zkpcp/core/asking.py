"""What a query asks for: words, "phrases", words and phrases to leave out, and tags (PCP §5.5, MEM-17).

Pure. Anything is a query: a quotation mark without a second one, a minus sign before nothing and ``tag:`` without a tag
are taken for what stands around them. ``cut`` says that a query had more than is looked up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from zkpcp.core import terms
from zkpcp.core.terms import Query

MOST_OPERATORS: Final = 16
"""How many phrases, and how many of each other kind, a query may have."""

_PIECE: Final = re.compile(r'(?<!\S)(-(?!-)|)(tag:)?(?:["“„]([^"“”]*)["”]|(\S+))', re.IGNORECASE)


@dataclass(frozen=True, slots=True, repr=False)
class Phrase:
    """Words that must stand side by side, whatever their case and accents, and what stands between them."""

    pattern: re.Pattern[str]

    def is_in(self, text: str) -> bool:
        """Whether a text, made ``terms.plain``, has it."""
        return self.pattern.search(text) is not None


@dataclass(frozen=True, slots=True, repr=False)
class Asked:
    """``required`` and ``barred`` are terms that a page must have, or must not; the same for phrases."""

    query: Query
    required: tuple[str, ...] = ()
    barred: tuple[str, ...] = ()
    phrases: tuple[Phrase, ...] = ()
    barred_phrases: tuple[Phrase, ...] = ()
    cut: bool = False

    @property
    def has_phrases(self) -> bool:
        """Whether the index alone cannot tell which pages are meant."""
        return bool(self.phrases or self.barred_phrases)

    def admits(self, texts: Iterable[str]) -> bool:
        """Whether a page with these texts, made ``terms.plain``, has and lacks the phrases that it must."""
        whole = "\x00".join(texts)
        return all(each.is_in(whole) for each in self.phrases) and not any(
            each.is_in(whole) for each in self.barred_phrases
        )


def parse(text: str, language: str | None = None) -> Asked:
    """Read a query. Never fails; ``query`` has no words when the text has none to look for."""
    wanted: list[str] = []
    tags: list[str] = []
    quoted: list[str] = []
    out: list[str] = []
    out_tags: list[str] = []
    for match in _PIECE.finditer(text):
        minus, tag, phrase, word = match.groups()
        what = word if phrase is None else phrase
        if not terms.has_words(what):
            continue
        if tag:
            (out_tags if minus else tags).append(what.strip())
        elif minus:
            out.append(what)
        else:
            wanted.append(what)
            if phrase is not None:
                quoted.append(what)
    # A tag alone is something to look for: its words are in every page that bears it.
    query = terms.terms_of_query(" ".join(wanted or tags), language)
    phrases, required = _phrases(quoted)
    barred_phrases, barred = _barred(out)
    required += [terms.tag_term(tag) for tag in tags]
    barred += [terms.tag_term(tag) for tag in out_tags]
    lists = (phrases, barred_phrases, tags, out_tags, out)
    return Asked(
        query,
        tuple(dict.fromkeys(required)),
        tuple(dict.fromkeys(barred)),
        tuple(phrases[:MOST_OPERATORS]),
        tuple(barred_phrases[:MOST_OPERATORS]),
        cut=any(len(each) > MOST_OPERATORS for each in lists) or terms.is_long_query(" ".join(wanted)),
    )


def _phrases(quoted: list[str]) -> tuple[list[Phrase], list[str]]:
    """Each phrase, and the exact words that every page which has it is filed under."""
    found: list[Phrase] = []
    required: list[str] = []
    for text in quoted:
        phrase = _phrase(text)
        if phrase is not None:
            found.append(phrase)
            required += terms.certain_terms(text)
    return found, required


def _barred(out: list[str]) -> tuple[list[Phrase], list[str]]:
    phrases: list[Phrase] = []
    barred: list[str] = []
    for text in out:
        alone = terms.lone_term(text)
        phrase = None if alone is not None else _phrase(text)
        if alone is not None:
            barred.append(alone)
        elif phrase is not None:
            phrases.append(phrase)
    return phrases, barred


def _phrase(text: str) -> Phrase | None:
    pattern = terms.side_by_side(text)
    return None if pattern is None else Phrase(pattern)

"""Which words of a vocabulary somebody may have meant by a word that is not in it.

Words that begin with it, and words one slip away: a letter too many, too few, another one, or two that changed places.
The vocabulary is searched where it lies: one slip leaves one half of a word as it was, so only words that begin or end
with one of the halves are looked at. Pure; it does NOT know which of them was meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

FEWEST_CHARS: Final = 4
"""A shorter word is one slip away from too many others."""
MOST_FOUND: Final = 12
GUESS_WEIGHT: Final = 0.5
"""What a word weighs that was guessed, beside one that a page has."""
_MOST_LONGER: Final = 6
_BREAK: Final = b"\n"


def near(word: str, vocabulary: Iterable[bytes]) -> list[str]:
    """At most ``MOST_FOUND`` words, those one slip away first, then by length.

    ``vocabulary`` are blocks of lines, each a word and one byte for its kind, with a line break at either end.
    """
    if len(word) < FEWEST_CHARS:
        return []
    found = {other for block in vocabulary for other in _candidates(word, block) if other != word}
    slips = sorted((other for other in found if is_one_slip(word, other)), key=_by_length)
    longer = [each for each in found if each.startswith(word) and len(each) <= len(word) + _MOST_LONGER]
    return list(dict.fromkeys([*slips, *sorted(longer, key=_by_length)]))[:MOST_FOUND]


def is_one_slip(word: str, other: str) -> bool:
    """Whether one letter was added, left out or mistaken, or two neighbors changed places."""
    shorter, longer = sorted((word, other), key=len)
    if len(longer) - len(shorter) > 1 or word == other:
        return False
    at = next((at for at, (one, two) in enumerate(zip(shorter, longer, strict=False)) if one != two), len(shorter))
    if len(shorter) < len(longer):
        return shorter[at:] == longer[at + 1 :]
    swapped = longer[at : at + 2][::-1]
    return shorter[at + 1 :] == longer[at + 1 :] or (
        shorter[at : at + 2] == swapped and shorter[at + 2 :] == longer[at + 2 :]
    )


def _by_length(word: str) -> tuple[int, str]:
    return len(word), word


def _candidates(word: str, block: bytes) -> Iterator[str]:
    middle = len(word) // 2
    start, end = re.escape(word[:middle].encode()), re.escape(word[middle:].encode())
    crossed = re.escape((word[: middle - 1] + word[middle] + word[middle - 1] + word[middle + 1 :]).encode())
    # One letter more, less or other in the first half, the second half as it is; or the other way round.
    line = rb"\n((?:%b[^\x00-\x1f]*|%b|[^\x00-\x1f]{0,%d}%b))(?=[\x00-\x1f])" % (start, crossed, 4 * (middle + 1), end)
    for match in re.finditer(line, block):
        yield match[1].decode(errors="replace")

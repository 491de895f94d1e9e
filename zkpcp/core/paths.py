"""Which texts are page paths.

Implements PCP §5.1 (MEM-01, MEM-02): 1 to 16 segments joined by ``/``, 512 characters at most. A path is taken as it is
or refused, never rewritten. Whether a path is free is the store's question; ``folded`` is what has to be unique there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from zkpcp.errors import InvalidInputError, Violation

MAX_CHARS: Final = 512
MAX_SEGMENTS: Final = 16

SEGMENT_PATTERN: Final = r"[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9_-])?"
_SEGMENT: Final = re.compile(SEGMENT_PATTERN)
_PATH: Final = re.compile(rf"{SEGMENT_PATTERN}(?:/{SEGMENT_PATTERN}){{0,{MAX_SEGMENTS - 1}}}")
# The segment under construction may still end in a dot.
_PREFIX: Final = re.compile(rf"(?:{SEGMENT_PATTERN}/){{0,{MAX_SEGMENTS}}}(?:[A-Za-z0-9_][A-Za-z0-9._-]{{0,63}})?")

_LENGTH_RULE: Final = f"must have at most {MAX_CHARS} characters"
_COUNT_RULE: Final = f"must have at most {MAX_SEGMENTS} segments"
_SEGMENT_RULE: Final = (
    "each segment must have 1 to 64 of the characters A-Z a-z 0-9 . _ -, "
    "begin with a letter, a digit or _, and not end in a dot"
)


@dataclass(frozen=True, slots=True, order=True, repr=False)
class PagePath:
    """A path that keeps the grammar; made by ``parse_path`` only, and printing nothing of itself."""

    value: str

    @property
    def folded(self) -> str:
        """The path without regard to case: what must be unique in a context (MEM-02)."""
        return self.value.lower()

    @property
    def segments(self) -> tuple[str, ...]:
        """The segments from the outermost to the page's own name."""
        return tuple(self.value.split("/"))

    @property
    def is_style(self) -> bool:
        """Whether the page lies under ``style/`` (MEM-21), in any case: ``Style/`` and ``style/`` are one folder."""
        return self.folded.startswith("style/")

    def has_prefix(self, prefix: str) -> bool:
        """Whether the path begins with a text from ``parse_prefix``, without regard to case as in all path look-ups."""
        return self.folded.startswith(prefix.lower())


def parse_path(text: str, field: str = "path") -> PagePath:
    """Take a text as a page path; raises InvalidInputError whose violation names ``field`` and the rule."""
    if len(text) <= MAX_CHARS and _PATH.fullmatch(text) is not None:
        return PagePath(text)
    raise _refusal(text, field)


def parse_prefix(text: str, field: str = "prefix") -> str:
    """Take a text as the beginning of page paths: whole segments each with its ``/``, then possibly part of a segment.

    ``notes`` fits ``notes/a`` and ``notes-old``; ``notes/`` only what lies in that folder; the empty text fits every
    path. Raises InvalidInputError.
    """
    if len(text) <= MAX_CHARS and _PREFIX.fullmatch(text) is not None:
        return text
    raise _refusal(text, field)


def _refusal(text: str, field: str) -> InvalidInputError:
    if len(text) > MAX_CHARS:
        rule = _LENGTH_RULE
    elif text.count("/") >= MAX_SEGMENTS and all(map(_SEGMENT.fullmatch, text.split("/"))):
        rule = _COUNT_RULE
    else:
        rule = _SEGMENT_RULE
    return InvalidInputError("not a valid path", [Violation(field, rule)])

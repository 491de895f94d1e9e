"""Which SQL a repository runs, and how one text serves two engines.

The text lives in ``queries/*.sql``: sections headed ``-- name: …``, each with a comment that says what it is for.
A section whose statement removes key material or expired content says ``-- erases: …``; SQLite then empties its
write-ahead log after the commit, so that a copy of the files no longer holds it (U6).

Written for PostgreSQL; three mechanical differences are bridged here: ``$n`` becomes ``?n`` for SQLite (which would
bind ``$n`` by order of appearance), ``= any($n)`` becomes a look into a JSON array, and ``for update`` is dropped,
since a writing SQLite transaction has the whole file to itself. Anything else is a pair of sections ending in
``.sqlite`` and ``.postgres``. This is no SQL parser: no string literal in a query may look like a placeholder.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from types import MappingProxyType
from typing import Final

FILES: Final = (
    "audit",
    "contexts",
    "counters",
    "credentials",
    "grants",
    "handoffs",
    "heads",
    "history",
    "index",
    "invites",
    "pages",
    "partitions",
    "profiles",
    "proposals",
    "rotation",
)

_SECTION: Final = re.compile(r"^-- name: (\S+)\n", re.MULTILINE)
_COMMENT: Final = re.compile(r"^--.*\n", re.MULTILINE)
_ERASES: Final = re.compile(r"^-- erases: \S", re.MULTILINE)
_WRITES: Final = re.compile(r"^(insert|update|delete)\b|\bfor update$")
_ANY: Final = re.compile(r"= any\(\$(\d+)\)")
_PLACEHOLDER: Final = re.compile(r"\$(\d+)")


@dataclass(frozen=True, slots=True)
class Statement:
    """One named statement. ``writes`` covers row locks too; ``erases`` says that key material or content goes away."""

    name: str
    sqlite: str
    postgres: str
    writes: bool
    erases: bool


def load(file: str) -> Mapping[str, Statement]:
    """The statements of ``queries/<file>.sql`` by name; a malformed file is a ValueError at import."""
    sections = _sections(file)
    names = {name.removesuffix(".sqlite").removesuffix(".postgres") for name in sections}
    statements: dict[str, Statement] = {}
    for name in sorted(names):
        if (name in sections) == (f"{name}.sqlite" in sections and f"{name}.postgres" in sections):
            raise ValueError(f"{file}.sql: {name} needs one section, or a pair for both engines")
        statements[name] = _statement(
            f"{file}.{name}",
            sqlite=sections.get(name) or sections[f"{name}.sqlite"],
            postgres=sections.get(name) or sections[f"{name}.postgres"],
        )
    return MappingProxyType(statements)


def _sections(file: str) -> dict[str, str]:
    text = files("zkpcp.storage").joinpath("queries", f"{file}.sql").read_text(encoding="utf-8")
    before, *parts = _SECTION.split(text)
    if before.strip():
        raise ValueError(f"{file}.sql: text before the first section")
    sections = dict(zip(parts[::2], parts[1::2], strict=True))
    if len(sections) * 2 != len(parts):
        raise ValueError(f"{file}.sql: a name is used twice")
    return sections


def _statement(name: str, *, sqlite: str, postgres: str) -> Statement:
    text = _COMMENT.sub("", postgres).strip()
    return Statement(
        name=name,
        sqlite=_for_sqlite(_COMMENT.sub("", sqlite).strip()),
        postgres=text,
        writes=_WRITES.search(text) is not None,
        erases=_ERASES.search(postgres) is not None,
    )


def _for_sqlite(text: str) -> str:
    text = text.removesuffix("for update").rstrip()
    text = _ANY.sub(r"in (select value from json_each($\1))", text)
    return _PLACEHOLDER.sub(r"?\1", text)

"""The requirement table of PCP v0.3, which of its ids are not claimed, and how a test run reads against it.

requirements.csv is the table: one row per id. declared.toml holds the ids that are not claimed, each with its reason.
"""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, TypedDict

_HERE: Final = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Requirement:
    """One row of the table."""

    id: str
    level: str
    text: str
    section: str
    profile: str
    check: str


class Outcome(StrEnum):
    """How one test ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class Entry(TypedDict):
    """What the report says about one id; ``status`` is passed, failed, none or declared."""

    status: str
    tests: int
    reason: str


def load_table() -> dict[str, Requirement]:
    """Read every requirement, by id, in the table's order; two rows with one id are an error."""
    with (_HERE / "requirements.csv").open(encoding="utf-8", newline="") as file:
        rows = [
            Requirement(
                id=row["id"],
                level=row["level"],
                text=row["requirement"],
                section=row["section"],
                profile=row["profile"],
                check=row["check"],
            )
            for row in csv.DictReader(file)
        ]
    table = {row.id: row for row in rows}
    if len(table) != len(rows):
        msg = "requirements.csv names an id twice"
        raise ValueError(msg)
    return table


def load_declared() -> dict[str, str]:
    """Read the ids that are not claimed, each with its reason."""
    with (_HERE / "declared.toml").open("rb") as file:
        return {id_: str(reason) for id_, reason in tomllib.load(file).items()}


def faults(args: Iterable[object], known: Iterable[str]) -> list[str]:
    """Say what is wrong with one mark's arguments; nothing is wrong with a list of known ids."""
    ids = list(args)
    if not ids:
        return ["a requirement mark names no id"]
    known = set(known)
    return [f"no such requirement: {id_}" for id_ in ids if id_ not in known]


def report(
    table: Iterable[str], declared: Mapping[str, str], outcomes: Mapping[str, Mapping[str, Outcome]]
) -> dict[str, Entry]:
    """Give every id its entry; ``outcomes`` holds, by id, each of its tests' outcome by test name.

    A skipped test proves nothing: an id is passed when a test of it ran and every one that ran passed.
    """
    return {id_: _entry(declared.get(id_), outcomes.get(id_, {})) for id_ in table}


def _entry(declared: str | None, tests: Mapping[str, Outcome]) -> Entry:
    failed = sorted(name for name, outcome in tests.items() if outcome is Outcome.FAILED)
    ran = [name for name, outcome in tests.items() if outcome is not Outcome.SKIPPED]
    if failed:
        return Entry(status="failed", tests=len(tests), reason="failed: " + ", ".join(failed))
    if ran:
        return Entry(status="passed", tests=len(tests), reason="")
    if tests:
        return Entry(status="none", tests=len(tests), reason="every test of it was skipped")
    if declared is not None:
        return Entry(status="declared", tests=0, reason=declared)
    return Entry(status="none", tests=0, reason="no test yet")

"""What a checker found, as a value, as a file, and as a row of the table that is printed at the end."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Finding:
    """One checker's result. ``problems`` is empty when everything is as it has to be."""

    checker: str
    summary: str
    problems: tuple[str, ...] = ()
    baselined: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return not self.problems


def write_summary(path: Path, findings: Sequence[Finding]) -> None:
    """Keep the findings as JSON."""
    rows = [{**asdict(finding), "passed": finding.passed} for finding in findings]
    path.write_text(json.dumps({"passed": all(f.passed for f in findings), "checkers": rows}, indent=2) + "\n")


def table(findings: Sequence[Finding]) -> str:
    """The findings, a line each, then every problem."""
    width = max(len(finding.checker) for finding in findings)
    lines = [f"{'pass' if f.passed else 'FAIL'}  {f.checker:<{width}}  {f.summary}" for f in findings]
    problems = [f"  {finding.checker}: {problem}" for finding in findings for problem in finding.problems]
    return "\n".join([*lines, *(["", "Problems:", *problems] if problems else [])])

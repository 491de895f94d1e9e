"""The requirement mark: which tests prove which ids, and what a run says about each id.

``@pytest.mark.requirement("MEM-01", "MEM-02")`` ties a test to ids of requirements.csv; an unknown id stops the run
before its first test. ``--requirements-json FILE`` writes every id's status, number of tests and reason.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from tests.conformance.requirements import Outcome, faults, load_declared, load_table, report

_PROPERTY: Final = "requirement"
# A run that was cut short, or found no test, says nothing about the ids.
_COMPLETE: Final = frozenset({pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED})


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--requirements-json``."""
    group = parser.getgroup("requirements")
    group.addoption("--requirements-json", type=Path, metavar="FILE", help="write each requirement's status to FILE")


def pytest_configure(config: pytest.Config) -> None:
    """Listen to a run that is to be written down; an earlier run's file goes first, lest it pass for this one's."""
    path: Path | None = config.getoption("requirements_json")
    if path is not None and not hasattr(config, "workerinput"):
        path.unlink(missing_ok=True)
        config.pluginmanager.register(_Recorder(path), "requirements-recorder")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse marks that name no known id; put the ids where the reports of a test carry them."""
    known = load_table().keys()
    wrong: list[str] = []
    for item in items:
        for mark in item.iter_markers("requirement"):
            wrong += [f"{item.nodeid}: {fault}" for fault in faults(mark.args, known)]
            item.user_properties += [(_PROPERTY, id_) for id_ in mark.args]
    if wrong:
        raise pytest.UsageError(*wrong)


class _Recorder:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._outcomes: dict[str, dict[str, Outcome]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, id_ in report.user_properties:
            if name == _PROPERTY:
                tests = self._outcomes.setdefault(str(id_), {})
                tests[report.nodeid] = _combined(tests.get(report.nodeid), report)

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if exitstatus in _COMPLETE:
            entries = report(load_table(), load_declared(), self._outcomes)
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text(json.dumps(entries, indent=2) + "\n", encoding="utf-8")


def _combined(before: Outcome | None, report: pytest.TestReport) -> Outcome:
    """Fold one phase (set-up, call, tear-down) into a test's outcome; a failure anywhere stays."""
    # An expected failure is reported as skipped, with ``wasxfail``: the requirement does not hold.
    if report.failed or hasattr(report, "wasxfail") or before is Outcome.FAILED:
        return Outcome.FAILED
    if report.skipped or before is Outcome.SKIPPED:
        return Outcome.SKIPPED
    return Outcome.PASSED

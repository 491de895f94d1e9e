"""The table, the declarations and the marks agree, read from the files: so it holds for whichever tests are run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.requirements import Outcome, faults, load_declared, load_table, report

_TESTS = Path(__file__).parent.parent


def _marks_in(tree: ast.AST) -> Iterator[ast.Call]:
    """Each call of ``….mark.requirement(…)``, as a decorator or anywhere else."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Attribute(attr="mark"), attr="requirement")):
                yield node
            case _:
                pass


def _marked_ids() -> dict[str, str]:
    """Every id that a mark names, with one file that names it; an id that is no plain string shows as its source."""
    return {
        str(argument.value) if isinstance(argument, ast.Constant) else ast.unparse(argument): path.name
        for path in sorted(_TESTS.rglob("test_*.py"))
        for mark in _marks_in(ast.parse(path.read_bytes()))
        for argument in mark.args
    }


def test_the_table_has_the_197_requirements() -> None:
    assert len(load_table()) == 197


def test_every_mark_names_a_requirement() -> None:
    unknown = {id_: file for id_, file in _marked_ids().items() if id_ not in load_table()}

    assert unknown == {}


def test_every_declared_id_exists_has_a_reason_and_no_test() -> None:
    declared = load_declared()

    assert declared.keys() <= load_table().keys()
    assert all(reason.strip() for reason in declared.values())
    assert declared.keys() & _marked_ids().keys() == set()


def test_a_mark_without_ids_or_with_an_unknown_one_is_at_fault() -> None:
    assert faults(["MEM-01"], ["MEM-01", "MEM-02"]) == []
    assert faults([], ["MEM-01"]) == ["a requirement mark names no id"]
    assert faults(["MEM-01", "MEM-99", 7], ["MEM-01"]) == ["no such requirement: MEM-99", "no such requirement: 7"]


@pytest.mark.parametrize(
    ("tests", "status", "count"),
    [
        ({}, "none", 0),
        ({"a": Outcome.SKIPPED}, "none", 1),
        ({"a": Outcome.PASSED, "b": Outcome.SKIPPED}, "passed", 2),
        ({"a": Outcome.PASSED, "b": Outcome.FAILED}, "failed", 2),
    ],
)
def test_an_id_is_passed_when_a_test_ran_and_none_failed(tests: dict[str, Outcome], status: str, count: int) -> None:
    entry = report(["MEM-01"], {}, {"MEM-01": tests})["MEM-01"]

    assert (entry["status"], entry["tests"]) == (status, count)


def test_a_declared_id_carries_its_reason() -> None:
    assert report(["KEY-09"], {"KEY-09": "not offered"}, {}) == {
        "KEY-09": {"status": "declared", "tests": 0, "reason": "not offered"}
    }

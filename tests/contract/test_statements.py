"""Every statement carries the context id, says what it is for, and runs on both engines."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zkpcp.errors import CorruptError
from zkpcp.storage import statements
from zkpcp.storage.driver import pack, unpack
from zkpcp.storage.schema import TABLES
from zkpcp.storage.statements import Statement, load

_FOLDER = Path(statements.__file__).parent / "queries"
# The way from a public name to a context id, and the list of those names: they cannot start from an id.
_BY_NAME = {"contexts.by_handle", "contexts.handles"}
_OF_NO_CONTEXT = {"rate_limits"}
_ALL = [statement for file in statements.FILES for statement in load(file).values()]


def _uses(text: str) -> Iterator[tuple[str, str]]:
    """Every table in the statement with the name its columns go by."""
    for table, alias in re.findall(r"\b(?:from|join|into|update)\s+([a-z_]+)(?:\s+([a-z])\b)?", text):
        if table in TABLES:
            yield table, alias


@pytest.mark.requirement("SEC-09")
@pytest.mark.parametrize("statement", _ALL, ids=lambda statement: statement.name)
def test_every_statement_ties_every_table_to_the_context(statement: Statement) -> None:
    for text in (statement.sqlite, statement.postgres):
        uses = list(_uses(text))
        assert uses, "a statement without a table"
        if {table for table, _ in uses} == _OF_NO_CONTEXT:
            continue
        if statement.name in _BY_NAME:
            continue
        if text.startswith("insert"):
            assert re.search(r"\(context_id,", text)
            if "select" not in text:
                assert re.search(r"values \([$?]1\b", text)
                continue
            # What is copied from another table comes with that row's own context.
            uses = [(table, alias) for table, alias in uses if f"into {table}" not in text]
            assert re.search(r"\nselect context_id,", text)
        for _, alias in uses:
            column = f"{alias}.context_id" if alias else "context_id"
            assert re.search(rf"(where|and|on) {re.escape(column)} = ([$?]1\b|t\.context_id)|on .*{column}", text)
        assert re.search(r"where (t\.)?context_id = [$?]1\b", text)


def test_no_query_file_is_left_out() -> None:
    assert sorted(path.stem for path in _FOLDER.glob("*.sql")) == sorted(statements.FILES)


@pytest.mark.parametrize("path", sorted(_FOLDER.glob("*.sql")), ids=lambda path: path.stem)
def test_every_section_says_what_it_is_for_and_names_its_columns(path: Path) -> None:
    for section in re.split(r"^-- name: .*\n", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        comments = [line for line in section.splitlines() if line.startswith("-- ")]
        assert any(not line.startswith("-- erases:") for line in comments)
        assert not re.search(r"select \*|\.\*", section)


def test_what_removes_a_wrap_or_a_keyring_empties_the_log() -> None:
    removing = {
        s.name
        for s in _ALL
        if re.search(r"delete from (keyrings|sessions|tokens)|wrapped = (null|excl|case)", s.postgres)
    }

    assert len(removing) >= 6
    assert removing <= {s.name for s in _ALL if s.erases}


def test_the_mechanical_differences_between_the_engines() -> None:
    locked = load("pages")["page_locked"]

    assert locked.postgres.endswith("for update")
    assert "slot = any($3)" in locked.postgres
    assert "for update" not in locked.sqlite
    assert "slot in (select value from json_each(?3))" in locked.sqlite
    assert "$" not in locked.sqlite
    assert locked.writes
    assert not load("pages")["page"].writes
    assert load("pages")["claim_tag"].writes


@pytest.mark.parametrize(
    "text",
    ["select 1", "-- name: a\n-- x\nselect 1\n-- name: a\n-- x\nselect 2", "-- name: a.sqlite\n-- x\nselect 1"],
    ids=["no section", "a name twice", "half a pair"],
)
def test_a_malformed_query_file_is_refused(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "queries").mkdir()
    (tmp_path / "queries" / "broken.sql").write_text(text, encoding="utf-8")
    monkeypatch.setattr(statements, "files", lambda _: tmp_path)

    with pytest.raises(ValueError, match="broken"):
        load("broken")


def test_sqlite_reaches_every_filtered_row_through_an_index(migrated_file: Path) -> None:
    connection = sqlite3.connect(migrated_file)
    scans = {}
    for statement in _ALL:
        arguments = ["[]" if f"json_each(?{n})" in statement.sqlite else n for n in range(1, 16)]
        count = max((int(n) for n in re.findall(r"\?(\d+)", statement.sqlite)), default=0)
        plan = connection.execute(f"explain query plan {statement.sqlite}", arguments[:count]).fetchall()
        scans[statement.name] = [row[3] for row in plan if row[3].startswith("SCAN") and "VIRTUAL" not in row[3]]
    connection.close()

    del scans["contexts.handles"]  # all of them, by the index on handle
    assert {name: found for name, found in scans.items() if found} == {}


async def test_postgres_accepts_every_statement(migrated_dsn: str) -> None:
    connection = await asyncpg.connect(migrated_dsn)
    for statement in _ALL:
        await connection.prepare(statement.postgres)
    await connection.close()


@given(st.lists(st.text()))
def test_packed_strings_come_back(strings: list[str]) -> None:
    assert unpack(pack(strings)) == tuple(strings)


@given(st.text())
def test_any_text_unpacks_to_strings_or_is_corrupt(text: str) -> None:
    try:
        strings = unpack(text)
    except CorruptError:
        return
    assert all(isinstance(entry, str) for entry in strings)


@pytest.mark.parametrize("text", ["", "null", "{}", "[1]", '["a"', "1"])
def test_a_list_that_is_none_is_corrupt(text: str) -> None:
    with pytest.raises(CorruptError):
        unpack(text)

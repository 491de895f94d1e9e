"""The schema: described to the last column, led by the context, migrated once however many try."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import asyncpg
import pytest
from alembic.script import ScriptDirectory

from zkpcp import storage
from zkpcp.errors import UnavailableError
from zkpcp.storage.revision import HEAD
from zkpcp.storage.schema import TABLES
from zkpcp.storage.upgrade import script_config

_OWN = {"alembic_version"}


def _sqlite_columns(path: Path) -> dict[str, list[tuple[str, int]]]:
    """Table -> its columns, each with its place in the primary key (0: none)."""
    connection = sqlite3.connect(path)
    tables = [row[0] for row in connection.execute("select name from sqlite_master where type = 'table'")]
    columns = {
        table: [(row[1], row[5]) for row in connection.execute(f"pragma table_info({table})")]
        for table in tables
        if table not in _OWN
    }
    connection.close()
    return columns


def test_every_column_of_the_sqlite_schema_is_described(migrated_file: Path) -> None:
    real = {table: {name for name, _ in columns} for table, columns in _sqlite_columns(migrated_file).items()}

    assert real == {table: set(columns) for table, columns in TABLES.items()}


async def test_every_column_of_the_postgres_schema_is_described(migrated_dsn: str) -> None:
    connection = await asyncpg.connect(migrated_dsn)
    rows = await connection.fetch(
        "select table_name, column_name from information_schema.columns where table_schema = 'public'"
    )
    await connection.close()

    real: dict[str, set[str]] = {}
    for table, column in rows:
        real.setdefault(table, set()).add(column)
    assert {table: names for table, names in real.items() if table not in _OWN} == {
        table: set(columns) for table, columns in TABLES.items()
    }


@pytest.mark.requirement("SEC-09")
def test_every_primary_key_starts_with_the_context(migrated_file: Path) -> None:
    first = {
        table: [name for name, place in columns if place == 1]
        for table, columns in _sqlite_columns(migrated_file).items()
    }

    assert first.pop("rate_limits") == ["name"]  # attempts are counted by what they came from
    assert first == {table: ["context_id"] for table in TABLES if table != "rate_limits"}


def test_the_expected_revision_is_the_newest_script() -> None:
    assert ScriptDirectory.from_config(script_config()).get_heads() == [HEAD]


@pytest.fixture(params=["sqlite", "postgres"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite://{tmp_path / 'new' / 'zkpcp.db'}"
    fresh: Callable[[], str] = request.getfixturevalue("fresh_postgres_dsn")
    return fresh()


def test_processes_that_migrate_at_once_do_it_once(empty_url: str) -> None:
    assert storage.pending(empty_url)
    program = "import sys; from zkpcp import storage; storage.migrate(sys.argv[1])"

    processes = [subprocess.Popen([sys.executable, "-c", program, empty_url]) for _ in range(2)]

    assert [process.wait() for process in processes] == [0, 0]
    assert not storage.pending(empty_url)


async def test_a_database_that_is_not_migrated_is_not_opened(empty_url: str) -> None:
    with pytest.raises(UnavailableError, match="migrations"):
        await storage.open_store(empty_url)


def test_a_database_of_a_newer_version_is_left_alone(sqlite_url: str) -> None:
    connection = sqlite3.connect(sqlite_url.removeprefix("sqlite://"))
    connection.execute("update alembic_version set version_num = '9999'")
    connection.commit()
    connection.close()

    assert storage.pending(sqlite_url)
    with pytest.raises(UnavailableError, match="newer"):
        storage.migrate(sqlite_url)


def test_the_server_needs_neither_alembic_nor_the_other_engines_client(sqlite_url: str) -> None:
    program = (
        "import asyncio, sys\n"
        "from zkpcp import storage\n"
        "assert not storage.pending(sys.argv[1])\n"
        "async def main(): await (await storage.open_store(sys.argv[1])).close()\n"
        "asyncio.run(main())\n"
        "print(sorted({'alembic', 'sqlalchemy', 'asyncpg'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program, sqlite_url], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "sqlite://",
        "sqlite:///",
        "sqlite://relative.db",
        "sqlite:///a.db?mode=ro",
        "mysql://h/d",
        "memory:",
        "postgres",
    ],
)
async def test_a_url_of_no_known_engine_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(UnavailableError) as refused:
        await storage.open_store(url)
    if url:
        assert url not in refused.value.message.replace("sqlite:///absolute/path.db", "").replace("postgresql://", "")

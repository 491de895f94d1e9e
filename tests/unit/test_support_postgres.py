"""The tests' own PostgreSQL server does what its users rely on."""

from __future__ import annotations

from collections.abc import Callable

import asyncpg
import pytest

from tests.support.postgres import Postgres, running_postgres


async def test_a_fresh_database_is_empty_and_takes_rows(postgres_dsn: str) -> None:
    connection = await asyncpg.connect(postgres_dsn)
    try:
        await connection.execute("CREATE TABLE t (n integer PRIMARY KEY)")
        await connection.execute("INSERT INTO t VALUES ($1)", 7)

        assert await connection.fetchval("SELECT n FROM t") == 7
    finally:
        await connection.close()


def test_two_databases_share_nothing(postgres: Postgres, fresh_postgres_dsn: Callable[[], str]) -> None:
    first, second = fresh_postgres_dsn(), fresh_postgres_dsn()

    postgres.execute("CREATE TABLE t (n integer)", database=first.rpartition("/")[2])

    assert postgres.execute("SELECT to_regclass('t') IS NULL", database=second.rpartition("/")[2]) == "t"


def test_a_failing_statement_raises(postgres: Postgres) -> None:
    with pytest.raises(RuntimeError, match="syntax error"):
        postgres.execute("SELEKT")


def test_a_durable_server_waits_for_the_disk_and_leaves_nothing_behind() -> None:
    with running_postgres(durable=True) as server:
        assert server.execute("SHOW fsync") == "on"

    assert not server.folder.exists()

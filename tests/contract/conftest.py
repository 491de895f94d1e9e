"""The engines under the contract: ``store`` is each of them in turn, ``database_store`` the two that last."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from tests.support.postgres import Postgres
from zkpcp import storage
from zkpcp.ports import Store
from zkpcp.testing import MemoryStore


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh SQLite database, to copy."""
    path = tmp_path_factory.mktemp("migrated") / "zkpcp.db"
    storage.migrate(f"sqlite://{path}")
    return path


@pytest.fixture(scope="session")
def migrated_dsn(postgres: Postgres) -> str:
    """One PostgreSQL database for the whole suite; each test leaves it empty."""
    dsn = postgres.fresh_database()
    storage.migrate(dsn)
    return dsn


@pytest.fixture
def sqlite_url(migrated_file: Path, tmp_path: Path) -> str:
    """A fresh SQLite database of the test's own."""
    path = tmp_path / "data" / "zkpcp.db"
    path.parent.mkdir()
    shutil.copyfile(migrated_file, path)
    return f"sqlite://{path}"


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest) -> str:
    return _url(request)


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest) -> str:
    return _url(request)


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    async for opened in _opened(store_url):
        yield opened


@pytest.fixture
async def database_store(database_url: str) -> AsyncIterator[Store]:
    async for opened in _opened(database_url):
        yield opened


def _url(request: pytest.FixtureRequest) -> str:
    fixtures = {"sqlite": "sqlite_url", "postgres": "migrated_dsn"}
    return str(request.getfixturevalue(fixtures[request.param])) if request.param in fixtures else "memory:"


async def _opened(url: str) -> AsyncIterator[Store]:
    store: Store = MemoryStore() if url == "memory:" else await storage.open_store(url)
    try:
        yield store
    finally:
        await store.close()
        if url.startswith("postgresql:"):
            await _empty(url)


async def _empty(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute("delete from contexts")  # and, by the foreign keys, every row of theirs
    await connection.execute("delete from rate_limits")
    await connection.close()

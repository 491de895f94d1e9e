"""Servers for the live tests: one on each engine that tests share, and others that a test may kill.

A test that uses a shared server sets up a context of its own there, so that it sees nothing of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.postgres import Postgres
from tests.support.server import RunningServer

ServerMaker = Callable[..., RunningServer]


@pytest.fixture
def make_server(tmp_path: Path) -> Iterator[ServerMaker]:
    """A function that makes a server (not started yet) in a folder of its own; takes what ``RunningServer`` takes."""
    made: list[RunningServer] = []

    def make(database_url: str = "", **options: object) -> RunningServer:
        folder = tmp_path / f"server-{len(made)}"
        folder.mkdir()
        made.append(RunningServer(folder, database_url, **options))  # type: ignore[arg-type]  # as the caller types them
        return made[-1]

    yield make
    for server in made:
        server.kill()


@pytest.fixture(params=["sqlite", "postgres"])
def engine_url(request: pytest.FixtureRequest) -> str:
    """The database of a server: the embedded one, or an empty one on the tests' PostgreSQL."""
    return "" if request.param == "sqlite" else str(request.getfixturevalue("postgres_dsn"))


@pytest.fixture(scope="session")
def sqlite_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """The shared server over SQLite."""
    yield from _shared(tmp_path_factory.mktemp("sqlite-server"), "")


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory, postgres: Postgres) -> Iterator[RunningServer]:
    """The shared server over PostgreSQL."""
    yield from _shared(tmp_path_factory.mktemp("postgres-server"), postgres.fresh_database())


@pytest.fixture(params=["sqlite", "postgres"])
def server(request: pytest.FixtureRequest) -> RunningServer:
    """Each of the shared servers in turn."""
    running: RunningServer = request.getfixturevalue(f"{request.param}_server")
    return running


def _shared(folder: Path, database_url: str) -> Iterator[RunningServer]:
    running = RunningServer(folder, database_url)
    running.start()
    try:
        yield running
        running.stop()
    finally:
        running.kill()

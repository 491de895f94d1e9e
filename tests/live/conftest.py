"""Servers for the live tests: one per test on either engine, stopped whatever happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

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


@pytest.fixture
def server(make_server: ServerMaker, engine_url: str) -> RunningServer:
    """A running server."""
    running = make_server(engine_url)
    running.start()
    return running

"""What the questions share: how much to measure, where, and filled deployments to measure on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.progress import Progress

from bench.live import Deployment, Server, found, serving
from bench.load import Kind, Plan, make_calls

FILL_STEP: Final = 100


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured. ``calls`` a kind and round; searches are slower, so there are fewer."""

    http_pages: int
    cpu_pages: int
    calls: int
    searches: int
    rounds: int
    starts: int


FULL: Final = Size(http_pages=1_000, cpu_pages=2_000, calls=300, searches=60, rounds=5, starts=5)
QUICK: Final = Size(http_pages=100, cpu_pages=150, calls=80, searches=20, rounds=1, starts=1)
SMOKE: Final = Size(http_pages=8, cpu_pages=8, calls=4, searches=2, rounds=1, starts=1)


@dataclass(frozen=True, slots=True)
class Scene:
    """An engine to measure on. ``new_database`` gives the URL of an empty database, empty for SQLite;
    ``database_bytes`` says how much of the disk a database takes, tables and indexes."""

    engine: str
    folder: Path
    size: Size
    progress: Progress
    new_database: Callable[[], str]
    database_bytes: Callable[[str], int]

    def deployment(self, name: str) -> Deployment:
        """A new context with a connected app."""
        folder = self.folder / f"{self.engine}-{name}"
        folder.mkdir()
        return found(folder, self.new_database())

    def fill(self, deployment: Deployment, pages: int) -> None:
        """Write the first pages, through the front door; fast allocators, since this is not measured."""
        with (
            self.task(f"{self.engine}: writing {pages} pages", pages) as done,
            serving(deployment, wipe_on_free=False) as server,
        ):
            for first in range(0, pages, FILL_STEP):
                count = min(FILL_STEP, pages - first)
                make_calls(self.plan(deployment, server, "create", count, pages, first=first, connections=8))
                done(count)

    def stored_bytes(self, deployment: Deployment) -> int:
        """The size of a deployment's database; no server may be running, so that SQLite's log is empty."""
        if deployment.database_url:
            return self.database_bytes(deployment.database_url)
        return sum(file.stat().st_size for file in (deployment.folder / "data").iterdir())

    def plan(
        self,
        deployment: Deployment,
        server: Server,
        kind: Kind,
        calls: int,
        pages: int,
        *,
        first: int = 0,
        connections: int = 1,
    ) -> Plan:
        """Calls to one server."""
        return Plan(
            port=server.port,
            path=deployment.mcp_path,
            kind=kind,
            calls=calls,
            connections=connections,
            pages=pages,
            first=first,
            token=deployment.token,
        )

    @contextmanager
    def task(self, name: str, total: int) -> Iterator[Callable[[int], None]]:
        """A progress bar for the length of a block."""
        task = self.progress.add_task(name, total=total)
        try:
            yield lambda steps: self.progress.advance(task, steps)
        finally:
            self.progress.update(task, visible=False)


def calls_of(size: Size, kind: Kind) -> int:
    """How many calls of a kind a round makes."""
    return size.searches if kind == "search" else size.calls


def quantile(values: list[float], share: float) -> float:
    """The smallest value that at least this share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -int(-share * len(ordered) // 1) - 1))]

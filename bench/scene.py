"""What the questions share: how much to measure, where, and filled deployments to measure on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rich.progress import Progress

from bench.live import Deployment, Server, found, serving
from bench.load import Kind, Plan, make_calls

FILL_STEP: Final = 100


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured.

    ``calls`` are a kind and round; searches are slower, so there are fewer. ``warm_up`` calls go first.
    """

    http_pages: int
    cpu_pages: int
    calls: int
    searches: int
    rounds: int
    starts: int
    warm_up: int


FULL: Final = Size(http_pages=1_000, cpu_pages=2_000, calls=300, searches=60, rounds=5, starts=5, warm_up=10)
QUICK: Final = Size(http_pages=100, cpu_pages=150, calls=60, searches=10, rounds=1, starts=1, warm_up=10)
SMOKE: Final = Size(http_pages=8, cpu_pages=8, calls=4, searches=2, rounds=1, starts=1, warm_up=0)


@dataclass(frozen=True, slots=True)
class Filled:
    """A context with the first ``pages`` pages of the corpus; ``stored_bytes`` is its database when just written."""

    deployment: Deployment
    pages: int
    stored_bytes: int


@dataclass(frozen=True, slots=True)
class Scene:
    """An engine to measure on, and the contexts already filled there.

    ``new_database`` gives the URL of an empty database, empty for SQLite; ``database_bytes`` says how much of the disk
    a database takes, indexes included.
    """

    engine: str
    folder: Path
    size: Size
    progress: Progress
    new_database: Callable[[], str]
    database_bytes: Callable[[str], int]
    _filled: dict[int, Filled] = field(default_factory=dict)

    def filled(self, pages: int) -> Filled:
        """A context with so many pages; questions that ask for the same number share it."""
        if pages not in self._filled:
            folder = self.folder / str(pages)
            folder.mkdir()
            deployment = found(folder, self.new_database())
            self._fill(deployment, pages)
            self._filled[pages] = Filled(deployment, pages, self._stored_bytes(deployment))
        return self._filled[pages]

    def _fill(self, deployment: Deployment, pages: int) -> None:
        """Write the first pages, through the front door; fast allocators, since this is not measured."""
        with (
            self.task(f"{self.engine}: writing {pages} pages", pages) as done,
            serving(deployment, wipe_on_free=False) as server,
        ):
            for first in range(0, pages, FILL_STEP):
                count = min(FILL_STEP, pages - first)
                make_calls(plan_for(deployment, server, "create", count, pages, first=first, connections=8))
                done(count)

    def _stored_bytes(self, deployment: Deployment) -> int:
        """The size of a deployment's database; no server may be running, so that SQLite's log is empty."""
        if deployment.database_url:
            return self.database_bytes(deployment.database_url)
        return sum(file.stat().st_size for file in (deployment.folder / "data").iterdir())

    @contextmanager
    def task(self, name: str, total: int) -> Iterator[Callable[[int], None]]:
        """A progress bar for the length of a block."""
        task = self.progress.add_task(name, total=total)
        try:
            yield lambda steps: self.progress.advance(task, steps)
        finally:
            self.progress.update(task, visible=False)


def plan_for(
    deployment: Deployment,
    server: Server,
    kind: Kind,
    calls: int,
    pages: int,
    *,
    first: int = 0,
    connections: int = 1,
) -> Plan:
    """Calls of a deployment's app to one server."""
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


def calls_of(size: Size, kind: Kind) -> int:
    """How many calls of a kind a round makes."""
    return size.searches if kind == "search" else size.calls


def quantile(values: list[float], share: float) -> float:
    """The smallest value that at least this share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -int(-share * len(ordered) // 1) - 1))]

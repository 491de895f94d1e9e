"""``python -m bench growth``: what a call costs as one context grows; prints a table and writes the figures to a file.

The same context is asked at each size: processor time of this process, and the clock, of the use cases that stand
behind the tools, from token to the commit of the entry in the access log. PostgreSQL's own processes count by the
clock alone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Final

from rich.console import Console
from rich.table import Table

from bench import corpus
from bench.inside import Inside, Text, founded_at
from bench.progress import Bar, bars
from tests.support.postgres import running_postgres
from zkpcp import storage

SIZES: Final = (1_000, 10_000)
_LARGEST: Final = 100_000
_CALLS: Final = 25
_WARM_UP: Final = 3
_PREFIX: Final = "recipes/"
_DEFAULT_OUTPUT: Final = Path(__file__).resolve().parent.parent / "build" / "growth.json"

Call = Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Figure:
    """One call at one size: the median over some calls, in milliseconds, and the worst by the clock."""

    call: str
    pages: int
    cpu_ms: float
    clock_ms: float
    worst_ms: float


def main(arguments: Sequence[str] | None = None) -> None:
    """Ask each engine."""
    wanted = _parse(arguments)
    sizes = sorted({*(wanted.pages or SIZES), *([_LARGEST] if wanted.largest else [])})
    answers: dict[str, object] = {}
    output = Console()
    with bars() as bar:
        for engine in wanted.engine or ("sqlite", "postgresql"):
            with _database(engine) as url:
                figures = asyncio.run(measure(url, sizes, bar, engine))
            answers[engine] = [asdict(figure) for figure in figures]
            output.print(_shown(engine, sizes, figures))
    wanted.output.parent.mkdir(parents=True, exist_ok=True)
    wanted.output.write_text(json.dumps(answers, indent=2) + "\n", encoding="utf-8")


async def measure(url: str, sizes: Sequence[int], bar: Bar, name: str = "") -> list[Figure]:
    """Grow a context to each size in turn, and ask it there."""
    figures: list[Figure] = []
    async with founded_at(url) as inside:
        have = 0
        for pages in sizes:
            with bar(f"{name}: growing to {pages} pages", pages - have) as done:
                await inside.fill([_text(number) for number in range(have, pages)], done)
            for call, ask in _calls(inside, pages).items():
                figures.append(await _figure(call, pages, ask))
            # What the calls added is written again while growing on.
            have = pages
    return figures


def _calls(inside: Inside, pages: int) -> dict[str, Callable[[int], Call]]:
    """By name, what makes the n-th call."""
    step = max(1, pages // (_CALLS + _WARM_UP))
    return {
        "read": lambda n: lambda: inside.read(_text(n * step).path),
        "write (replaces a page)": lambda n: lambda: inside.write(_text(n * step, edition=1)),
        "write (a new page)": lambda n: lambda: inside.write(_text(pages + n)),
        "list below a prefix": lambda _: lambda: inside.list(_PREFIX),
        "search, three words": lambda n: lambda: inside.search(corpus.query(n, pages)),
    }


async def _figure(name: str, pages: int, ask: Callable[[int], Call]) -> Figure:
    spent = []
    for number in range(_CALLS + _WARM_UP):
        call = ask(number)
        cpu_s, clock_s = time.process_time(), time.perf_counter()
        await call()
        spent.append((time.process_time() - cpu_s, time.perf_counter() - clock_s))
    kept = spent[_WARM_UP:]
    clocks = [clock_s * 1_000 for _, clock_s in kept]
    return Figure(name, pages, median(cpu_s for cpu_s, _ in kept) * 1_000, median(clocks), max(clocks))


def _text(number: int, edition: int = 0) -> Text:
    page = corpus.page(number, edition=edition)
    return Text(page.path, page.body, page.title, page.tags, page.type)


@contextmanager
def _database(engine: str) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="zkpcp-bench-") as folder:
        if engine == "sqlite":
            url = f"sqlite://{Path(folder).resolve() / 'context.db'}"
            storage.migrate(url)
            yield url
            return
        with running_postgres(durable=True) as server:
            url = server.fresh_database()
            storage.migrate(url)
            yield url


def _shown(engine: str, sizes: Sequence[int], figures: Sequence[Figure]) -> Table:
    table = Table(title=f"{engine}: processor ms (by the clock) and times the smallest size", title_justify="left")
    table.add_column("call")
    for pages in sizes:
        table.add_column(f"{pages:,} pages", justify="right")
    for call in dict.fromkeys(figure.call for figure in figures):
        row = [figure for figure in figures if figure.call == call]
        table.add_row(
            call, *(f"{each.cpu_ms:.1f} ({each.clock_ms:.1f}) x{each.cpu_ms / row[0].cpu_ms:.2f}" for each in row)
        )
    return table


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench growth", description="Measure how the cost of calls grows.")
    parser.add_argument(
        "--engine", action="append", choices=("sqlite", "postgresql"), help="one engine; may be repeated"
    )
    parser.add_argument("--pages", type=int, action="append", help="a size of context; may be repeated")
    parser.add_argument("--largest", action="store_true", help="100,000 pages too: half an hour more for each engine")
    parser.add_argument("--output", type=Path, default=_DEFAULT_OUTPUT, help="where the figures go as JSON")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()

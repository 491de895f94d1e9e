"""``python -m bench``: asks the questions below, prints the answers and writes them to ``build/bench.json``.

Nothing here passes or fails: a figure beyond its goal is shown as such, and the exit status is 0 all the same. How to
read the figures, and those of our machine, stand in ``bench/README.md``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from bench import cpu_per_call, footprint, growth, hot_path, http_calls
from bench.leakage import __main__ as leakage
from bench.scene import FULL, QUICK, SMOKE, Scene, Size
from bench.search import __main__ as search

QUESTIONS: Final = {
    "http": "How many calls a second, and how long does one take, beside an echo?",
    "footprint": "How much memory, time to start and disk does it take?",
    "hot-path": "Where does the time of a call go?",
    # Last, since it adds pages.
    "cpu": "How much processor time does a call take?",
}
_IN_PROCESS: Final = {"growth": growth.main, "search": search.main, "leakage": leakage.main}
"""Questions that need no server: ``python -m bench search``; each has arguments and a file of its own."""
_DEFAULT_OUTPUT: Final = Path(__file__).resolve().parent.parent / "build" / "bench.json"


def main(arguments: Sequence[str] | None = None) -> None:
    """Ask the questions."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given[:1] in ([name] for name in _IN_PROCESS):
        _IN_PROCESS[given[0]](given[1:])
        return
    wanted = _parse(given)
    size = SMOKE if wanted.smoke else QUICK if wanted.quick else FULL
    output = Console()
    answers: dict[str, object] = {"machine": _machine(), "size": asdict(size)}
    with (
        tempfile.TemporaryDirectory(prefix="zkpcp-bench-") as folder,
        _progress() as progress,
        _scene(Path(folder), size, progress, postgres=wanted.postgres) as scene,
    ):
        answers["engine"] = scene.engine
        for question in wanted.only or QUESTIONS:
            answers[question] = _ask(question, scene, output)
    wanted.output.parent.mkdir(parents=True, exist_ok=True)
    wanted.output.write_text(json.dumps(answers, indent=2) + "\n", encoding="utf-8")
    output.print(f"Written to {wanted.output}")


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measure zkpcp.",
        epilog="python -m bench growth, search and leakage measure inside one process; see their --help",
    )
    parser.add_argument("--quick", action="store_true", help="small contexts and few calls: under a minute")
    parser.add_argument("--smoke", action="store_true", help="next to nothing: only to see that the programs work")
    parser.add_argument("--postgres", action="store_true", help="on a PostgreSQL server of its own instead of SQLite")
    parser.add_argument("--only", action="append", choices=QUESTIONS, help="one question; may be repeated")
    parser.add_argument("--output", type=Path, default=_DEFAULT_OUTPUT, help="where the figures go as JSON")
    return parser.parse_args(arguments)


def _ask(question: str, scene: Scene, output: Console) -> object:
    match question:
        case "http":
            rates = http_calls.measure(scene)
            output.print(_rates(rates, scene))
            return [asdict(figure) for figure in rates]
        case "cpu":
            costs = cpu_per_call.measure(scene)
            output.print(_costs(costs, scene))
            return [asdict(figure) for figure in costs]
        case "footprint":
            sizes = footprint.measure(scene)
            output.print(_sizes(sizes, scene))
            return [asdict(figure) for figure in sizes]
        case _:
            shares = hot_path.measure(scene)
            output.print(_shares(shares, scene))
            return shares


def _rates(figures: list[http_calls.Figure], scene: Scene) -> Table:
    title = f"Calls over HTTP at {scene.size.http_pages} pages ({scene.engine}, wipe-on-free on)"
    table = _table(title, "call", "connections", "calls/s", "of the echo", "p50 ms", "p99 ms")
    for figure in figures:
        numbers = (f"{figure.per_s:.0f}", f"{figure.ratio:.3f}", f"{figure.p50_ms:.1f}", f"{figure.p99_ms:.1f}")
        table.add_row(figure.kind, str(figure.connections), *numbers)
    return table


def _costs(figures: list[cpu_per_call.Figure], scene: Scene) -> Table:
    title = f"Server processor time at {scene.size.cpu_pages} pages ({scene.engine})"
    table = _table(title, "call", "wiping ms", "not wiping ms", "goal ms")
    for kind in cpu_per_call.KINDS:
        cost = {figure.wipe_on_free: figure.cpu_ms for figure in figures if figure.kind == kind}
        goal = cpu_per_call.GOALS_MS.get(kind)
        table.add_row(kind, f"{cost[True]:.2f}", f"{cost[False]:.2f}", "" if goal is None else f"{goal:.0f}")
    return table


def _sizes(figures: list[footprint.Figure], scene: Scene) -> Table:
    table = _table(f"Footprint ({scene.engine})", "", "wiping", "not wiping", "goal")
    start, rest = footprint.GOALS["start_s"], footprint.GOALS["rest_mb"]
    table.add_row("start to first answer, s", *(f"{figure.start_s:.2f}" for figure in figures), f"{start:.0f}")
    table.add_row("processor time of the start, s", *(f"{figure.start_cpu_s:.2f}" for figure in figures), "")
    table.add_row("memory after the start, MB", *(f"{figure.start_mb:.0f}" for figure in figures), "")
    table.add_row("memory after a sign-in, MB", *(f"{figure.rest_mb:.0f}" for figure in figures), f"{rest:.0f}")
    table.add_row("memory after many calls, MB", *(f"{figure.worked_mb:.0f}" for figure in figures), "")
    table.add_row("bytes on disk per byte kept", *(f"{figure.disk_ratio:.2f}" for figure in figures), "")
    return table


def _shares(figures: dict[str, dict[str, float]], scene: Scene) -> Table:
    table = _table(f"Where the time goes, % ({scene.engine}, wipe-on-free on)", "part", *figures)
    for part in dict.fromkeys(part for shares in figures.values() for part in shares):
        table.add_row(part, *(f"{shares.get(part, 0):.0f}" for shares in figures.values()))
    return table


def _table(title: str, first: str, *others: str) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column(first)
    for name in others:
        table.add_column(name, justify="right")
    return table


def _progress() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)


@contextmanager
def _scene(folder: Path, size: Size, progress: Progress, *, postgres: bool) -> Iterator[Scene]:
    if not postgres:
        yield Scene("SQLite", folder, size, progress, new_database=lambda: "", database_bytes=lambda _url: 0)
        return
    from tests.support.postgres import running_postgres  # noqa: PLC0415 - only where it is asked for

    # Durable, as SQLite is here: a commit waits for the disk.
    with running_postgres(durable=True) as server:

        def database_bytes(url: str) -> int:
            name = url.rpartition("/")[2]
            server.execute("checkpoint")
            return int(server.execute(f"select pg_database_size('{name}')"))

        yield Scene("PostgreSQL", folder, size, progress, server.fresh_database, database_bytes)


def _machine() -> dict[str, object]:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "load": os.getloadavg()[0],
    }


if __name__ == "__main__":
    main()

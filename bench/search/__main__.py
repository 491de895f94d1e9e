"""``python -m bench search``: how good and how quick search is; prints tables and writes the figures to a file."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from bench.progress import Bar, bars
from bench.search import quality, sets, timing
from bench.search.quality import ALLOWANCE, BM25, OURS
from tests.support.postgres import running_postgres

_SIZES: Final = (1_000, 10_000)
_LARGEST: Final = 100_000
_DEFAULT_OUTPUT: Final = Path(__file__).resolve().parents[2] / "build" / "search.json"


def main(arguments: Sequence[str] | None = None) -> None:
    """Ask both questions, or one."""
    wanted = _parse(arguments)
    output = Console()
    answers: dict[str, object] = {}
    with bars() as bar:
        if wanted.only != "time":
            found = _quality(bar, wanted.sets, postgres=not wanted.no_postgres)
            answers["quality"] = [asdict(figure) for figure in found]
            output.print(_qualities(found))
        if wanted.only != "quality":
            costs = []
            for pages in [*(wanted.pages or _SIZES), *([_LARGEST] if wanted.largest else [])]:
                with bar(f"writing {pages} pages", pages) as done:
                    costs.append(timing.measure(pages, done))
            answers["time"] = [asdict(figure) for figure in costs]
            output.print(_costs(costs))
    wanted.output.parent.mkdir(parents=True, exist_ok=True)
    wanted.output.write_text(json.dumps(answers, indent=2) + "\n", encoding="utf-8")


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench search", description="Measure search.")
    parser.add_argument("--sets", type=Path, help="a folder of sets; without it, the small set of our own")
    parser.add_argument("--only", choices=("quality", "time"), help="one question")
    parser.add_argument("--pages", type=int, action="append", help="a size of context to time; may be repeated")
    parser.add_argument("--largest", action="store_true", help="time 100,000 pages too: a quarter of an hour more")
    parser.add_argument("--no-postgres", action="store_true", help="leave PostgreSQL out")
    parser.add_argument("--output", type=Path, default=_DEFAULT_OUTPUT, help="where the figures go as JSON")
    return parser.parse_args(arguments)


def _quality(bar: Bar, folder: Path | None, *, postgres: bool) -> list[quality.Figure]:
    figures: list[quality.Figure] = []
    with running_postgres() if postgres else nullcontext() as server:
        for each in [sets.own_set()] if folder is None else sets.read_sets(folder):
            with bar(each.name, len(each.pages) + len(each.questions)) as done:
                figures += quality.measure(each, server, done)
    return figures


def _qualities(figures: Sequence[quality.Figure]) -> Table:
    table = _table("The first ten results", "set", "engine", "questions", "recall@10", "nDCG@10")
    plain = {figure.set: figure.quality for figure in figures if figure.engine == BM25}
    for figure in figures:
        goal = plain[figure.set]
        pairs = ((figure.quality.recall, goal.recall), (figure.quality.ndcg, goal.ndcg))
        shown = [
            f"{value:.3f}{' !' if figure.engine == OURS and value < least - ALLOWANCE else ''}"
            for value, least in pairs
        ]
        table.add_row(figure.set, figure.engine, str(figure.questions), *shown)
    return table


def _costs(figures: Sequence[timing.Figure]) -> Table:
    table = _table("Inside the server", "", *(f"{figure.pages:,} pages" for figure in figures))
    first = figures[0].ours.cpu_ms
    rows = {
        "search, processor ms": [f"{each.ours.cpu_ms:.1f}" for each in figures],
        "FTS5, processor ms": [f"{each.fts5.cpu_ms:.1f}" for each in figures],
        "search / FTS5 (goal at 10,000: 1)": [f"{each.ratio:.2f}" for each in figures],
        "a whole question, processor ms": [f"{each.ours_asked.cpu_ms:.1f}" for each in figures],
        "the same with FTS5": [f"{each.fts5_asked.cpu_ms:.1f}" for each in figures],
        "search, clock ms": [f"{each.ours.clock_ms:.1f}" for each in figures],
        "FTS5, clock ms": [f"{each.fts5.clock_ms:.1f}" for each in figures],
        "to the smallest (goal at 100,000: 4)": [f"{each.ours.cpu_ms / first:.2f}" for each in figures],
        "write, processor ms": [f"{each.write.cpu_ms:.1f}" for each in figures],
        "list below a prefix, processor ms": [f"{each.listed.cpu_ms:.1f}" for each in figures],
        "rows a search reads": [f"{each.read_rows}" for each in figures],
        "kB a search reads": [f"{each.read_bytes / 1_000:.0f}" for each in figures],
        "rows a list reads": [f"{each.listed_rows}" for each in figures],
        "kB a list reads": [f"{each.listed_bytes / 1_000:.0f}" for each in figures],
        "index bytes a page (goal: 700)": [f"{each.index_bytes / each.pages:.0f}" for each in figures],
        "term vector bytes a page": [f"{each.vector_bytes / each.pages:.0f}" for each in figures],
        "FTS5 file bytes a page, text included": [f"{each.fts5_bytes / each.pages:.0f}" for each in figures],
    }
    for name, values in rows.items():
        table.add_row(name, *values)
    return table


def _table(title: str, *names: str) -> Table:
    table = Table(title=title, title_justify="left")
    for name in names:
        table.add_column(name, justify="left" if name in ("", "set", "engine") else "right")
    return table


if __name__ == "__main__":
    main()

"""``python -m bench leakage``: mounts the attacks, prints what came of them and writes it to a file."""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from bench.inside import migrated
from bench.leakage import experiments
from bench.leakage.experiments import Figure
from bench.progress import bars

_PAGES: Final = 5_000
_QUERIES: Final = 3_000
_TWIN_PAGES: Final = 600
_DEFAULT_OUTPUT: Final = Path(__file__).resolve().parents[2] / "build" / "leakage.json"


def main(arguments: Sequence[str] | None = None) -> None:
    """Mount them."""
    parser = argparse.ArgumentParser(prog="python -m bench leakage", description="Attack what the database shows.")
    parser.add_argument(
        "--pages", type=int, default=_PAGES, help="notes in each half; the control needs some thousands"
    )
    parser.add_argument("--queries", type=int, default=_QUERIES, help="searches that the attacker watches")
    parser.add_argument("--output", type=Path, default=_DEFAULT_OUTPUT, help="where the figures go as JSON")
    wanted = parser.parse_args(arguments)
    figures = measure(wanted.pages, wanted.queries)
    wanted.output.parent.mkdir(parents=True, exist_ok=True)
    content = {"pages": wanted.pages, "queries": wanted.queries, "figures": [asdict(figure) for figure in figures]}
    wanted.output.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    Console().print(_table(figures))


def measure(pages: int, queries: int) -> list[Figure]:
    """Every figure."""
    twins = min(pages, _TWIN_PAGES)
    with tempfile.TemporaryDirectory(prefix="zkpcp-bench-") as name, bars() as bar:
        folders = [Path(name) / each for each in ("story", "one", "two")]
        for folder in folders:
            migrated(folder)
        with bar("telling the story", 1) as done:
            story = experiments.told(pages)
            done(1)
        with bar("attacking row postings", 3) as done:
            figures = []
            for figure in experiments.on_control(story):
                figures.append(figure)
                done(1)
        with bar("writing, searching, attacking", len(story.notes) + queries) as done:
            figures += asyncio.run(experiments.on_ours(folders[0], story, queries, done))
        with bar("writing other words", 2 * twins) as done:
            figures += asyncio.run(experiments.same_for_other_words(folders[1], folders[2], twins, done))
    return figures


def _table(figures: Sequence[Figure]) -> Table:
    table = Table(title="What an attacker without a key learns", title_justify="left")
    for name in ("attack", "what he sees"):
        table.add_column(name)
    table.add_column("result", justify="right")
    table.add_column("goal")
    for figure in figures:
        table.add_row(figure.attack, figure.observation, f"{figure.value:.4g}", figure.goal)
    return table


if __name__ == "__main__":
    main()

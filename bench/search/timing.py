"""How long a search takes as the context grows.

Beside SQLite FTS5 over the same pages in plaintext, in the same process and the same run, each query in turn: processor
time of all threads, and the clock. Ours does all that a call does behind HTTP: token to keyring, index, ten pages and
their snippets, the entry in the access log and its commit. FTS5 ranks, makes ten snippets, and writes nothing. How much
the index holds, and how much of it is read, is counted too.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final, TypeVar

from bench import corpus
from bench.inside import Inside, Seen, Text, founded, migrated
from bench.search.rivals import Fts5

Argument = TypeVar("Argument")

QUERIES: Final = 40
_WARM_UP: Final = 3
_QUESTION: Final = "when was it that we have {} for the"
_PREFIX: Final = "recipes/"


@dataclass(frozen=True, slots=True)
class Cost:
    """The median over some calls, in milliseconds: processor time, and by the clock."""

    cpu_ms: float
    clock_ms: float


@dataclass(frozen=True, slots=True)
class Figure:
    """One size of context. ``index_bytes`` is sealed index rows alone; ``vector_bytes`` the pages' own term vectors.

    ``ours`` and ``fts5`` are for three words, ``ours_asked`` and ``fts5_asked`` for a whole question; ``listed_rows``
    and ``listed_bytes`` are what a listing below a prefix reads.
    """

    pages: int
    ours: Cost
    fts5: Cost
    ours_asked: Cost
    fts5_asked: Cost
    listed: Cost
    write: Cost
    index_bytes: int
    vector_bytes: int
    fts5_bytes: int
    read_rows: int
    read_bytes: int
    listed_rows: int
    listed_bytes: int

    @property
    def ratio(self) -> float:
        """Ours to FTS5 in processor time."""
        return self.ours.cpu_ms / self.fts5.cpu_ms


def measure(pages: int, done: Callable[[int], None]) -> Figure:
    """Fill a context and an FTS5 table with the first pages of the corpus, and ask both."""
    with tempfile.TemporaryDirectory(prefix="zkpcp-bench-") as name:
        folder = Path(name)
        file = migrated(folder)
        return asyncio.run(_measure(folder, file, pages, done))


async def _measure(folder: Path, file: Path, pages: int, done: Callable[[int], None]) -> Figure:
    texts = [_text(number) for number in range(pages)]
    rival = Fts5(texts, folder / "fts5.db")
    async with founded(folder) as inside:
        await inside.fill(texts, done)
        queries = [corpus.query(number, pages) for number in range(QUERIES + _WARM_UP)]
        ours, theirs = await _both(inside, rival, queries)
        ours_asked, theirs_asked = await _both(inside, rival, [_QUESTION.format(query) for query in queries])
        listed = [await _spent(inside.list, _PREFIX) for _ in range(_WARM_UP + 5)]
        again = [_text(number, edition=1) for number in range(min(pages, _WARM_UP + 20))]
        written = [await _spent(inside.write, text) for text in again]
        searched, seen = Seen(), Seen()
        await inside.watched(searched).search(queries[0])
        await inside.watched(seen).list(_PREFIX)
        rival.close()
        return Figure(
            pages=pages,
            ours=_median(ours),
            fts5=_median(theirs),
            ours_asked=_median(ours_asked),
            fts5_asked=_median(theirs_asked),
            listed=_median(listed),
            write=_median(written),
            index_bytes=_sum(file, "select sum(length(sealed)) from index_parts"),
            vector_bytes=_sum(file, "select sum(length(terms)) from pages"),
            fts5_bytes=(folder / "fts5.db").stat().st_size,
            read_rows=len(searched.parts) + len(searched.pages),
            read_bytes=searched.read_bytes,
            listed_rows=len(seen.parts) + len(seen.pages),
            listed_bytes=seen.read_bytes,
        )


async def _both(
    inside: Inside, rival: Fts5, queries: Sequence[str]
) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """In turn, so that whatever else the machine does meets both."""

    async def answer(query: str) -> None:
        rival.answer(query)

    ours: list[tuple[float, float]] = []
    theirs: list[tuple[float, float]] = []
    for query in queries:
        ours.append(await _spent(inside.search, query))
        theirs.append(await _spent(answer, query))
    return ours, theirs


async def _spent(call: Callable[[Argument], Awaitable[object]], argument: Argument) -> tuple[float, float]:
    cpu_s, clock_s = time.process_time(), time.perf_counter()
    await call(argument)
    return time.process_time() - cpu_s, time.perf_counter() - clock_s


def _median(spent: Sequence[tuple[float, float]]) -> Cost:
    kept = spent[_WARM_UP:]
    return Cost(median(cpu_s for cpu_s, _ in kept) * 1_000, median(clock_s for _, clock_s in kept) * 1_000)


def _sum(file: Path, statement: str) -> int:
    connection = sqlite3.connect(f"file:{file}?mode=ro", uri=True)
    try:
        [[total]] = connection.execute(statement).fetchall()
    finally:
        connection.close()
    return int(total)


def _text(number: int, edition: int = 0) -> Text:
    page = corpus.page(number, edition=edition)
    return Text(page.path, page.body, page.title, page.tags, page.type)

"""How good the first ten results are, beside engines that see the plaintext.

Ours answers through the whole use case, from a sealed index in SQLite. What its parameters were chosen on stands beside
them in ``zkpcp/core/ranking.py``; every other set was only measured.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.inside import founded, migrated
from bench.search.metrics import Quality, mean
from bench.search.rivals import Fts5, PostgresText, plain_bm25
from bench.search.sets import TestSet
from tests.support.postgres import Postgres

OURS: Final = "zkpcp"
BM25: Final = "BM25, words and stems"
FTS5: Final = "SQLite FTS5 porter"
POSTGRES: Final = "PostgreSQL ts_rank"
ALLOWANCE: Final = 0.003
"""How far below plain BM25 a set may be."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One engine on one set."""

    set: str
    engine: str
    questions: int
    quality: Quality


def measure(each: TestSet, postgres: Postgres | None, done: Callable[[int], None]) -> list[Figure]:
    """All engines on one set; ``done`` is told of questions and pages as ours gets through them."""
    questions = [question.text for question in each.questions]
    found: dict[str, Sequence[Sequence[str]]] = {OURS: _ours(each, done)}
    bm25, fts5 = plain_bm25(each.pages, each.language), Fts5(each.pages)
    found[BM25] = [bm25(question) for question in questions]
    found[FTS5] = [fts5.search(question) for question in questions]
    fts5.close()
    if postgres is not None:
        text = PostgresText(postgres, each.pages, each.language)
        found[POSTGRES] = text.search_all(questions)
        text.close()
    return [
        Figure(
            each.name,
            engine,
            len(questions),
            mean(
                [
                    (question.read(paths), question.right)
                    for paths, question in zip(answers, each.questions, strict=True)
                ]
            ),
        )
        for engine, answers in found.items()
    ]


def _ours(each: TestSet, done: Callable[[int], None]) -> list[list[str]]:
    with tempfile.TemporaryDirectory(prefix="zkpcp-bench-") as name:
        folder = Path(name)
        migrated(folder)

        async def answer() -> list[list[str]]:
            async with founded(folder) as inside:
                await inside.fill(each.pages, done)
                answers = []
                for question in each.questions:
                    answers.append(await inside.search(question.text))
                    done(1)
                return answers

        return asyncio.run(answer())

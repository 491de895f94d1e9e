"""Engines that see the plaintext, as somebody would set them up: what ours is measured beside.

SQLite FTS5 with the Porter stemmer; a plain BM25 over words and Snowball stems, pairs of characters for Chinese and
Japanese; PostgreSQL's text search. Each is asked for pages that hold any word of the question, best first. Nothing here
shares code with the search that is measured.
"""

from __future__ import annotations

import csv
import io
import math
import re
import sqlite3
import subprocess
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from heapq import nlargest
from pathlib import Path
from typing import Final

import snowballstemmer

from bench.inside import Text
from tests.support.postgres import Postgres

Search = Callable[[str], Sequence[str]]
"""From a question to the paths of at most ten pages."""

_LIMIT: Final = 10
_WORD: Final = re.compile(r"\w+")
_UNSPACED: Final = re.compile("[\u3041-\u30ff\u3400-\u9fff]+|[^\u3041-\u30ff\u3400-\u9fff]+")
_STEMMERS: Final = {"en": "english", "de": "german", "es": "spanish", "ru": "russian"}
_K1: Final = 0.9
_B: Final = 0.4
_EXACT_WEIGHT: Final = 0.3


class Fts5:
    """A SQLite full-text table, in a file or in memory."""

    def __init__(self, pages: Sequence[Text], file: Path | None = None) -> None:
        self._connection = sqlite3.connect(file or ":memory:")
        self._connection.execute(
            "create virtual table pages using fts5(path, title, tags, body, tokenize = 'porter unicode61')"
        )
        self._connection.executemany(
            "insert into pages values (?, ?, ?, ?)",
            [(page.path, page.title, " ".join(page.tags), page.body) for page in pages],
        )
        self._connection.commit()

    def search(self, question: str) -> list[str]:
        """The ten best by ``bm25()``."""
        return [path for path, _ in self.answer(question)]

    def answer(self, question: str) -> list[tuple[str, str]]:
        """The same with the part of each text that matched, as a caller would show it."""
        words = dict.fromkeys(_WORD.findall(question))
        if not words:
            return []
        match = " OR ".join(f'"{word}"' for word in words)
        rows = self._connection.execute(
            "select path, snippet(pages, 3, '', '', '…', 32) from pages where pages match ? order by rank limit ?",
            (match, _LIMIT),
        )
        return [(str(path), str(snippet)) for path, snippet in rows]

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


def plain_bm25(pages: Sequence[Text], language: str) -> Search:
    """Okapi BM25 with Lucene's idf over words and stems; path, title and tags are read as part of the text."""
    stem = snowballstemmer.stemmer(_STEMMERS.get(language, "english")).stemWord
    postings: dict[str, dict[int, int]] = defaultdict(dict)
    lengths: list[int] = []
    for number, page in enumerate(pages):
        words = _words(_all_text(page))
        lengths.append(len(words))
        for term, count in Counter(term for word in words for term in (f"e:{word}", f"s:{stem(word)}")).items():
            postings[term][number] = count
    mean_length = sum(lengths) / len(lengths)

    def search(question: str) -> list[str]:
        scores: dict[int, float] = defaultdict(float)
        for word in dict.fromkeys(_words(question)):
            for term, weight in ((f"e:{word}", _EXACT_WEIGHT), (f"s:{stem(word)}", 1.0)):
                holding = postings.get(term, {})
                idf = math.log(1 + (len(pages) - len(holding) + 0.5) / (len(holding) + 0.5))
                for number, count in holding.items():
                    damping = _K1 * (1 - _B + _B * lengths[number] / mean_length)
                    scores[number] += weight * idf * count / (count + damping)
        return [pages[number].path for number in nlargest(_LIMIT, scores, key=lambda each: (scores[each], -each))]

    return search


class PostgresText:
    """A table with a ``tsvector`` column, asked through psql: good for rankings, not for times."""

    def __init__(self, server: Postgres, pages: Sequence[Text], language: str) -> None:
        self._server = server
        self._dsn = server.fresh_database()
        self._language = _STEMMERS.get(language, "simple")
        rows = [(page.path, _all_text(page)) for page in pages]
        self._run(_MAKE_PAGES.format(rows=_csv(rows)))

    def search_all(self, questions: Sequence[str]) -> list[list[str]]:
        """The ten best by ``ts_rank``, longer pages scored down, for each question."""
        rows = [(str(number), " or ".join(_operands(question))) for number, question in enumerate(questions)]
        found: list[list[str]] = [[] for _ in questions]
        for line in self._run(_ASK.format(rows=_csv(rows))).splitlines():
            number, _, path = line.partition("\t")
            found[int(number)].append(path)
        return found

    def close(self) -> None:
        """Drop the database."""
        self._server.drop_database(self._dsn)

    def _run(self, script: str) -> str:
        psql = str(self._server.bin / "psql")
        options = ["-XqAt", "-F", "\t", "-v", "ON_ERROR_STOP=1", "-v", f"language={self._language}"]
        done = subprocess.run([psql, *options, self._dsn], input=script, capture_output=True, text=True, check=True)
        return done.stdout


_MAKE_PAGES: Final = """\
create table pages (path text, text text);
copy pages from stdin (format csv);
{rows}\\.
alter table pages add column terms tsvector;
update pages set terms = to_tsvector(:'language', text);
create index on pages using gin (terms);
analyze pages;
"""
_ASK: Final = """\
create temporary table questions (number int, words text);
copy questions from stdin (format csv);
{rows}\\.
select number, path
from questions
cross join lateral (
  select path, ts_rank(terms, query, 1) as score
  from pages, websearch_to_tsquery(:'language', words) as query
  where terms @@ query
  order by score desc, path
  limit 10
) as found
order by number, score desc, path;
"""


def _all_text(page: Text) -> str:
    """Path, title, tags and body: what ours searches too."""
    return "\n".join((page.path.replace("/", " "), page.title, *page.tags, page.body))


def _operands(question: str) -> list[str]:
    return [word for word in _WORD.findall(question) if word.lower() != "or"]


def _csv(rows: Sequence[tuple[str, str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows(rows)
    return text.getvalue().replace("\x00", "")


def _words(text: str) -> list[str]:
    words: list[str] = []
    for word in _WORD.findall(text.casefold()):
        for run in _UNSPACED.findall(word):
            if run[0] < "\u3041" or run[0] > "\u9fff":
                words.append(run)
            else:
                words += [run[at : at + 2] for at in range(max(1, len(run) - 1))]
    return words

"""What is there to see: for the control, rows of keyed words; for ours, the database file before and after each write.

The file is opened as its host would, beside the server, without a key. A key is used for one thing: to say afterwards
whether a guess was right.
"""

from __future__ import annotations

import hashlib
import hmac
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.inside import Inside
from bench.leakage.attack import Observation, observed
from bench.leakage.chat import Note
from zkpcp.core.index import HASH_BITS, Hash
from zkpcp.core.slots import MAIN_PARTITION, memory_slot
from zkpcp.vault import index as sealed_index

_CONTROL_KEY: Final = b"a key that the attacker does not have"
_SIZE_STEP_BYTES: Final = 64


@dataclass(frozen=True, slots=True)
class Parts:
    """The index as it lies in the file: for each row its name, its stamp and its size."""

    rows: frozenset[tuple[str, int, int]]

    def changed(self, before: Parts) -> set[str]:
        """Rows that are new, gone or written anew."""
        return {name for name, _, _ in self.rows ^ before.rows}

    def resized(self, before: Parts) -> set[str]:
        """Rows whose size is another."""
        return {name for name, _ in self.sizes().items() ^ before.sizes().items()}

    def sizes(self) -> dict[str, int]:
        """The size of each row in bytes."""
        return {name: size for name, _, size in self.rows}


@dataclass(slots=True)
class Watch:
    """What the host of a database notes: which rows each write changed, and which it made longer or shorter."""

    file: Path
    changed: list[set[str]] = field(default_factory=list)
    resized: list[set[str]] = field(default_factory=list)
    grown: list[int] = field(default_factory=list)
    last: Parts = Parts(frozenset())

    def look(self) -> None:
        """Take a copy of the index's names, stamps and sizes, and compare it with the one before."""
        now = copy(self.file)
        self.changed.append(now.changed(self.last))
        self.resized.append(now.resized(self.last))
        self.grown.append(sum(now.sizes().values()) - sum(self.last.sizes().values()))
        self.last = now


def copy(file: Path) -> Parts:
    """The index's rows as anybody sees them who has the file."""
    connection = sqlite3.connect(f"file:{file}?mode=ro", uri=True)
    try:
        rows = connection.execute("select part, stamp, length(sealed) from index_parts").fetchall()
    finally:
        connection.close()
    return Parts(frozenset((str(name), int(stamp), int(size)) for name, stamp, size in rows))


def row_postings(notes: Sequence[Note]) -> Observation:
    """The control: one row for each page and keyed word."""
    return observed([{keyed(word) for word in note.words} for note in notes])


def keyed(word: str) -> str:
    """A word's tag in the control."""
    return hmac.digest(_CONTROL_KEY, word.encode(), hashlib.sha256).hex()[:16]


def buckets_only(events: Sequence[set[str]]) -> Observation:
    """Of what was seen, the rows that hold words of many pages; a bucket's two rows go together and count once."""
    return observed([{name for name in names if "/postings/" in name} for names in events])


def sizes_as_counts(parts: Parts) -> Observation:
    """A copy at rest, with sizes taken for frequencies: a row counts as seen once for every so many bytes."""
    sizes = {name: size // _SIZE_STEP_BYTES for name, size in parts.sizes().items() if "/postings/" in name}
    return Observation(max(sizes.values(), default=1), {name: (1 << size) - 1 for name, size in sizes.items()})


@asynccontextmanager
async def judged(inside: Inside) -> AsyncIterator[Callable[[str, str], bool]]:
    """Says whether a row holds a word: for whoever has the key."""
    slot = memory_slot(MAIN_PARTITION, sensitive=False)
    hashes: dict[int, Hash] = {}
    known: dict[tuple[int, str], int] = {}
    async with inside.client() as who:
        generation = who.keys.roster.generation

        def holds(row: str, word: str) -> bool:
            segment, kind, bucket = row.split("/")
            which, place = int(segment), int(bucket)
            if kind not in ("words", "postings"):
                return False
            if which not in hashes:
                hashes[which] = sealed_index.bucket_hash(who.keys, slot, generation, which)
            if (which, word) not in known:
                known[which, word] = hashes[which](word.encode())
            level = place.bit_length() - 1
            return known[which, word] >> (HASH_BITS - level) == place - (1 << level)

        yield holds

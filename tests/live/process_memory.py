"""What stands in the writable memory of another process (Linux): the heap, stacks, every anonymous mapping.

Reading needs the right to trace the process; the server is not dumpable, so that is root's or CAP_SYS_PTRACE's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_CHUNK_BYTES: Final = 16 << 20
_OVERLAP_BYTES: Final = 4096  # no word is longer, so none is cut in two
_LINE: Final = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ \S+ *(.*)")


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a mapping: where it is, the mapping's name (empty for anonymous memory), and what is in it."""

    address: int
    name: str
    data: bytes = field(repr=False)


def writable_memory(pid: int) -> Iterator[Part]:
    """Each writable mapping of a process in pieces. Raises PermissionError where this process may not look."""
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for start, end, name in _writable_mappings(pid):
            for at in range(start, end, _CHUNK_BYTES):
                size = min(_CHUNK_BYTES + _OVERLAP_BYTES, end - at)
                memory.seek(at)
                try:
                    data = memory.read(size)
                except OSError:  # a guard page, or gone since it was listed
                    continue
                yield Part(at, name, data)


def around(part: Part, word: bytes, width: int = 48) -> str:
    """The printable neighborhood of a word's first occurrence, without the word: a hint where it comes from."""
    at = part.data.index(word)
    before, after = part.data[max(0, at - width) : at], part.data[at + len(word) : at + len(word) + width]
    return f"{part.address + at:#x} {part.name or 'anonymous'}: {before!r} [...] {after!r}"


def _writable_mappings(pid: int) -> list[tuple[int, int, str]]:
    lines = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    matches = [match for match in map(_LINE.fullmatch, lines) if match is not None]
    return [
        (int(match[1], 16), int(match[2], 16), match[4])
        for match in matches
        if match[3].startswith("rw") and not match[4].startswith(("[v", "/dev/"))
    ]

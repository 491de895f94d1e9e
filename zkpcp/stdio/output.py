"""Standard output, for the protocol alone and without a buffer that keeps what was said.

Python's own writer keeps the last eight kilobytes until others take their place, so answers are written past it. While
this is open, whatever else the process prints goes to standard error, where it breaks no message.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from anyio import to_thread

_STANDARD_OUTPUT: Final = 1
_STANDARD_ERROR: Final = 2


class Output:
    """The part of an asynchronous text file that a transport needs."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    async def write(self, text: str) -> int:
        """Write all of it. Raises OSError when the client is gone."""
        await to_thread.run_sync(_write_all, self._descriptor, text.encode())
        return len(text)

    async def flush(self) -> None:
        """Nothing is kept back."""


@contextmanager
def standard_output() -> Iterator[Output]:
    """Take standard output for the protocol, and give it back at the end."""
    sys.stdout.flush()
    kept = os.dup(_STANDARD_OUTPUT)
    os.dup2(_STANDARD_ERROR, _STANDARD_OUTPUT)
    try:
        yield Output(kept)
    finally:
        sys.stdout.flush()
        os.dup2(kept, _STANDARD_OUTPUT)
        os.close(kept)


def _write_all(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]

"""Starting a checker: with an end by itself, its output kept in a file, and nothing of it left running."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PASSED_ON: Final = ("PATH", "HOME", "LANG", "LC_ALL")
"""What of this process's environment a checker gets; an installer gets all of it."""
TIMED_OUT: Final = 124


class ConformanceError(Exception):
    """The run cannot go on; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Ran:
    """How a program ended."""

    status: int
    output: str


def run(
    command: Sequence[str],
    *,
    log: Path,
    cwd: Path,
    timeout_s: float,
    more: Mapping[str, str] | None = None,
    whole_environment: bool = False,
) -> Ran:
    """Run a program to its end, or for ``timeout_s`` at most; standard output and standard error go to ``log``."""
    passed_on = dict(os.environ) if whole_environment else {n: os.environ[n] for n in PASSED_ON if n in os.environ}
    with log.open("wb") as out:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env={**passed_on, **(more or {})},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            status = TIMED_OUT
        finally:
            end_group(process)
    return Ran(status, log.read_text(encoding="utf-8", errors="replace"))


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End a program that leads a process group, and what it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()

"""Run a command with a terminal of its own to ask on, beside the standard streams it inherits, and type the answer.

``python -m tests.support.with_terminal COMMAND …`` types the environment's ``TEST_ANSWER`` when it is asked for a
passphrase, and ends with the command's exit status. What the terminal shows is written to the file ``TEST_SCREEN``.
"""

from __future__ import annotations

import os
import pty
import sys
from pathlib import Path

_STANDARD = (0, 1, 2)


def main() -> int:
    # Not to the command: in its environment it would stand in its memory.
    answer = os.environ.pop("TEST_ANSWER").encode() + b"\n"
    kept = [os.dup(number) for number in _STANDARD]
    pid, terminal = pty.fork()
    if pid == 0:
        # One more way to the terminal, across the exec: without any, its other side would read an end.
        os.set_inheritable(os.dup(0), True)
        for number, copy in zip(_STANDARD, kept, strict=True):
            os.dup2(copy, number)
            os.close(copy)
        os.execv(sys.argv[1], sys.argv[1:])  # noqa: S606 - the command of a test
    for number in (*kept, *_STANDARD[:2]):
        os.close(number)
    screen = b""
    while (shown := _read(terminal)) is not None:
        if b"Passphrase" in shown + screen and b"Passphrase" not in screen:
            os.write(terminal, answer)
        screen += shown
    Path(os.environ["TEST_SCREEN"]).write_bytes(screen)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _read(terminal: int) -> bytes | None:
    try:
        return os.read(terminal, 4096) or None
    except OSError:  # Linux's way to say that nobody has the other side open any more
        return None


if __name__ == "__main__":
    sys.exit(main())

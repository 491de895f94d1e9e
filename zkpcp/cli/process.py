"""The state of the server's own process: allocators that overwrite freed memory, and no way to dump it (KEY-04).

Python and the C library read these settings when a process starts, so the server starts itself anew with them. What
they achieve is measured (threat-model/README.md), not promised; CPython gives no guarantee about memory.
"""

from __future__ import annotations

import ctypes
import os
import resource
import sys
from collections.abc import Mapping, Sequence
from typing import Final

# pymalloc's debug hooks fill freed blocks; glibc's perturb byte does the same for larger ones, and without its
# thread cache no freed block escapes it.
WIPING: Final[Mapping[str, str]] = {
    "PYTHONMALLOC": "pymalloc_debug",
    "GLIBC_TUNABLES": "glibc.malloc.perturb=165:glibc.malloc.tcache_count=0",
}
_PR_SET_DUMPABLE: Final = 4
_LONG_RUNNING: Final = frozenset({"serve", "stdio"})
_NO: Final = frozenset({"0", "false", "f", "no", "n", "off"})
"""What the settings read as false."""


def wants_wiping(arguments: Sequence[str]) -> bool:
    """Whether a command line starts a process that opens contexts for long, and the settings do not forbid wiping.

    Reads the one setting it needs itself: the settings' own reader takes half a second to load.
    """
    command = arguments[0] if arguments else ""
    return (
        command in _LONG_RUNNING
        and "--help" not in arguments
        and os.environ.get("ZKPCP_WIPE_ON_FREE", "true").strip().lower() not in _NO
    )


def is_wiping() -> bool:
    """Whether this process was started with the wiping allocators."""
    return all(os.environ.get(name) == value for name, value in WIPING.items())


def restart_wiping() -> None:
    """Replace this process by the same command under the wiping allocators; does not return."""
    arguments = [sys.executable, "-m", "zkpcp.cli.main", *sys.argv[1:]]
    os.execve(sys.executable, arguments, {**os.environ, **WIPING})  # noqa: S606 - our own command, no shell


def forbid_dumps() -> None:
    """No core file, and no reading of this process's memory by other processes of the same user (Linux)."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)

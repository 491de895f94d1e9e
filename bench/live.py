"""A server as people run it: ``zkpcp serve`` in a process of its own, on a database of its own.

What a process used is read from ``/proc``, so this works on Linux only. Nothing here times anything but a start.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

PASSPHRASE: Final = "six unrelated words for one measurement"
HANDLE: Final = "me"

_ROOT: Final = Path(__file__).resolve().parent.parent
_START_TIMEOUT_S: Final = 60
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Deployment:
    """A data folder, or a PostgreSQL database, that holds one context with one connected app."""

    folder: Path
    database_url: str = ""
    token: str = field(default="", repr=False)

    @property
    def mcp_path(self) -> str:
        """Where the app sends its calls."""
        return f"/c/{HANDLE}/mcp"

    def environment(self, **settings: object) -> dict[str, str]:
        """The environment of a ``zkpcp`` process on this deployment; nothing of ours leaks into it but PATH."""
        base = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.folder),
            "LC_ALL": "C.UTF-8",
            "ZKPCP_DATA_DIR": str(self.folder / "data"),
            "ZKPCP_MCP_CALLS_PER_MINUTE": "1000000",
        }
        if self.database_url:
            base["ZKPCP_DATABASE_URL"] = self.database_url
        return base | {f"ZKPCP_{name.upper()}": str(value) for name, value in settings.items()}


@dataclass(frozen=True, slots=True)
class Server:
    """A running process; ``started_s`` is how long it took to its first answer."""

    pid: int
    port: int
    started_s: float

    def cpu_s(self) -> float:
        """User and system time of all its threads so far, in steps of a clock tick (10 ms)."""
        # The name in parentheses may hold blanks; behind it the fields start with the third, so utime is the 12th.
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S

    def rss_bytes(self) -> int:
        """Its resident memory."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


def found(folder: Path, database_url: str = "") -> Deployment:
    """Make a context and connect an app to it, by the commands that people use; the token lives for an hour."""
    bare = Deployment(folder, database_url)
    _zkpcp(bare, "init", "--handle", HANDLE, "--passphrase-stdin", "--json")
    made = _zkpcp(bare, "grant", "create", "--client", "bench", "--passphrase-stdin", "--json")
    return Deployment(folder, database_url, json.loads(made)["access_token"])


@contextmanager
def serving(deployment: Deployment, *, wipe_on_free: bool) -> Iterator[Server]:
    """The server, from its first answer until the end of the block, when it is asked to stop and does."""
    port = free_port()
    environment = deployment.environment(port=port, wipe_on_free=wipe_on_free)
    command = [sys.executable, "-m", "zkpcp.cli.main", "serve"]
    with running(command, environment, port, f"/c/{HANDLE}/.well-known/pcp.json") as server:
        yield server


@contextmanager
def running(command: Sequence[str], environment: dict[str, str], port: int, path: str) -> Iterator[Server]:
    """A server process, from the first time it answers a GET of ``path`` until the end of the block."""
    begun = time.perf_counter()
    process = subprocess.Popen(command, cwd=_ROOT, env=environment, stdout=subprocess.DEVNULL)
    try:
        _await_answer(process, port, path)
        yield Server(process.pid, port, time.perf_counter() - begun)
    finally:
        # As Ctrl-C does: the server then closes its store, which leaves SQLite's log empty.
        process.send_signal(signal.SIGINT)
        process.wait(timeout=_START_TIMEOUT_S)


def free_port() -> int:
    """A loopback port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
    return port


def _await_answer(process: subprocess.Popen[bytes], port: int, path: str) -> None:
    request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode()
    deadline = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with {process.returncode} before it answered")
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
                connection.sendall(request)
                if connection.recv(64).startswith(b"HTTP/1.1 "):
                    return
        except ConnectionError:
            time.sleep(0.005)
    raise RuntimeError("the server did not answer in time")


def _zkpcp(deployment: Deployment, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "zkpcp.cli.main", *arguments],
        cwd=_ROOT,
        env=deployment.environment(),
        input=PASSPHRASE + "\n",
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"zkpcp {arguments[0]} ended with {done.returncode}: {done.stderr}")
    return done.stdout

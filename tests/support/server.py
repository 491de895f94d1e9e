"""A zkpcp server in a process of its own on a loopback port, and the ``zkpcp`` command beside it, over the same data.

``RunningServer`` starts, stops, kills and starts again; everything it and the commands write lies in its folder.
By default Argon2 runs at its cheapest settings, by this module's own entry; with ``real_command`` it is ``zkpcp serve``
as people start it. Commands always run as they are, Argon2 at full cost: a second each.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from zkpcp.bootstrap import prepare_database, serve
from zkpcp.config import Settings, load_settings
from zkpcp.vault.secrets import CHEAPEST

_ROOT: Final = Path(__file__).resolve().parents[2]
_START_TIMEOUT_S: Final = 30.0
_STOP_TIMEOUT_S: Final = 15.0
_COMMAND_TIMEOUT_S: Final = 60.0
_STEP_S: Final = 0.02
_PASSED_ON: Final = ("PATH", "LANG", "LC_ALL")
"""What of this process's environment the server gets; no setting of the person who runs the tests reaches it."""


def free_port() -> int:
    """A loopback port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
    return port


@dataclass
class RunningServer:
    """One server. ``database_url`` is empty for the embedded SQLite in ``data_dir``."""

    folder: Path
    database_url: str = field(default="", repr=False)
    real_command: bool = False
    more: Mapping[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def data_dir(self) -> Path:
        """The embedded database's folder; the server makes it."""
        return self.folder / "data"

    @property
    def temp_dir(self) -> Path:
        """Where temporary files of the server and of commands would be."""
        return self.folder / "tmp"

    @property
    def logs(self) -> tuple[Path, Path]:
        """What the server said on standard output and on standard error, over all its starts."""
        return self.folder / "stdout.log", self.folder / "stderr.log"

    @property
    def origin(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The running process."""
        if self._process is None:
            raise RuntimeError("the server is not running")
        return self._process.pid

    def settings(self) -> Settings:
        """The settings it runs with, to open its database from a test."""
        return load_settings(data_dir=self.data_dir, database_url=self.database_url, port=self.port)

    def start(self, address: str = "127.0.0.1") -> None:
        """Start it and wait until it answers at this address."""
        self.temp_dir.mkdir(parents=True, exist_ok=True)
        out, err = self.logs
        command = ["-m", "zkpcp.cli.main", "serve"] if self.real_command else ["-m", "tests.support.server"]
        with out.open("ab") as out_file, err.open("ab") as err_file:
            self._process = subprocess.Popen(
                [sys.executable, *command],
                cwd=_ROOT,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=out_file,
                stderr=err_file,
            )
        self._wait_for_answer(self._process, address)

    def stop(self) -> None:
        """Ask it to end and wait for that; without effect when it is not running."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        self._process = None

    def kill(self) -> None:
        """End it in the middle of whatever it does (SIGKILL)."""
        if self._process is not None:
            os.kill(self._process.pid, signal.SIGKILL)
            self._process.wait(_STOP_TIMEOUT_S)
            self._process = None

    def command(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run ``zkpcp`` with the server's settings to its end."""
        return subprocess.run(
            [sys.executable, "-m", "zkpcp.cli.main", *arguments],
            cwd=_ROOT,
            env=self._environment(),
            input=stdin,
            capture_output=True,
            encoding="utf-8",
            timeout=_COMMAND_TIMEOUT_S,
            check=False,
        )

    def _environment(self) -> dict[str, str]:
        passed_on = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        own = {
            "HOME": str(self.folder),
            "TMPDIR": str(self.temp_dir),
            "ZKPCP_DATA_DIR": str(self.data_dir),
            "ZKPCP_PORT": str(self.port),
            # Tests send in seconds what an app sends in a day.
            "ZKPCP_MCP_CALLS_PER_MINUTE": "1000000",
        }
        if self.database_url:
            own["ZKPCP_DATABASE_URL"] = self.database_url
        return {**passed_on, **own, **self.more}

    def _wait_for_answer(self, process: subprocess.Popen[bytes], address: str) -> None:
        end = time.monotonic() + _START_TIMEOUT_S
        while not is_healthy(self.port, address):
            try:
                code = process.wait(_STEP_S)
            except subprocess.TimeoutExpired:
                if time.monotonic() < end:
                    continue
                self.kill()
                code = None
            self._process = None
            said = self.logs[1].read_text(encoding="utf-8", errors="replace")[-2000:]
            raise RuntimeError(f"the server does not answer (status {code}): {said}")


def is_healthy(port: int, address: str = "127.0.0.1") -> bool:
    """Whether a server on this port of a loopback address answers ``/healthz`` with 200."""
    request = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    try:
        with socket.create_connection((address, port), timeout=5) as connection:
            connection.sendall(request)
            return connection.recv(64).startswith(b"HTTP/1.1 200 ")
    except OSError:
        return False


def main() -> None:
    """Serve with Argon2 at its cheapest."""
    settings = load_settings()
    prepare_database(settings)
    asyncio.run(serve(settings, argon2=CHEAPEST))


if __name__ == "__main__":
    main()

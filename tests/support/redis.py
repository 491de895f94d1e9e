"""A Redis server of the tests' own, in memory only: on a loopback port, with a password, gone when the test ends."""

from __future__ import annotations

import secrets
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.programs import find_redis, missing

_START_TIMEOUT_S = 20


@dataclass(slots=True)
class Redis:
    """A server that can be stopped."""

    port: int
    password: str = field(repr=False)
    process: subprocess.Popen[bytes] = field(repr=False)

    @property
    def url(self) -> str:
        """As ``ZKPCP_LIMITS`` takes it."""
        return f"redis://:{self.password}@127.0.0.1:{self.port}/0"

    def ask(self, *words: str) -> bytes:
        """Send one command and return what comes back, whole, in the protocol's own form."""
        commands = (("AUTH", self.password), words, ("QUIT",))
        with socket.create_connection(("127.0.0.1", self.port), timeout=_START_TIMEOUT_S) as connection:
            connection.sendall(b"".join(map(_command, commands)))
            return b"".join(iter(lambda: connection.recv(65_536), b""))

    def stop(self) -> None:
        """End it; nothing is kept."""
        self.process.terminate()
        self.process.wait(_START_TIMEOUT_S)


@pytest.fixture
def redis_server(tmp_path: Path) -> Iterator[Redis]:
    """A running server with nothing in it."""
    program = find_redis()
    if program is None:
        missing("Redis's server", "redis-tools")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    password = secrets.token_hex(16)
    settings = {
        "port": port,
        "bind": "127.0.0.1",
        "requirepass": password,
        "dir": tmp_path,
        "save": "",
        "appendonly": "no",
    }
    process = subprocess.Popen(
        ["redis-server", "-"], executable=program, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, cwd=tmp_path
    )
    server = Redis(port, password, process)
    try:
        assert process.stdin is not None
        with process.stdin as stdin:
            stdin.write("".join(f'{name} "{value}"\n' for name, value in settings.items()).encode())
        _wait_for(server)
        yield server
    finally:
        server.stop()


def _wait_for(server: Redis) -> None:
    end_s = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < end_s and server.process.poll() is None:
        try:
            if b"PONG" in server.ask("PING"):
                return
        except OSError:
            time.sleep(0.02)
    pytest.fail("the Redis server does not start", pytrace=False)


def _command(words: tuple[str, ...]) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word.encode()) for word in words)

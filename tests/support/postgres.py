"""A PostgreSQL server of the tests' own: made when the first test asks, gone when the run ends.

``postgres`` is the server, one per test process; ``postgres_dsn`` is an empty database of one test's own.
The server takes connections on a Unix socket in its folder and on a loopback port. It refuses to run as root, so a
root test process hands it to another account. Its data survives a killed process but no crash of the machine (``fsync``
is off); a test that needs more starts its own with ``running_postgres(durable=True)``.
"""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest

from tests.support.programs import find_postgres, missing

_SUPERUSER = "zkpcp"
_START_TIMEOUT_S = 60
_ACCOUNTS = ("postgres", "nobody")


@dataclass(frozen=True, slots=True)
class Account:
    """Who the server runs as when the tests run as root."""

    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Postgres:
    """A running server."""

    bin: Path
    folder: Path
    port: int
    password: str = field(repr=False)
    _numbers: Iterator[int] = field(default_factory=count, repr=False)

    def dsn(self, database: str) -> str:
        """The URL of ``database`` over the loopback port, as ``ZKPCP_DATABASE_URL`` takes it."""
        return f"postgresql://{_SUPERUSER}:{self.password}@127.0.0.1:{self.port}/{database}"

    def fresh_database(self, template: str = "template1") -> str:
        """The URL of a new database, a copy of ``template``, to which nobody may be connected."""
        name = f"test_{next(self._numbers)}"
        self.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        return self.dsn(name)

    def drop_database(self, dsn: str) -> None:
        """Drop what ``fresh_database`` made, whoever is connected."""
        self.execute(f'DROP DATABASE "{dsn.rpartition("/")[2]}" WITH (FORCE)')

    def execute(self, statement: str, database: str = "postgres") -> str:
        """Run one statement as the superuser; rows come back as tab-separated lines."""
        psql = [
            "--no-psqlrc",
            "--quiet",
            "--tuples-only",
            "--no-align",
            "--field-separator=\t",
            "--set=ON_ERROR_STOP=1",
        ]
        target = [f"--host={self.folder}", f"--port={self.port}", f"--username={_SUPERUSER}", f"--dbname={database}"]
        done = _run([self.bin / "psql", *psql, *target, f"--command={statement}"])
        return done.stdout.rstrip("\n")


@contextmanager
def running_postgres(*, durable: bool = False) -> Iterator[Postgres]:
    """A server for the length of a block; with ``durable`` a commit waits for the disk."""
    bin_ = find_postgres()
    if bin_ is None:
        missing("PostgreSQL's server", "postgresql")
    account = _account()
    folder = Path(tempfile.mkdtemp(prefix="zkpcp-pg-"))
    try:
        _give(folder, account)
        server = Postgres(bin_, folder, _free_port(), secrets.token_hex(16))
        _make_cluster(server, account)
        _start(server, account, durable=durable)
        try:
            yield server
        finally:
            # Immediate would do for what is thrown away; fast also shows a server that cannot end.
            _run([bin_ / "pg_ctl", "stop", f"--pgdata={folder / 'data'}", "--mode=fast", "--wait"], account)
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """The test process's PostgreSQL server."""
    with running_postgres() as server:
        yield server


@pytest.fixture
def postgres_dsn(postgres: Postgres) -> Iterator[str]:
    """The URL of an empty database that belongs to this test."""
    dsn = postgres.fresh_database()
    yield dsn
    postgres.drop_database(dsn)


@pytest.fixture
def fresh_postgres_dsn(postgres: Postgres) -> Iterator[Callable[[], str]]:
    """A function that gives one empty database after another, for a test that needs several."""
    made: list[str] = []

    def fresh() -> str:
        made.append(postgres.fresh_database())
        return made[-1]

    yield fresh
    for dsn in made:
        postgres.drop_database(dsn)


def _account() -> Account | None:
    if os.geteuid() != 0:
        return None
    for name in _ACCOUNTS:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_uid, entry.pw_gid)
    pytest.fail("PostgreSQL refuses to run as root, and there is no account postgres or nobody", pytrace=False)


def _give(path: Path, account: Account | None) -> None:
    if account is not None:
        os.chown(path, account.uid, account.gid)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
    return port


def _make_cluster(server: Postgres, account: Account | None) -> None:
    password_file = server.folder / "password"
    password_file.write_text(server.password, encoding="ascii")
    _give(password_file, account)
    who = [f"--username={_SUPERUSER}", f"--pwfile={password_file}", "--auth-local=trust", "--auth-host=password"]
    what = ["--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions"]
    _run([server.bin / "initdb", f"--pgdata={server.folder / 'data'}", *who, *what], account)
    password_file.unlink()


def _start(server: Postgres, account: Account | None, *, durable: bool) -> None:
    settings = {
        "listen_addresses": "127.0.0.1",
        "port": str(server.port),
        "unix_socket_directories": str(server.folder),
        "max_connections": "200",
        "fsync": "on" if durable else "off",
        "full_page_writes": "on" if durable else "off",
        "synchronous_commit": "on",
    }
    options = " ".join(f"-c {name}={value}" for name, value in settings.items())
    log = server.folder / "log"
    where = [f"--pgdata={server.folder / 'data'}", f"--log={log}"]
    how = [f"--options={options}", "--wait", f"--timeout={_START_TIMEOUT_S}"]
    try:
        _run([server.bin / "pg_ctl", "start", *where, *how], account)
    except RuntimeError as error:
        if log.exists():
            error.add_note(log.read_text(encoding="utf-8", errors="replace")[-2000:])
        raise


def _run(command: list[str | Path], account: Account | None = None) -> subprocess.CompletedProcess[str]:
    """Run to the end; a failure carries what the program said, which is about an empty cluster of our own."""
    # A file and no pipe: the server that pg_ctl leaves behind inherits the handle, and a pipe would never close.
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as errors,
        tempfile.TemporaryFile("w+", encoding="utf-8") as out,
    ):
        done = subprocess.run(
            command,
            user=account.uid if account else None,
            group=account.gid if account else None,
            extra_groups=[] if account else None,
            cwd="/",
            env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=errors,
            check=False,
        )
        out.seek(0)
        errors.seek(0)
        if done.returncode != 0:
            message = f"{Path(command[0]).name} failed with {done.returncode}: {errors.read()}{out.read()}"
            raise RuntimeError(message)
        return subprocess.CompletedProcess(done.args, done.returncode, out.read(), errors.read())

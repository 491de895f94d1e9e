"""How one SQLite file serves as the store.

WAL with ``synchronous=FULL``: what was acknowledged survives a crash of machine or process. One writing connection
behind a fair lock (``BEGIN IMMEDIATE``; another process waits at ``busy_timeout``), and a few ``query_only``
connections whose transactions read a snapshot. ``secure_delete`` overwrites what is deleted; after a commit that
removed key material the write-ahead log is emptied too, or, while a reader still needs it, after a later commit. It
does NOT promise that the file system, a snapshot or a backup forgets.

Each call into aiosqlite is a trip to its thread, so the first statement of a transaction brings its ``BEGIN`` along.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar, Final

import aiosqlite
from typing_extensions import override

from zkpcp.errors import ConflictError, CorruptError, NotFoundError, UnavailableError, ZkpcpError
from zkpcp.storage.driver import Gate, Row, Value
from zkpcp.storage.statements import Statement
from zkpcp.storage.transaction import SqlTransaction

READERS: Final = 4
BUSY_TIMEOUT_MS: Final = 5_000
# Emptying the log waits for readers while it holds writers up: a moment at first, not at all when it tries again.
_EMPTY_TIMEOUT_MS: Final = 100


class _Connection(sqlite3.Connection):
    """A connection that begins its transaction with the first statement, in the same trip to the thread."""

    begin: ClassVar[str]
    settings: ClassVar[tuple[str, ...]] = (
        f"pragma busy_timeout = {BUSY_TIMEOUT_MS}",
        "pragma synchronous = full",
        "pragma secure_delete = on",
        "pragma foreign_keys = on",
        "pragma temp_store = memory",
    )

    def __init__(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401 - as sqlite3.connect passes them on
        super().__init__(*arguments, **options)
        for setting in self.settings:
            super().execute(setting).fetchall()

    @override
    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        """Run one statement, inside a transaction unless it is a pragma."""
        if not self.in_transaction and not sql.startswith("pragma"):
            super().execute(self.begin)
        return super().execute(sql, parameters)


class _Writer(_Connection):
    begin = "begin immediate"
    settings: ClassVar[tuple[str, ...]] = (*_Connection.settings, "pragma journal_mode = wal")


class _Reader(_Connection):
    begin = "begin"
    settings: ClassVar[tuple[str, ...]] = (
        *_Connection.settings,
        "pragma query_only = on",
        # KiB. Listings and searches read every page of a context: with the default 2 MB they take half as long again.
        "pragma cache_size = -8000",
    )


class _SqliteDriver:
    """Named statements on one connection, for one transaction."""

    __slots__ = ("_connection", "gate")

    def __init__(self, connection: aiosqlite.Connection, *, writable: bool) -> None:
        self._connection = connection
        self.gate = Gate(writable=writable)

    async def fetch_one(self, statement: Statement, *arguments: Value) -> Row | None:
        rows = await self.fetch_all(statement, *arguments)
        return rows[0] if rows else None

    async def fetch_all(self, statement: Statement, *arguments: Value) -> Sequence[Row]:
        self.gate.admit(statement)
        try:
            rows = list(await self._connection.execute_fetchall(statement.sqlite, _bind(arguments)))
            if not rows and statement.sqlite.startswith("select"):
                # A prepared statement keeps its arguments until it is run again: what was asked for and is not here
                # may be any text of a client's, which must not stay in memory.
                await self._connection.execute_fetchall(statement.sqlite, _bind(_blank(arguments)))
        except sqlite3.Error as error:
            self.gate.failed = True
            raise _translated(error) from None
        return rows

    async def execute(self, statement: Statement, *arguments: Value) -> int:
        self.gate.admit(statement)
        try:
            cursor = await self._connection.execute(statement.sqlite, _bind(arguments))
        except sqlite3.Error as error:
            self.gate.failed = True
            raise _translated(error) from None
        return cursor.rowcount

    async def execute_many(self, statement: Statement, rows: Sequence[Sequence[Value]]) -> None:
        self.gate.admit(statement)
        try:
            await self._connection.executemany(statement.sqlite, [_bind(row) for row in rows])
        except sqlite3.Error as error:
            self.gate.failed = True
            raise _translated(error) from None


class SqliteStore:
    """The store in one SQLite file. Made by ``open_sqlite``."""

    def __init__(self, path: Path, writer: aiosqlite.Connection) -> None:
        self._path = path
        self._writer = writer
        self._writing = asyncio.Lock()
        self._free = asyncio.Semaphore(READERS)
        self._readers: list[aiosqlite.Connection] = []
        self._must_empty_log = False

    @asynccontextmanager
    async def read(self) -> AsyncIterator[SqlTransaction]:
        """A snapshot, taken with the first statement."""
        async with self._free:
            reader = self._readers.pop() if self._readers else await _connect(self._path, _Reader)
            driver = _SqliteDriver(reader, writable=False)
            try:
                yield SqlTransaction(driver)
            finally:
                driver.gate.open = False
                # Back into the pool first: should this task be cancelled here, the roll-back is queued all the same
                # and the connection serves the next reader after it.
                self._readers.append(reader)
                await _roll_back(reader)

    @asynccontextmanager
    async def write(self) -> AsyncIterator[SqlTransaction]:
        """A transaction that has the file to itself from its first statement on; writers take turns."""
        async with self._writing:
            driver = _SqliteDriver(self._writer, writable=True)
            try:
                tx = SqlTransaction(driver)
                yield tx
                await tx.heads.leave_rest()
                driver.gate.require_intact()
                await self._commit()
            except BaseException:
                await _roll_back(self._writer)
                raise
            finally:
                driver.gate.open = False
            if driver.gate.erased:
                await self._empty_log(_EMPTY_TIMEOUT_MS)
            elif self._must_empty_log:
                await self._empty_log(0)

    async def checkpoint(self) -> bool:
        """Move the write-ahead log into the file and empty it; False while a reader still needs it."""
        async with self._writing:
            await self._empty_log(_EMPTY_TIMEOUT_MS)
        return not self._must_empty_log

    async def close(self) -> None:
        """Empty the log and close every connection. No transaction may be open."""
        await self.checkpoint()
        while self._readers:
            await self._readers.pop().close()
        await self._writer.close()

    async def _commit(self) -> None:
        try:
            await self._writer.commit()
        except sqlite3.Error as error:
            raise _translated(error) from None

    async def _empty_log(self, wait_ms: int) -> None:
        """Try to empty the log. Never an error: what was committed stays committed, and the next commit tries again."""
        self._must_empty_log = True
        try:
            await self._writer.execute_fetchall(f"pragma busy_timeout = {wait_ms}")
            rows = list(await self._writer.execute_fetchall("pragma wal_checkpoint(truncate)"))
            self._must_empty_log = rows[0][0] != 0
        except sqlite3.Error:
            return
        finally:
            await self._writer.execute_fetchall(f"pragma busy_timeout = {BUSY_TIMEOUT_MS}")


async def open_sqlite(path: Path) -> SqliteStore:
    """Open the file (mode 0600, in a directory made with mode 0700). Raises UnavailableError."""
    # aiosqlite logs statements with their arguments at DEBUG.
    logging.getLogger("aiosqlite").setLevel(logging.WARNING)
    prepare_file(path)
    return SqliteStore(path, await _connect(path, _Writer))


def prepare_file(path: Path) -> None:
    """Make the file if it is missing and close it to other users; SQLite gives its log the same mode."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.fchmod(descriptor, 0o600)
        finally:
            os.close(descriptor)
    except OSError:
        raise UnavailableError("the database file cannot be opened for writing") from None


async def _connect(path: Path, kind: type[_Connection]) -> aiosqlite.Connection:
    connection = aiosqlite.connect(path, factory=kind, isolation_level=None)
    try:
        return await connection
    except sqlite3.Error as error:
        # The library tells its thread to stop and does not wait for it: it would report to a loop that may be closed.
        await asyncio.to_thread(connection._thread.join)  # noqa: SLF001 - there is no public way to wait
        raise _translated(error) from None


async def _roll_back(connection: aiosqlite.Connection) -> None:
    try:
        await connection.rollback()
    except sqlite3.Error as error:
        raise _translated(error) from None


def _blank(arguments: tuple[Value, ...]) -> tuple[Value, ...]:
    return tuple("" if isinstance(value, str) else [] if isinstance(value, list) else value for value in arguments)


def _bind(arguments: Sequence[Value]) -> tuple[Value, ...]:
    return tuple(json.dumps(value) if isinstance(value, list) else value for value in arguments)


def _translated(error: sqlite3.Error) -> ZkpcpError:
    """Our error for SQLite's; only the symbolic name of the code goes along, never its text."""
    name: str = getattr(error, "sqlite_errorname", "SQLITE_ERROR")
    if name in ("SQLITE_CONSTRAINT_UNIQUE", "SQLITE_CONSTRAINT_PRIMARYKEY"):
        return ConflictError("the object exists already")
    if name == "SQLITE_CONSTRAINT_FOREIGNKEY":
        return NotFoundError("there is no such context")
    if name.startswith("SQLITE_CORRUPT") or name == "SQLITE_NOTADB":
        return CorruptError(f"the database file is damaged ({name})")
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return UnavailableError(f"the database is busy with another process ({name})")
    return UnavailableError(f"the database refused a statement ({name})")

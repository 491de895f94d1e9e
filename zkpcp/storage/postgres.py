"""How a PostgreSQL database serves as the store.

For several server processes and hosts. Reading is REPEATABLE READ, READ ONLY: one snapshot. Writing is READ COMMITTED
with row locks where the queries say ``for update``, so a waiter sees what it waited for; the audit head is the one row
every writer of a context ends at, and is asked for last.

asyncpg logs no statement. The server must not either: with ``log_statement`` or ``log_min_duration_statement`` on it
would write parameters unless ``log_parameter_max_length`` is 0, which is set here where the role may. It does NOT
promise that deleted rows are gone from the disk before the next vacuum, nor from the server's own write-ahead log.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

import asyncpg
from asyncpg import exceptions
from asyncpg.transaction import Transaction

from zkpcp.errors import ConflictError, NotFoundError, UnavailableError, ZkpcpError
from zkpcp.storage.driver import Gate, Row, Value
from zkpcp.storage.statements import Statement
from zkpcp.storage.transaction import SqlTransaction

CONNECTIONS: Final = 10
CONNECT_TIMEOUT_S: Final = 5.0
ACQUIRE_TIMEOUT_S: Final = 10.0
STATEMENT_TIMEOUT_S: Final = 30.0

_SETTINGS: Final = {
    "application_name": "zkpcp",
    # A process that hangs must not hold a context's audit head for ever.
    "idle_in_transaction_session_timeout": "60s",
    "lock_timeout": "10s",
    "log_parameter_max_length_on_error": "0",
}
# InternalClientError: what asyncpg raises when the connection is lost just before a statement.
_FAILURES: Final = (exceptions.PostgresError, exceptions.InterfaceError, exceptions.InternalClientError, OSError)


class _PostgresDriver:
    """Named statements on one connection, for one transaction."""

    __slots__ = ("_connection", "gate")

    def __init__(self, connection: asyncpg.Connection, *, writable: bool) -> None:
        self._connection = connection
        self.gate = Gate(writable=writable)

    async def fetch_one(self, statement: Statement, *arguments: Value) -> Row | None:
        self.gate.admit(statement)
        try:
            row: Row | None = await self._connection.fetchrow(statement.postgres, *arguments)
        except _FAILURES as error:
            self.gate.failed = True
            raise _translated(error) from None
        return row

    async def fetch_all(self, statement: Statement, *arguments: Value) -> Sequence[Row]:
        self.gate.admit(statement)
        try:
            rows: Sequence[Row] = await self._connection.fetch(statement.postgres, *arguments)
        except _FAILURES as error:
            self.gate.failed = True
            raise _translated(error) from None
        return rows

    async def execute(self, statement: Statement, *arguments: Value) -> int:
        self.gate.admit(statement)
        try:
            status: str = await self._connection.execute(statement.postgres, *arguments)
        except _FAILURES as error:
            self.gate.failed = True
            raise _translated(error) from None
        return int(status.rpartition(" ")[2])

    async def execute_many(self, statement: Statement, rows: Sequence[Sequence[Value]]) -> None:
        self.gate.admit(statement)
        try:
            await self._connection.executemany(statement.postgres, rows)
        except _FAILURES as error:
            self.gate.failed = True
            raise _translated(error) from None


class PostgresStore:
    """The store in a PostgreSQL database. Made by ``open_postgres``."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    @asynccontextmanager
    async def read(self) -> AsyncIterator[SqlTransaction]:
        """A snapshot, taken with the first statement."""
        async with self._transaction(writable=False) as driver:
            yield SqlTransaction(driver)

    @asynccontextmanager
    async def write(self) -> AsyncIterator[SqlTransaction]:
        """A transaction that locks rows as its methods say."""
        async with self._transaction(writable=True) as driver:
            tx = SqlTransaction(driver)
            yield tx
            await tx.heads.leave_rest()

    async def close(self) -> None:
        """Close every connection, waiting for open transactions."""
        await self._pool.close()

    @asynccontextmanager
    async def _transaction(self, *, writable: bool) -> AsyncIterator[_PostgresDriver]:
        connection = await self._acquire()
        try:
            transaction = connection.transaction(
                isolation="read_committed" if writable else "repeatable_read", readonly=not writable
            )
            await _translating(transaction.start())
            driver = _PostgresDriver(connection, writable=writable)
            try:
                yield driver
                driver.gate.require_intact()
            except BaseException:
                driver.gate.open = False
                await _roll_back(connection, transaction)
                raise
            driver.gate.open = False
            await _translating(transaction.commit())
        finally:
            await self._pool.release(connection)

    async def _acquire(self) -> asyncpg.Connection:
        try:
            connection: asyncpg.Connection = await self._pool.acquire(timeout=ACQUIRE_TIMEOUT_S)
        except _FAILURES as error:
            raise _translated(error) from None
        return connection


async def open_postgres(dsn: str) -> PostgresStore:
    """Connect to ``postgresql://…``. Raises UnavailableError."""
    try:
        pool = await asyncpg.create_pool(
            dsn,
            min_size=1,
            max_size=CONNECTIONS,
            timeout=CONNECT_TIMEOUT_S,
            command_timeout=STATEMENT_TIMEOUT_S,
            server_settings=_SETTINGS,
            init=_set_up,
            reset=_keep,
        )
    except _FAILURES as error:
        raise _translated(error) from None
    except ValueError:
        raise UnavailableError("the database URL is not one that PostgreSQL understands") from None
    return PostgresStore(pool)


async def _set_up(connection: asyncpg.Connection) -> None:
    try:
        await connection.execute("set log_parameter_max_length = 0")
    except exceptions.InsufficientPrivilegeError:
        # Only a superuser or a role it was granted to may: then it is the operator's setting, as said above.
        return


async def _keep(connection: asyncpg.Connection) -> None:
    """Spare the round trip that resets a session: nothing here changes one, and every transaction has ended."""


async def _roll_back(connection: asyncpg.Connection, transaction: Transaction) -> None:
    """Roll back without hiding why; a connection that cannot is dropped, and the server rolls back for it."""
    try:
        await transaction.rollback()
    except _FAILURES:
        with suppress(exceptions.InterfaceError):  # the pool has taken back a connection that it saw die
            connection.terminate()


async def _translating(step: Awaitable[None]) -> None:
    try:
        await step
    except _FAILURES as error:
        raise _translated(error) from None


def _translated(error: Exception) -> ZkpcpError:
    """Our error for the driver's; only the SQLSTATE goes along, never its text, which may hold values."""
    state: str | None = getattr(error, "sqlstate", None)
    match error:
        case exceptions.UniqueViolationError():
            return ConflictError("the object exists already")
        case exceptions.ForeignKeyViolationError():
            return NotFoundError("there is no such context")
        case (
            exceptions.SerializationError()
            | exceptions.DeadlockDetectedError()
            | exceptions.LockNotAvailableError()
            | TimeoutError()
        ):
            return UnavailableError("the database is busy; the same request can be sent again")
        case (
            exceptions.PostgresConnectionError()
            | exceptions.OperatorInterventionError()
            | exceptions.InterfaceError()
            | exceptions.InternalClientError()
            | OSError()
        ):
            return UnavailableError("the database cannot be reached")
        case _:
            return UnavailableError(f"the database refused a statement (SQLSTATE {state})")


async def read_revision(dsn: str, query: str) -> str | None:
    """The answer to the revision query, None when its table is missing. Raises UnavailableError."""
    try:
        connection = await asyncpg.connect(dsn, timeout=CONNECT_TIMEOUT_S)
        try:
            revision: str | None = await connection.fetchval(query)
        finally:
            await connection.close()
    except exceptions.UndefinedTableError:
        return None
    except _FAILURES as error:
        raise _translated(error) from None
    except ValueError:
        raise UnavailableError("the database URL is not one that PostgreSQL understands") from None
    return revision

"""How a database gets the current schema.

Runs Alembic's scripts in the calling process, in one transaction that other migrating processes wait for: an advisory
lock on PostgreSQL, ``BEGIN EXCLUSIVE`` on SQLite. Whoever waited finds the work done. Only this module and
``migrations/`` load Alembic and SQLAlchemy.
"""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Final

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from zkpcp.errors import UnavailableError
from zkpcp.storage.sqlite import prepare_file
from zkpcp.storage.url import PostgresUrl, SqliteUrl, parse_url

LOCK_TIMEOUT_S: Final = 60
# Any number will do, as long as nothing else in the database takes the same advisory lock.
_ADVISORY_LOCK: Final = 0x7A6B706370
_WAL_ATTEMPTS: Final = 20


def upgrade(url: str) -> None:
    """Upgrade to the newest revision. Call it outside a running event loop. Raises UnavailableError."""
    try:
        match parse_url(url):
            case SqliteUrl(path):
                _migrate_sqlite(path)
            case PostgresUrl(dsn):
                asyncio.run(_migrate_postgres(dsn))
    except CommandError:
        raise UnavailableError("the database was made by a newer version") from None
    except (sa.exc.SQLAlchemyError, sqlite3.Error, OSError, ValueError):
        # The original may quote the DSN with its password.
        raise UnavailableError("the database cannot be reached or refused the migration") from None


def script_config() -> Config:
    """Alembic's configuration, without an ini file: the scripts lie beside this module."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    return config


def _upgrade(connection: sa.Connection) -> None:
    config = script_config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _migrate_sqlite(path: Path) -> None:
    prepare_file(path)
    _enter_wal_mode(path)

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(path, timeout=LOCK_TIMEOUT_S, isolation_level=None)
        connection.execute("pragma secure_delete = on")
        return connection

    engine = sa.create_engine("sqlite://", creator=connect, poolclass=NullPool)

    # The driver would begin too late, at the first insert, and leave DDL outside the transaction.
    @sa.event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        connection.exec_driver_sql("begin exclusive")

    with engine.begin() as connection:
        _upgrade(connection)


def _enter_wal_mode(path: Path) -> None:
    """Switch the file to WAL, which lasts. Raises sqlite3.OperationalError when others keep it busy."""
    connection = sqlite3.connect(path, timeout=LOCK_TIMEOUT_S, isolation_level=None)
    try:
        for _ in range(_WAL_ATTEMPTS - 1):
            try:
                connection.execute("pragma journal_mode = wal")
            except sqlite3.OperationalError:
                # The switch does not wait for a process that does the same, as an ordinary transaction does.
                connection.execute("begin exclusive")
                connection.execute("rollback")
            else:
                return
        connection.execute("pragma journal_mode = wal")
    finally:
        connection.close()


async def _migrate_postgres(dsn: str) -> None:
    engine = create_async_engine(dsn.replace("postgresql://", "postgresql+asyncpg://", 1), poolclass=NullPool)
    async with engine.begin() as connection:
        await connection.execute(sa.text("select pg_advisory_xact_lock(:key)"), {"key": _ADVISORY_LOCK})
        await connection.run_sync(_upgrade)
    await engine.dispose()

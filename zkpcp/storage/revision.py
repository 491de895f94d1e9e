"""Whether the schema of a database is the one that this code expects.

Reads the one row of Alembic's version table with the engine's own client, because the server never loads Alembic or
SQLAlchemy: they would cost a third of its memory. A test pins ``HEAD`` to the migration scripts.
"""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Final

from zkpcp.errors import UnavailableError
from zkpcp.storage.url import PostgresUrl, SqliteUrl, parse_url

HEAD: Final = "0009"

_QUERY: Final = "select version_num from alembic_version"


def pending(url: str) -> bool:
    """Whether ``migrate`` has work to do. Call it outside a running event loop. Raises UnavailableError."""
    match parse_url(url):
        case SqliteUrl(path):
            return sqlite_revision(path) != HEAD
        case PostgresUrl(dsn):
            return asyncio.run(postgres_revision(dsn)) != HEAD


async def require_current(url: SqliteUrl | PostgresUrl) -> None:
    """Raises UnavailableError unless the schema is the expected one."""
    revision = sqlite_revision(url.path) if isinstance(url, SqliteUrl) else await postgres_revision(url.dsn)
    if revision != HEAD:
        raise UnavailableError("the database schema does not fit this version; the migrations have to run first")


def sqlite_revision(path: Path) -> str | None:
    """The revision of the file's schema, None for a missing or empty file."""
    try:
        if not path.exists():
            return None
        connection = sqlite3.connect(path)
        try:
            row: tuple[str] | None = connection.execute(_QUERY).fetchone()
        finally:
            connection.close()
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorname == "SQLITE_ERROR":  # no such table: nothing was migrated here yet
            return None
        raise UnavailableError(f"the database file cannot be read ({error.sqlite_errorname})") from None
    except OSError:
        raise UnavailableError("the database file cannot be read") from None
    return None if row is None else row[0]


async def postgres_revision(dsn: str) -> str | None:
    """The revision of the database's schema, None for an empty database."""
    from zkpcp.storage.postgres import read_revision  # noqa: PLC0415 - asyncpg is loaded for PostgreSQL only

    return await read_revision(dsn, _QUERY)

"""Ciphertext at rest: one ``Store`` over SQLite or PostgreSQL.

Nothing here can reach a key: this package imports neither vault nor crypto, not even through others. Engines are
imported when they are asked for, so that a process loads the client of one.
"""

from __future__ import annotations

from zkpcp.ports import Store
from zkpcp.storage.revision import pending, require_current
from zkpcp.storage.url import PostgresUrl, SqliteUrl, parse_url

__all__ = ["migrate", "open_store", "pending"]


async def open_store(url: str) -> Store:
    """Open the database that ``url`` names. Raises UnavailableError when it is away, not migrated, or no such engine.

    ``url`` is ``sqlite:///absolute/path.db`` or ``postgresql://…``. There is no fall-back to another engine.
    """
    target = parse_url(url)
    await require_current(target)
    match target:
        case SqliteUrl(path):
            from zkpcp.storage.sqlite import open_sqlite  # noqa: PLC0415 - see above

            return await open_sqlite(path)
        case PostgresUrl(dsn):
            from zkpcp.storage.postgres import open_postgres  # noqa: PLC0415 - see above

            return await open_postgres(dsn)


def migrate(url: str) -> None:
    """Bring the schema up to date, in this process; see ``storage.upgrade``."""
    from zkpcp.storage.upgrade import upgrade  # noqa: PLC0415 - Alembic and SQLAlchemy stay out of the server

    upgrade(url)

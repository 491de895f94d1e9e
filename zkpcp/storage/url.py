"""Which database a URL names.

``sqlite:///absolute/path.db`` or ``postgresql://…``; anything else is an error and never another engine.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from zkpcp.errors import UnavailableError

_SQLITE: Final = "sqlite://"
_POSTGRES: Final = "postgresql://"


@dataclass(frozen=True, slots=True)
class SqliteUrl:
    """An SQLite file by its absolute path."""

    path: Path


@dataclass(frozen=True, slots=True)
class PostgresUrl:
    """A PostgreSQL database. The DSN may hold a password, so it is not printed."""

    dsn: str = field(repr=False)


def parse_url(url: str) -> SqliteUrl | PostgresUrl:
    """The database a URL names. Raises UnavailableError without repeating the URL."""
    if url.startswith(_POSTGRES):
        return PostgresUrl(url)
    if url.startswith(_SQLITE):
        path = Path(unquote(url.removeprefix(_SQLITE)))
        # One slash more than the scheme makes the path absolute; a query string would be silently part of the name.
        if path.is_absolute() and path.name and "?" not in url and "\0" not in str(path):
            return SqliteUrl(path)
    raise UnavailableError("the database URL has to be sqlite:///absolute/path.db or postgresql://host/name")

"""Earlier versions of pages, when a page was away, and from when on nothing of a slot is missing.

Every primary key is led by context_id, as in the first schema.
"""

from __future__ import annotations

from typing import TypeVar

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

T = TypeVar("T")

_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_BYTES = sa.LargeBinary()
_NUMBER = sa.BigInteger()


def upgrade() -> None:
    """Add the tables."""
    op.create_table(
        "page_versions",
        _column("context_id", _TEXT),
        _column("page_id", _TEXT),
        _column("version", _NUMBER),
        _column("slot", _TEXT),
        _column("generation", _NUMBER),
        _column("review_state", _TEXT),
        _column("updated_ms", _NUMBER),
        _column("until_ms", _NUMBER),
        sa.Column("expires_ms", _NUMBER, nullable=True),
        # Listings read the head, searches the terms: they stand before the page itself, which SQLite then skips.
        _column("head", _BYTES),
        _column("terms", _BYTES),
        _column("sealed", _BYTES),
        sa.PrimaryKeyConstraint("context_id", "page_id", "version"),
        _of_context(),
    )
    op.create_index("page_versions_by_end", "page_versions", ["context_id", "until_ms"])
    some = sa.text("expires_ms is not null")
    op.create_index(
        "page_versions_by_expiry",
        "page_versions",
        ["context_id", "expires_ms"],
        sqlite_where=some,
        postgresql_where=some,
    )
    op.create_table(
        "page_absences",
        _column("context_id", _TEXT),
        _column("page_id", _TEXT),
        _column("from_ms", _NUMBER),
        _column("until_ms", _NUMBER),
        sa.PrimaryKeyConstraint("context_id", "page_id", "from_ms"),
        _of_context(),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "history_marks",
        _column("context_id", _TEXT),
        _column("slot", _TEXT),
        _column("through_ms", _NUMBER),
        sa.PrimaryKeyConstraint("context_id", "slot"),
        _of_context(),
        sqlite_with_rowid=False,
    )
    if op.get_context().dialect.name == "postgresql":
        # Ciphertext does not shrink: spare every write the attempt.
        for column in ("head", "terms", "sealed"):
            op.execute(f"alter table page_versions alter column {column} set storage external")


def _column(name: str, kind: sa.types.TypeEngine[T]) -> sa.Column[T]:
    return sa.Column(name, kind, nullable=False)


def _of_context() -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(["context_id"], ["contexts.context_id"], ondelete="CASCADE")

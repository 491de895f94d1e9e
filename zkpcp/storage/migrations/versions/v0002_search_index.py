"""Search indexes: their sealed parts, where in them each page is, and a quick count of each slot's pages.

Pages that are there already get no place: searches scan their slot until its owner has the index made.
"""

from __future__ import annotations

from typing import TypeAlias

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")

_Column: TypeAlias = sa.Column[str] | sa.Column[bytes] | sa.Column[int]


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, _TEXT, nullable=False)


def _number(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=False)


def _create(table: str, key: tuple[str, ...], *columns: _Column, compact: bool = False) -> None:
    """A table of a context. ``compact``: rows are small, so SQLite keeps them inside the key's tree."""
    op.create_table(
        table,
        _text("context_id"),
        *columns,
        sa.PrimaryKeyConstraint("context_id", *key),
        sa.ForeignKeyConstraint(["context_id"], ["contexts.context_id"], ondelete="CASCADE"),
        sqlite_with_rowid=not compact,
    )


def upgrade() -> None:
    """Create what the index needs."""
    sealed = sa.Column("sealed", sa.LargeBinary(), nullable=False)
    place = (_text("page_id"), _text("slot"), _number("segment"), _number("number"))
    _create("index_slots", ("slot",), _text("slot"), _number("generation"), _number("segments"), compact=True)
    _create("index_parts", ("slot", "part"), _text("slot"), _text("part"), _number("stamp"), sealed)
    _create("index_places", ("page_id",), *place, compact=True)
    op.create_index("index_places_by_slot", "index_places", ["context_id", "slot"])
    op.create_index("pages_by_slot", "pages", ["context_id", "slot", "review_state", "expires_ms", "updated_ms"])

"""Integrity heads of slots, and what a sweep without a key leaves to be taken off them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_BYTES = sa.LargeBinary()
_NUMBER = sa.BigInteger()


def upgrade() -> None:
    """Add both tables, empty: what a context has is counted from when its owner begins it."""
    op.create_table(
        "slot_heads",
        sa.Column("context_id", _TEXT, nullable=False),
        sa.Column("slot", _TEXT, nullable=False),
        sa.Column("generation", _NUMBER, nullable=False),
        sa.Column("sealed", _BYTES, nullable=False),
        sa.PrimaryKeyConstraint("context_id", "slot", "generation"),
        sa.ForeignKeyConstraint(["context_id"], ["contexts.context_id"], ondelete="CASCADE"),
    )
    op.create_table(
        "head_remnants",
        sa.Column("context_id", _TEXT, nullable=False),
        sa.Column("slot", _TEXT, nullable=False),
        sa.Column("generation", _NUMBER, nullable=False),
        sa.Column("kind", _TEXT, nullable=False),
        sa.Column("object_id", _TEXT, nullable=False),
        sa.Column("version", _NUMBER, nullable=False),
        sa.Column("expires_ms", _NUMBER),
        sa.Column("until_ms", _NUMBER),
        sa.Column("digest", _BYTES, nullable=False),
        sa.PrimaryKeyConstraint("context_id", "slot", "generation", "kind", "object_id", "version"),
        sa.ForeignKeyConstraint(["context_id"], ["contexts.context_id"], ondelete="CASCADE"),
    )

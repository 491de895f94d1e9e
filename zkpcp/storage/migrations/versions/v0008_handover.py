"""Handing control over: how one owner's key follows another, and offers that are under way."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_BYTES = sa.LargeBinary()
_NUMBER = sa.BigInteger()


def upgrade() -> None:
    """Add column and table; no context has had another owner yet."""
    nothing = sa.text("''") if op.get_bind().dialect.name == "postgresql" else sa.text("x''")
    op.add_column("rosters", sa.Column("succession", _BYTES, nullable=False, server_default=nothing))
    op.create_table(
        "handovers",
        sa.Column("context_id", _TEXT, nullable=False),
        sa.Column("principal", _TEXT, nullable=False),
        sa.Column("epoch", _NUMBER, nullable=False),
        sa.Column("created_ms", _NUMBER, nullable=False),
        sa.Column("expires_ms", _NUMBER, nullable=False),
        sa.Column("offered", _BYTES, nullable=False),
        sa.Column("sealed", _BYTES, nullable=False),
        sa.Column("signature", _BYTES, nullable=False),
        sa.PrimaryKeyConstraint("context_id"),
        sa.ForeignKeyConstraint(["context_id"], ["contexts.context_id"], ondelete="CASCADE"),
    )

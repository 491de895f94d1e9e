"""Invites: how somebody else comes into a context (PCP §9.1)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_BYTES = sa.LargeBinary()
_NUMBER = sa.BigInteger()


def upgrade() -> None:
    """Add the table; nobody is invited yet."""
    op.create_table(
        "invites",
        sa.Column("context_id", _TEXT, nullable=False),
        sa.Column("lookup_id", _BYTES, nullable=False),
        sa.Column("principal", _TEXT, nullable=False),
        sa.Column("created_ms", _NUMBER, nullable=False),
        sa.Column("expires_ms", _NUMBER, nullable=False),
        sa.Column("offer", _BYTES, nullable=False),
        sa.Column("kept", _BYTES, nullable=False),
        sa.Column("joined_ms", _NUMBER, nullable=True),
        sa.Column("kem_public", _BYTES, nullable=True),
        sa.Column("sig_public", _BYTES, nullable=True),
        sa.Column("mac", _BYTES, nullable=True),
        sa.PrimaryKeyConstraint("context_id", "lookup_id"),
        sa.ForeignKeyConstraint(["context_id"], ["contexts.context_id"], ondelete="CASCADE"),
    )

"""Changing all keys: links to the earlier ones, and by which roster the newest entry of the access log was written."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_BYTES = sa.LargeBinary()
_NUMBER = sa.BigInteger()


def upgrade() -> None:
    """Add table and column; no keys are being changed yet, and the next change of a roster will be noted."""
    op.create_table(
        "key_links",
        sa.Column("context_id", _TEXT, nullable=False),
        sa.Column("slot", _TEXT, nullable=False),
        sa.Column("generation", _NUMBER, nullable=False),
        sa.Column("name", _TEXT, nullable=False),
        sa.Column("sealed", _BYTES, nullable=False),
        sa.PrimaryKeyConstraint("context_id", "slot", "generation", "name"),
        sa.ForeignKeyConstraint(["context_id"], ["contexts.context_id"], ondelete="CASCADE"),
    )
    op.add_column("audit_heads", sa.Column("roster_version", _NUMBER, nullable=False, server_default="0"))

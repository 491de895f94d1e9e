"""Partitions: their sealed names, the features that a roster brings, and the partitions that an audit entry touched."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_NUMBER = sa.BigInteger()


def upgrade() -> None:
    """Add the table and the two columns; no context has a second partition yet."""
    op.create_table(
        "partitions",
        sa.Column("context_id", _TEXT, nullable=False),
        sa.Column("partition_id", _TEXT, nullable=False),
        sa.Column("generation", _NUMBER, nullable=False),
        sa.Column("version", _NUMBER, nullable=False),
        sa.Column("updated_ms", _NUMBER, nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("context_id", "partition_id"),
        sa.ForeignKeyConstraint(["context_id"], ["contexts.context_id"], ondelete="CASCADE"),
    )
    # JSON arrays of strings, as every list in this schema.
    op.add_column("rosters", sa.Column("features", _TEXT, nullable=False, server_default="[]"))
    op.add_column("audit_entries", sa.Column("partitions", _TEXT, nullable=False, server_default="[]"))

"""Review: what waits for a reviewer, and what was rejected (PCP §5.4)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_BYTES = sa.LargeBinary()
_NUMBER = sa.BigInteger()


def upgrade() -> None:
    """Add the table; nothing waits yet."""
    op.create_table(
        "proposals",
        sa.Column("context_id", _TEXT, nullable=False),
        sa.Column("proposal_id", _TEXT, nullable=False),
        sa.Column("slot", _TEXT, nullable=False),
        sa.Column("generation", _NUMBER, nullable=False),
        sa.Column("grant_id", _TEXT, nullable=True),
        sa.Column("principal", _TEXT, nullable=False),
        sa.Column("state", _TEXT, nullable=False),
        sa.Column("created_ms", _NUMBER, nullable=False),
        sa.Column("expires_ms", _NUMBER, nullable=False),
        sa.Column("sealed", _BYTES, nullable=False),
        sa.Column("signature", _BYTES, nullable=False),
        sa.PrimaryKeyConstraint("context_id", "proposal_id"),
        sa.ForeignKeyConstraint(["context_id"], ["contexts.context_id"], ondelete="CASCADE"),
    )
    op.create_index("proposals_by_state", "proposals", ["context_id", "state", "created_ms", "proposal_id"])

"""Series that stay: what was recorded at each step of all instances, and blocks of each.

Expands: releases before know nothing of these tables.
"""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Nothing is recorded yet."""
    op.create_table(
        "series_steps",
        sa.Column("at_ms", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
    )
    op.create_table(
        "series_blocks",
        sa.Column("instance_id", sa.String(12), primary_key=True),
        sa.Column("step_ms", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("start_ms", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.Index("ix_series_blocks_start", "step_ms", "start_ms"),
    )
    op.create_index("ix_audit_subject", "audit", ["subject", "id"])


def downgrade() -> None:
    """History is forgotten."""
    op.drop_index("ix_audit_subject", "audit")
    op.drop_table("series_blocks")
    op.drop_table("series_steps")

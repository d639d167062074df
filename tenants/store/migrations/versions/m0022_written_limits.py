"""The limits that topics on a cluster of Apache Kafka were written with.

Expands: releases before do not know the table, and leave topics as they are.
"""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """With which limits the topics that are there were written is not known."""
    op.create_table(
        "written_limits",
        sa.Column("instance_id", sa.String(length=12), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("retention_ms_max", sa.BigInteger(), nullable=False),
        sa.Column("message_bytes_max", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("instance_id", name=op.f("pk_written_limits")),
    )


def downgrade() -> None:
    """Topics follow limits with their next change."""
    op.drop_table("written_limits")

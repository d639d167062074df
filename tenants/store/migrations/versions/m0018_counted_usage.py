"""Usage as it is counted before the pipeline settles it.

Expands: releases before do not know the tables.
"""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

_COUNTS = (
    "produce_bytes",
    "consume_bytes",
    "produce_requests",
    "consume_requests",
    "refused",
    "produce_throttled_ms",
    "consume_throttled_ms",
    "blocked_ms",
    "stored_byte_s",
    "recovered_bytes",
    "produce_peak_bytes",
    "consume_peak_bytes",
    "slot_start_ms",
    "slot_produce_bytes",
    "slot_consume_bytes",
)


def upgrade() -> None:
    """Counting begins with the oldest record that the topic has."""
    op.create_table(
        "usage_positions",
        sa.Column("cluster_id", sa.String(length=64), nullable=False),
        sa.Column("partition", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("topic_id", sa.String(length=36), nullable=False),
        sa.Column("next_offset", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("cluster_id", "partition", name=op.f("pk_usage_positions")),
    )
    op.create_table(
        "usage_meters",
        sa.Column("boot_id", sa.String(length=200), nullable=False),
        sa.Column("instance_id", sa.String(length=200), nullable=False),
        sa.Column("until_ms", sa.BigInteger(), nullable=False),
        sa.Column("produce_bytes_total", sa.BigInteger(), nullable=False),
        sa.Column("consume_bytes_total", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("boot_id", "instance_id", name=op.f("pk_usage_meters")),
    )
    op.create_index(op.f("ix_usage_meters_until_ms"), "usage_meters", ["until_ms"])
    op.create_table(
        "usage_hours",
        sa.Column("instance_id", sa.String(length=200), nullable=False),
        sa.Column("hour_start_ms", sa.BigInteger(), autoincrement=False, nullable=False),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in _COUNTS),
        sa.PrimaryKeyConstraint("instance_id", "hour_start_ms", name=op.f("pk_usage_hours")),
    )
    op.create_index(op.f("ix_usage_hours_hour_start_ms"), "usage_hours", ["hour_start_ms"])


def downgrade() -> None:
    """Forget what was counted: the topic has a week of it."""
    for table in ("usage_hours", "usage_meters", "usage_positions"):
        op.drop_table(table)

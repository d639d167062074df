"""Alarms, their rules and history, webhooks and what is delivered to them.

Expands: releases before do not know the tables.
"""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

_COUNTER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Nothing is alarming before somebody has looked."""
    _add_alarms()
    _add_webhooks()


def _add_alarms() -> None:
    op.create_table(
        "alarm_rules",
        sa.Column("instance_id", sa.String(length=12), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("threshold", sa.BigInteger(), nullable=False),
        sa.Column("window_minutes", sa.Integer(), nullable=False),
        sa.Column("raise_after", sa.Integer(), nullable=False),
        sa.Column("clear_after", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("instance_id", "kind", name=op.f("pk_alarm_rules")),
    )
    op.create_table(
        "alarms",
        sa.Column("instance_id", sa.String(length=12), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("subject", sa.String(length=128), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("since_ms", sa.BigInteger(), nullable=False),
        sa.Column("raised_at_ms", sa.BigInteger()),
        sa.Column("known_at_ms", sa.BigInteger()),
        sa.Column("value", sa.Float()),
        sa.Column("says", sa.Text(), nullable=False),
        sa.Column("is_told", sa.Boolean(), nullable=False),
        sa.Column("acked_at_ms", sa.BigInteger()),
        sa.Column("acked_by", sa.String(length=160)),
        sa.Column("silenced_until_ms", sa.BigInteger()),
        sa.Column("silenced_by", sa.String(length=160)),
        sa.PrimaryKeyConstraint("instance_id", "kind", "subject", name=op.f("pk_alarms")),
    )
    op.create_index(op.f("ix_alarms_raised_at_ms"), "alarms", ["raised_at_ms"])
    op.create_table(
        "alarm_history",
        sa.Column("id", _COUNTER, autoincrement=True, nullable=False),
        sa.Column("instance_id", sa.String(length=12), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("subject", sa.String(length=128), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("event", sa.String(length=16), nullable=False),
        sa.Column("says", sa.Text(), nullable=False),
        sa.Column("by", sa.String(length=160)),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_alarm_history")),
    )
    op.create_index(op.f("ix_alarm_history_instance_id"), "alarm_history", ["instance_id"])


def _add_webhooks() -> None:
    op.create_table(
        "webhooks",
        sa.Column("id", sa.String(length=16), nullable=False),
        sa.Column("tenant", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("salt", sa.String(length=64), nullable=False),
        sa.Column("secret_sha256", sa.String(length=64), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.String(length=160), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhooks")),
    )
    op.create_index(op.f("ix_webhooks_tenant"), "webhooks", ["tenant"])
    op.create_table(
        "webhook_deliveries",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("webhook_id", sa.String(length=16), nullable=False),
        sa.Column("event", sa.String(length=32), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("tried_at_ms", sa.BigInteger()),
        sa.Column("status", sa.Integer()),
        sa.Column("error", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhook_deliveries")),
    )
    op.create_index(
        op.f("ix_webhook_deliveries_webhook_id"), "webhook_deliveries", ["webhook_id", "created_at_ms"]
    )
    op.create_index(op.f("ix_webhook_deliveries_state"), "webhook_deliveries", ["state", "next_at_ms"])


def downgrade() -> None:
    """Forget the alarms and the webhooks."""
    for table in ("webhook_deliveries", "webhooks", "alarm_history", "alarms", "alarm_rules"):
        op.drop_table(table)

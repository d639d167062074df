"""Requests that may be sent again, and operations that take long.

Expands: releases before know nothing of the tables, and lose nothing by it.
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """No request is remembered, and nothing is under way."""
    op.create_table(
        "idempotency_keys",
        sa.Column("caller", sa.String(length=200), nullable=False),
        sa.Column("key_sha256", sa.String(length=64), nullable=False),
        sa.Column("tenant", sa.String(length=64), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("token", sa.String(length=32), nullable=False),
        sa.Column("began_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("subject", sa.String(length=300), nullable=True),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("headers", sa.JSON(), nullable=True),
        sa.Column("body", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("caller", "key_sha256", name=op.f("pk_idempotency_keys")),
    )
    for column in ("tenant", "began_at_ms"):
        op.create_index(op.f(f"ix_idempotency_keys_{column}"), "idempotency_keys", [column], unique=False)
    op.create_table(
        "operations",
        sa.Column("id", sa.String(length=24), nullable=False),
        sa.Column("tenant", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("instance_id", sa.String(length=12), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("started_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("ended_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_operations")),
    )
    for column in ("instance_id", "ended_at_ms"):
        op.create_index(op.f(f"ix_operations_{column}"), "operations", [column], unique=False)
    op.create_index(
        "ix_operations_tenant_started_at_ms", "operations", ["tenant", "started_at_ms"], unique=False
    )


def downgrade() -> None:
    """Requests that are sent again are carried out again; what is under way goes on untold."""
    op.drop_table("operations")
    op.drop_table("idempotency_keys")

"""Faults that tenants inject into their own instances.

Expands: releases before tell nobody of them, and the faults end by themselves.
"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """None has been injected."""
    op.create_table(
        "injected_faults",
        sa.Column("id", sa.String(length=16), nullable=False),
        sa.Column("instance_id", sa.String(length=12), nullable=False),
        sa.Column("told", sa.JSON(), nullable=False),
        sa.Column("ends_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("started_by", sa.String(length=160), nullable=False),
        sa.Column("ended_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("ended_by", sa.String(length=160), nullable=True),
        sa.ForeignKeyConstraint(
            ["instance_id"], ["instances.id"], name=op.f("fk_injected_faults_instance_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_injected_faults")),
    )
    op.create_index(op.f("ix_injected_faults_instance_id"), "injected_faults", ["instance_id"], unique=False)
    op.create_index(op.f("ix_injected_faults_ended_at_ms"), "injected_faults", ["ended_at_ms"], unique=False)


def downgrade() -> None:
    """Forget them: gateways are not told that they end, and end them in their time."""
    op.drop_table("injected_faults")

"""Control processes that share a database tell one another what followers tell them.

Expands: releases before know nothing of the table, and lose nothing by it.
"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """None has told anything."""
    op.create_table(
        "control_processes",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("url", sa.String(length=255), nullable=False),
        sa.Column("known_schema", sa.String(length=32), nullable=False),
        sa.Column("heard_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("told", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_control_processes")),
    )


def downgrade() -> None:
    """They know nothing of one another."""
    op.drop_table("control_processes")

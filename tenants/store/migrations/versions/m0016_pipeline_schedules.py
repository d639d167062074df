"""When pipeline jobs run by themselves.

Expands: releases before do not know the table.
"""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Nothing is scheduled."""
    op.create_table(
        "pipeline_schedules",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("job", sa.String(length=16), nullable=False),
        sa.Column("instance_id", sa.String(length=64)),
        sa.Column("cron", sa.String(length=100), nullable=False),
        sa.Column("is_paused", sa.Boolean(), nullable=False),
        sa.Column("since_ms", sa.BigInteger(), nullable=False),
        sa.Column("done_until_ms", sa.BigInteger(), nullable=False),
        sa.Column("asked_at_ms", sa.BigInteger()),
        sa.Column("state", sa.String(length=16)),
        sa.Column("runner", sa.String(length=64)),
        sa.Column("started_at_ms", sa.BigInteger()),
        sa.Column("heard_at_ms", sa.BigInteger()),
        sa.Column("ended_at_ms", sa.BigInteger()),
        sa.Column("error", sa.Text()),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_pipeline_schedules")),
    )


def downgrade() -> None:
    """Forget the schedules."""
    op.drop_table("pipeline_schedules")

"""Runs of pipeline jobs."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """No job has run."""
    op.create_table(
        "pipeline_runs",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("job", sa.String(length=64), nullable=False),
        sa.Column("subject", sa.String(length=300), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("started_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("updated_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("heard_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("planned", sa.BigInteger(), nullable=False),
        sa.Column("done", sa.BigInteger(), nullable=False),
        sa.Column("unit", sa.String(length=32), nullable=False),
        sa.Column("figures", sa.JSON(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_pipeline_runs")),
    )
    op.create_index(op.f("ix_pipeline_runs_state"), "pipeline_runs", ["state"], unique=False)
    op.create_index(op.f("ix_pipeline_runs_started_at_ms"), "pipeline_runs", ["started_at_ms"], unique=False)
    op.create_index("ix_pipeline_runs_job_started_at_ms", "pipeline_runs", ["job", "started_at_ms"])
    op.create_table(
        "pipeline_jobs",
        sa.Column("job", sa.String(length=64), nullable=False),
        sa.Column("succeeded", sa.BigInteger(), nullable=False),
        sa.Column("failed", sa.BigInteger(), nullable=False),
        sa.Column("last_success_ms", sa.BigInteger(), nullable=True),
        sa.Column("heard_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("job", name=op.f("pk_pipeline_jobs")),
    )


def downgrade() -> None:
    """Forget the runs."""
    op.drop_table("pipeline_jobs")
    op.drop_table("pipeline_runs")

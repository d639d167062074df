"""Instances say how much request time they bought."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """All have what goes with their byte rates until told."""
    column: sa.Column[int] = sa.Column("request_percent", sa.Integer(), nullable=True)
    with op.batch_alter_table("instances", recreate="never") as instances:
        instances.add_column(column)


def downgrade() -> None:
    """All have what goes with their byte rates again."""
    with op.batch_alter_table("instances", recreate="never") as instances:
        instances.drop_column("request_percent")

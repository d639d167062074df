"""Instances say whether they serve clients from before Kafka 0.11."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """No instance has them until told."""
    column: sa.Column[bool] = sa.Column(
        "legacy_clients", sa.Boolean(), nullable=False, server_default=sa.false()
    )
    with op.batch_alter_table("instances", recreate="never") as instances:
        instances.add_column(column)


def downgrade() -> None:
    """All instances refuse them again."""
    with op.batch_alter_table("instances", recreate="never") as instances:
        instances.drop_column("legacy_clients")

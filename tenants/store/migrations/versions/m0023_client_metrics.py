"""Whether clients of an instance are asked for metrics of their own, and for which besides.

Expands: releases before ask nobody for anything.
"""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Clients are asked for what the console shows."""
    with op.batch_alter_table("instances", recreate="never") as instances:
        instances.add_column(
            sa.Column("client_metrics", sa.Boolean(), nullable=False, server_default=sa.true())
        )
        instances.add_column(
            sa.Column("metric_subscriptions", sa.JSON(), nullable=False, server_default="[]")
        )


def downgrade() -> None:
    """Subscriptions are lost."""
    with op.batch_alter_table("instances", recreate="never") as instances:
        instances.drop_column("metric_subscriptions")
        instances.drop_column("client_metrics")

"""Clusters of Apache Kafka beside our own.

Expands: releases before take every cluster for one of theirs, so they must not run beside one.
"""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """All that are there are our own."""
    with op.batch_alter_table("clusters") as clusters:
        clusters.add_column(
            sa.Column("engine", sa.String(length=16), nullable=False, server_default="builtin")
        )
        clusters.add_column(sa.Column("bootstrap", sa.Text(), nullable=True))
        clusters.add_column(sa.Column("kafka_cluster_id", sa.String(length=64), nullable=True))


def downgrade() -> None:
    """Forget whose they are."""
    with op.batch_alter_table("clusters") as clusters:
        clusters.drop_column("kafka_cluster_id")
        clusters.drop_column("bootstrap")
        clusters.drop_column("engine")

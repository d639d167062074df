"""Whether a webhook is told of anything.

Expands: releases before know nothing of it, and tell all webhooks.
"""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """All are told, as before."""
    with op.batch_alter_table("webhooks", recreate="never") as webhooks:
        webhooks.add_column(sa.Column("enabled", sa.Boolean(), nullable=False, server_default=sa.true()))


def downgrade() -> None:
    """All are told."""
    with op.batch_alter_table("webhooks", recreate="never") as webhooks:
        webhooks.drop_column("enabled")

"""By whose tokens clients of an instance log in.

Expands: releases before know nothing of tokens, and let nobody in by one.
"""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """By nobody's, as before."""
    with op.batch_alter_table("instances", recreate="never") as instances:
        instances.add_column(sa.Column("oauth", sa.JSON()))


def downgrade() -> None:
    """Clients with tokens are let in no more."""
    with op.batch_alter_table("instances", recreate="never") as instances:
        instances.drop_column("oauth")

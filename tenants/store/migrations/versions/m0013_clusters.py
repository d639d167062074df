"""Several clusters: how each is reached, whether it takes new instances, and whether it is still ours to use.

Expands: releases before reach every cluster without TLS and login, and put instances on drained ones, too.
"""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """All are reached as before, and take instances."""
    op.add_column("clusters", sa.Column("security", sa.JSON()))
    op.add_column(
        "clusters", sa.Column("is_drained", sa.Boolean(), nullable=False, server_default=sa.false())
    )
    op.add_column("clusters", sa.Column("removed_at_ms", sa.BigInteger()))


def downgrade() -> None:
    """Forget it; clusters that were removed are back, without brokers."""
    for name in ("removed_at_ms", "is_drained", "security"):
        op.drop_column("clusters", name)

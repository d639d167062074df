"""Users of instances, and vports that ask for a login.

Expands: releases before know nothing of users, and let nobody in at vports that ask for one.
"""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Nobody has users, and all come in as before."""
    with op.batch_alter_table("instances") as instances:
        instances.add_column(sa.Column("users", sa.JSON(), nullable=False, server_default="[]"))
        instances.add_column(
            sa.Column("security_protocols", sa.String(length=64), nullable=False, server_default="plain")
        )
    with op.batch_alter_table("ports") as ports:
        ports.add_column(
            sa.Column("security_protocol", sa.String(length=16), nullable=False, server_default="plain")
        )


def downgrade() -> None:
    """Forget users and their vports: those of an older release would ask nobody for a password."""
    op.execute("DELETE FROM ports WHERE security_protocol <> 'plain'")
    with op.batch_alter_table("ports") as ports:
        ports.drop_column("security_protocol")
    with op.batch_alter_table("instances") as instances:
        instances.drop_column("security_protocols")
        instances.drop_column("users")

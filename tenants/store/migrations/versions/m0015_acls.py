"""ACLs of instances, and whether they are enforced.

Expands: releases before know nothing of ACLs, and let everybody who is admitted do everything. So they are
enforced only when all gateways are of this release.
"""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Everybody may do everything, as before."""
    with op.batch_alter_table("instances", recreate="never") as instances:
        instances.add_column(sa.Column("acls", sa.JSON(), nullable=False, server_default="[]"))
        instances.add_column(
            sa.Column("acls_enforced", sa.Boolean(), nullable=False, server_default=sa.false())
        )


def downgrade() -> None:
    """Suspend instances that enforce ACLs, which would let everybody do everything, and forget the rules."""
    op.execute(
        "UPDATE instances SET state = 'suspended', "
        "state_reason = 'its ACLs would not be enforced by this release' "
        "WHERE acls_enforced AND state IN ('creating', 'running', 'failed')"
    )
    with op.batch_alter_table("instances", recreate="never") as instances:
        instances.drop_column("acls_enforced")
        instances.drop_column("acls")

"""Moves that fill offsets without a record.

Expands: a release before refuses what would need it.
"""

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Nobody has asked for it."""
    with op.batch_alter_table("moves", recreate="never") as moves:
        moves.add_column(sa.Column("fills_gaps", sa.Boolean(), nullable=False, server_default=sa.false()))


def downgrade() -> None:
    """A move that was to fill gaps ends where it meets one."""
    with op.batch_alter_table("moves", recreate="never") as moves:
        moves.drop_column("fills_gaps")

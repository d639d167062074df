"""Ceilings of tenants and clusters; when an instance was served first."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """No ceiling is set; every instance there is counts as served, so its ports rest."""
    for name in ("tenants", "clusters"):
        with op.batch_alter_table(name, recreate="never") as table:
            table.add_column(sa.Column("ceilings", sa.JSON(), nullable=True))
    with op.batch_alter_table("instances", recreate="never") as instances:
        instances.add_column(sa.Column("served_at_ms", sa.BigInteger(), nullable=True))
    rows = sa.table("instances", sa.column("served_at_ms"), sa.column("created_at_ms"))
    op.execute(rows.update().values(served_at_ms=rows.c.created_at_ms))


def downgrade() -> None:
    """Forget the ceilings that were set."""
    with op.batch_alter_table("instances", recreate="never") as instances:
        instances.drop_column("served_at_ms")
    for name in ("tenants", "clusters"):
        with op.batch_alter_table(name, recreate="never") as table:
            table.drop_column("ceilings")

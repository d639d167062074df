"""People as an identity provider knows them, and where its groups lead.

Expands: releases before know nothing of either; who signs in by a provider alone has no password there.
"""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Everybody who is there has a role of its own."""
    with op.batch_alter_table("users", recreate="never") as users:
        users.add_column(sa.Column("is_managed", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.create_table(
        "identities",
        sa.Column("issuer", sa.String(length=512), nullable=False),
        sa.Column("subject", sa.String(length=255), nullable=False),
        sa.Column("user_name", sa.String(length=128), nullable=False),
        sa.Column("groups", sa.JSON(), nullable=False),
        sa.Column("linked_at_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["user_name"], ["users.name"], name="fk_identities_user_name"),
        sa.PrimaryKeyConstraint("issuer", "subject", name="pk_identities"),
    )
    op.create_index("ix_identities_user_name", "identities", ["user_name"])
    op.create_table(
        "group_roles",
        sa.Column("id", sa.String(length=16), nullable=False),
        sa.Column("group_name", sa.String(length=256), nullable=False),
        sa.Column("tenant", sa.String(length=64), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("created_by", sa.String(length=160), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.name"], name="fk_group_roles_tenant"),
        sa.PrimaryKeyConstraint("id", name="pk_group_roles"),
        sa.UniqueConstraint("group_name", "tenant", name="uq_group_roles_group_name_tenant"),
    )


def downgrade() -> None:
    """Who signed in by a provider alone has no password, and does not come in."""
    op.drop_table("group_roles")
    op.drop_index("ix_identities_user_name", table_name="identities")
    op.drop_table("identities")
    with op.batch_alter_table("users", recreate="never") as users:
        users.drop_column("is_managed")

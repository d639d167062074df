"""Members with roles of their own, invitations, keys that expire and rotate, sessions that are shown.

Expands: releases before do not know the roles `admin` and `developer`; they end with this upgrade.
"""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

_MACHINES_OWN = "({column} = 'local' OR {column} LIKE 'local-%')"


def upgrade() -> None:
    """The user `admin` and the machine's own key are admins from now on; operators stay what they are."""
    with op.batch_alter_table("users") as users:
        users.add_column(sa.Column("last_login_at_ms", sa.BigInteger()))
    with op.batch_alter_table("api_keys") as keys:
        keys.add_column(sa.Column("expires_at_ms", sa.BigInteger()))
        keys.add_column(sa.Column("previous_sha256", sa.String(length=64)))
        keys.add_column(sa.Column("previous_until_ms", sa.BigInteger()))
        keys.create_unique_constraint("uq_api_keys_previous_sha256", ["previous_sha256"])
    with op.batch_alter_table("sessions") as sessions:
        sessions.add_column(sa.Column("last_used_at_ms", sa.BigInteger()))
        sessions.add_column(sa.Column("address", sa.String(length=64)))
        sessions.add_column(sa.Column("agent", sa.String(length=200)))
    op.create_table(
        "invitations",
        sa.Column("id", sa.String(length=16), nullable=False),
        sa.Column("tenant", sa.String(length=64), nullable=False),
        sa.Column("user_name", sa.String(length=128), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("secret_sha256", sa.String(length=64), nullable=False),
        sa.Column("invited_by", sa.String(length=160), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("expires_at_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.name"], name="fk_invitations_tenant"),
        sa.PrimaryKeyConstraint("id", name="pk_invitations"),
        sa.UniqueConstraint("user_name", name="uq_invitations_user_name"),
        sa.UniqueConstraint("secret_sha256", name="uq_invitations_secret_sha256"),
    )
    op.create_index("ix_invitations_tenant", "invitations", ["tenant"])
    op.create_index("ix_invitations_expires_at_ms", "invitations", ["expires_at_ms"])
    op.execute("UPDATE users SET role = 'admin' WHERE name = 'admin' AND role = 'operator'")
    op.execute(f"UPDATE api_keys SET role = 'admin' WHERE {_MACHINES_OWN.format(column='id')}")


def downgrade() -> None:
    """Admins become operators, developers viewers: nobody gains a right."""
    for table in ("users", "api_keys", "access_keys"):
        op.execute(f"UPDATE {table} SET role = 'operator' WHERE role = 'admin'")
        op.execute(f"UPDATE {table} SET role = 'viewer' WHERE role = 'developer'")
    op.execute("DELETE FROM api_keys WHERE expires_at_ms IS NOT NULL")
    op.drop_table("invitations")
    with op.batch_alter_table("sessions") as sessions:
        for name in ("agent", "address", "last_used_at_ms"):
            sessions.drop_column(name)
    with op.batch_alter_table("api_keys") as keys:
        keys.drop_constraint("uq_api_keys_previous_sha256", type_="unique")
        for name in ("previous_until_ms", "previous_sha256", "expires_at_ms"):
            keys.drop_column(name)
    with op.batch_alter_table("users") as users:
        users.drop_column("last_login_at_ms")

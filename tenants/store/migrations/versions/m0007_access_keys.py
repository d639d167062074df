"""Access-key pairs of the CKafka-compatible endpoint."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """No pair has been made."""
    op.create_table(
        "access_keys",
        sa.Column("secret_id", sa.String(length=40), nullable=False),
        sa.Column("tenant", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("salt", sa.String(length=64), nullable=False),
        sa.Column("secret_key_sha256", sa.String(length=64), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("last_used_at_ms", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.name"], name=op.f("fk_access_keys_tenant")),
        sa.PrimaryKeyConstraint("secret_id", name=op.f("pk_access_keys")),
    )
    op.create_index(op.f("ix_access_keys_tenant"), "access_keys", ["tenant"], unique=False)


def downgrade() -> None:
    """Forget the pairs: what they signed is not known any more."""
    op.drop_table("access_keys")

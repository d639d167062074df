"""How messages of topics are read, and where the schema registries of instances are.

Expands: releases before show messages as they are, and hide nothing of them.
"""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Nobody has said."""
    op.create_table(
        "schema_registries",
        sa.Column("instance_id", sa.String(length=12), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("password", sa.Text(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["instance_id"], ["instances.id"], name="fk_schema_registries_instance_id"),
        sa.PrimaryKeyConstraint("instance_id", name="pk_schema_registries"),
    )
    op.create_table(
        "topic_decodings",
        sa.Column("instance_id", sa.String(length=12), nullable=False),
        sa.Column("topic", sa.String(length=249), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=True),
        sa.Column("schema_text", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("has_registry_header", sa.Boolean(), nullable=False),
        sa.Column("masked_fields", sa.JSON(), nullable=False),
        sa.Column("masked_headers", sa.JSON(), nullable=False),
        sa.Column("masks_key", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["instance_id"], ["instances.id"], name="fk_topic_decodings_instance_id"),
        sa.PrimaryKeyConstraint("instance_id", "topic", name="pk_topic_decodings"),
    )


def downgrade() -> None:
    """Messages are shown as they are."""
    op.drop_table("topic_decodings")
    op.drop_table("schema_registries")

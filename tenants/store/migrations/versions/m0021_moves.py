"""Instances that go from one cluster to another.

Expands: releases before know nothing of a hold. While one of them serves, no instance is moved.
"""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Nobody moves, and nobody has."""
    with op.batch_alter_table("instances", recreate="never") as instances:
        instances.add_column(sa.Column("is_held", sa.Boolean(), nullable=False, server_default=sa.false()))
        instances.add_column(
            sa.Column("epochs_anew", sa.Boolean(), nullable=False, server_default=sa.false())
        )
    op.create_table(
        "moves",
        sa.Column("id", sa.String(length=16), nullable=False),
        sa.Column("instance_id", sa.String(length=12), nullable=False),
        sa.Column("source", sa.String(length=64), nullable=False),
        sa.Column("target", sa.String(length=64), nullable=False),
        sa.Column("phase", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.Text()),
        sa.Column("started_by", sa.String(length=160), nullable=False),
        sa.Column("started_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("updated_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("held_at_ms", sa.BigInteger()),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("copied_bytes", sa.BigInteger(), nullable=False),
        sa.Column("total_bytes", sa.BigInteger(), nullable=False),
        sa.Column("switched_at_ms", sa.BigInteger()),
        sa.Column("gap_ms", sa.Integer()),
        sa.Column("copies", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["instance_id"], ["instances.id"], name=op.f("fk_moves_instance_id")),
        sa.ForeignKeyConstraint(["source"], ["clusters.id"], name=op.f("fk_moves_source")),
        sa.ForeignKeyConstraint(["target"], ["clusters.id"], name=op.f("fk_moves_target")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_moves")),
    )
    op.create_index(op.f("ix_moves_instance_id"), "moves", ["instance_id"])
    op.create_index(op.f("ix_moves_phase"), "moves", ["phase"])


def downgrade() -> None:
    """Forget who moves: what is copied stays where it is."""
    op.drop_index(op.f("ix_moves_phase"), table_name="moves")
    op.drop_index(op.f("ix_moves_instance_id"), table_name="moves")
    op.drop_table("moves")
    with op.batch_alter_table("instances", recreate="never") as instances:
        instances.drop_column("epochs_anew")
        instances.drop_column("is_held")

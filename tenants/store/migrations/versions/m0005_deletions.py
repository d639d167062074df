"""Deleted instances wait for their purge; marks, lineages and acknowledgements of the feed.

What was being purged waits again, its grace counted from its deletion: nobody ordered that with the words it
takes now. Its ports rest already.
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None
_GRACE_MS = 7 * 24 * 3600 * 1000
_VISIBLE = "state NOT IN ('deleted', 'purging', 'purged')"


def upgrade() -> None:
    """Rename states, and add what is new."""
    _drop_visible()
    deletion: sa.Column[object] = sa.Column("deletion", sa.JSON(), nullable=True)
    was_suspended: sa.Column[bool] = sa.Column(
        "was_suspended", sa.Boolean(), nullable=False, server_default=sa.false()
    )
    with op.batch_alter_table("instances", recreate="never") as instances:
        instances.add_column(deletion)
        instances.add_column(was_suspended)
    _rename_states()
    _index_visible(_VISIBLE)
    mark: sa.Column[str] = sa.Column("mark", sa.String(length=16), nullable=False, server_default="")
    with op.batch_alter_table("outbox", recreate="never") as outbox:
        outbox.add_column(mark)
    _create_tables()


def _create_tables() -> None:
    op.create_table(
        "lineages",
        sa.Column("feed_id", sa.String(length=32), nullable=False),
        sa.Column("parent_feed_id", sa.String(length=32), nullable=False),
        sa.Column("parent_revision", sa.BigInteger(), nullable=False),
        sa.Column("began_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("feed_id", name=op.f("pk_lineages")),
    )
    op.create_table(
        "followers",
        sa.Column("consumer", sa.String(length=128), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("cluster_id", sa.String(length=64), nullable=True),
        sa.Column("node_id", sa.Integer(), nullable=True),
        sa.Column("feed_id", sa.String(length=32), nullable=False),
        sa.Column("applied_revision", sa.BigInteger(), nullable=False),
        sa.Column("objections", sa.JSON(), nullable=False),
        sa.Column("heard_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("consumer", name=op.f("pk_followers")),
    )


def _rename_states() -> None:
    connection = op.get_bind()
    instances = sa.table(
        "instances",
        sa.column("id", sa.String()),
        sa.column("state", sa.String()),
        sa.column("updated_at_ms", sa.BigInteger()),
        sa.column("deletion", sa.JSON()),
    )
    feed_id = connection.scalar(sa.text("SELECT value FROM settings WHERE key = 'feed_id'"))
    connection.execute(instances.update().where(instances.c.state == "deleted").values(state="purged"))
    waiting = connection.execute(
        sa.select(instances.c.id, instances.c.updated_at_ms).where(instances.c.state == "deleting")
    ).all()
    for instance_id, deleted_at_ms in waiting:
        deletion = {
            "deleted_at_ms": deleted_at_ms,
            "purge_after_ms": deleted_at_ms + _GRACE_MS,
            "lineage": feed_id,
            "confirmed": False,
        }
        changed = instances.update().where(instances.c.id == instance_id)
        connection.execute(changed.values(state="deleted", deletion=deletion))


def _drop_visible() -> None:
    op.drop_index("uq_instances_tenant_name_visible", "instances")


def _index_visible(where: str) -> None:
    op.create_index(
        "uq_instances_tenant_name_visible",
        "instances",
        ["tenant", "name"],
        unique=True,
        sqlite_where=sa.text(where),
        postgresql_where=sa.text(where),
    )


def downgrade() -> None:
    """What waits for its purge is marked deleted without a state of its own: the release before purges only
    what is `deleting`, so nothing is purged by going back."""
    op.drop_table("followers")
    op.drop_table("lineages")
    with op.batch_alter_table("outbox", recreate="never") as outbox:
        outbox.drop_column("mark")
    _drop_visible()
    states = sa.table("instances", sa.column("state", sa.String()))
    is_gone = states.c.state.in_(("purging", "purged"))
    op.execute(states.update().where(is_gone).values(state="deleted"))
    with op.batch_alter_table("instances", recreate="never") as instances:
        instances.drop_column("was_suspended")
        instances.drop_column("deletion")
    _index_visible("state NOT IN ('deleting', 'deleted')")

"""The first tables of the control plane."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create everything."""
    _accounts()
    _records()
    _clusters()
    _instances()


def _accounts() -> None:
    op.create_table(
        "settings",
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_settings")),
    )
    op.create_table(
        "tenants",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_tenants")),
    )
    op.create_table(
        "users",
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("tenant", sa.String(length=64), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("password_hash", sa.Text(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.name"], name=op.f("fk_users_tenant")),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_users")),
    )
    op.create_table(
        "api_keys",
        sa.Column("id", sa.String(length=16), nullable=False),
        sa.Column("tenant", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("secret_sha256", sa.String(length=64), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("last_used_at_ms", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.name"], name=op.f("fk_api_keys_tenant")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_keys")),
        sa.UniqueConstraint("secret_sha256", name=op.f("uq_api_keys_secret_sha256")),
    )
    op.create_index(op.f("ix_api_keys_tenant"), "api_keys", ["tenant"], unique=False)
    op.create_table(
        "sessions",
        sa.Column("token_sha256", sa.String(length=64), nullable=False),
        sa.Column("user_name", sa.String(length=128), nullable=False),
        sa.Column("tenant", sa.String(length=64), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("expires_at_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.name"], name=op.f("fk_sessions_tenant")),
        sa.ForeignKeyConstraint(["user_name"], ["users.name"], name=op.f("fk_sessions_user_name")),
        sa.PrimaryKeyConstraint("token_sha256", name=op.f("pk_sessions")),
    )
    op.create_index(op.f("ix_sessions_expires_at_ms"), "sessions", ["expires_at_ms"], unique=False)
    op.create_index(op.f("ix_sessions_user_name"), "sessions", ["user_name"], unique=False)


def _records() -> None:
    op.create_table(
        "audit",
        sa.Column(
            "id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False
        ),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("actor", sa.String(length=160), nullable=False),
        sa.Column("tenant", sa.String(length=64), nullable=True),
        sa.Column("action", sa.String(length=64), nullable=False),
        sa.Column("subject", sa.String(length=300), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("address", sa.String(length=64), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
    )
    op.create_index(op.f("ix_audit_tenant"), "audit", ["tenant"], unique=False)
    op.create_table(
        "outbox",
        sa.Column("revision", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("subject_id", sa.String(length=64), nullable=False),
        sa.Column("tenant", sa.String(length=64), nullable=True),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("revision", name=op.f("pk_outbox")),
    )


def _clusters() -> None:
    op.create_table(
        "clusters",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_clusters")),
    )
    op.create_table(
        "brokers",
        sa.Column("cluster_id", sa.String(length=64), nullable=False),
        sa.Column("node_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("port", sa.Integer(), nullable=False),
        sa.Column("registered_at_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name=op.f("fk_brokers_cluster_id")),
        sa.PrimaryKeyConstraint("cluster_id", "node_id", name=op.f("pk_brokers")),
    )


def _instances() -> None:
    op.create_table(
        "instances",
        sa.Column("id", sa.String(length=12), nullable=False),
        sa.Column("tenant", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("state_reason", sa.Text(), nullable=True),
        sa.Column("cluster_id", sa.String(length=64), nullable=False),
        sa.Column("produce_rate_bytes_per_s", sa.BigInteger(), nullable=False),
        sa.Column("consume_rate_bytes_per_s", sa.BigInteger(), nullable=False),
        sa.Column("capacity_bytes", sa.BigInteger(), nullable=False),
        sa.Column("limits", sa.JSON(), nullable=False),
        sa.Column("full_behaviour", sa.String(length=16), nullable=False),
        sa.Column("auto_create_topics", sa.Boolean(), nullable=False),
        sa.Column("allow_all", sa.Boolean(), nullable=False),
        sa.Column("whitelist", sa.JSON(), nullable=False),
        sa.Column("topic_whitelists", sa.JSON(), nullable=False),
        sa.Column("listeners_withheld", sa.Boolean(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("updated_at_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name=op.f("fk_instances_cluster_id")),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.name"], name=op.f("fk_instances_tenant")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_instances")),
    )
    op.create_index(op.f("ix_instances_state"), "instances", ["state"], unique=False)
    op.create_index(
        "uq_instances_tenant_name_visible",
        "instances",
        ["tenant", "name"],
        unique=True,
        sqlite_where=sa.text("state NOT IN ('deleting', 'deleted')"),
        postgresql_where=sa.text("state NOT IN ('deleting', 'deleted')"),
    )
    op.create_table(
        "ports",
        sa.Column("bind_host", sa.String(length=64), nullable=False),
        sa.Column("port", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("advertised_host", sa.String(length=255), nullable=False),
        sa.Column("tenant", sa.String(length=64), nullable=False),
        sa.Column("instance_id", sa.String(length=12), nullable=False),
        sa.Column("node_id", sa.Integer(), nullable=True),
        sa.Column("freed_at_ms", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["instance_id"], ["instances.id"], name=op.f("fk_ports_instance_id")),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.name"], name=op.f("fk_ports_tenant")),
        sa.PrimaryKeyConstraint("bind_host", "port", name=op.f("pk_ports")),
    )
    op.create_index(op.f("ix_ports_instance_id"), "ports", ["instance_id"], unique=False)


def downgrade() -> None:
    """Remove everything."""
    for table in (
        *("ports", "instances", "brokers", "clusters", "outbox", "audit"),
        *("sessions", "api_keys", "users", "tenants", "settings"),
    ):
        op.drop_table(table)

"""E-mail addresses that are told of alarms, as webhooks are, and what they were asked.

Expands: a release before tries to POST what is for an address, which fails and is tried again; it makes none.
"""

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """All that are told are webhooks."""
    with op.batch_alter_table("webhooks", recreate="never") as webhooks:
        webhooks.add_column(sa.Column("kind", sa.String(8), nullable=False, server_default="http"))
        webhooks.add_column(sa.Column("confirmed_at_ms", sa.BigInteger()))
    op.create_table(
        "mail_questions",
        sa.Column("id", sa.String(16), primary_key=True),
        sa.Column("tenant", sa.String(64), nullable=False),
        sa.Column("address_key", sa.String(254), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("refused", sa.Boolean(), nullable=False),
    )
    op.create_index("ix_mail_questions_at_ms", "mail_questions", ["at_ms"])


def downgrade() -> None:
    """Addresses are told of nothing: a release before would take them for webhooks."""
    op.execute(
        "DELETE FROM webhook_deliveries WHERE webhook_id IN (SELECT id FROM webhooks WHERE kind <> 'http')"
    )
    op.execute("DELETE FROM webhooks WHERE kind <> 'http'")
    with op.batch_alter_table("webhooks", recreate="never") as webhooks:
        webhooks.drop_column("confirmed_at_ms")
        webhooks.drop_column("kind")
    op.drop_table("mail_questions")

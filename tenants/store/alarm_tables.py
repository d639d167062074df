"""Tables of alarms, and of who is told of them; part of `tenants.store.schema`."""

from sqlalchemy import BigInteger, Boolean, Column, Float, Index, Integer, String, Table, Text, true

from tenants.store.tables import COUNTER, metadata

alarm_rules = Table(
    "alarm_rules",
    metadata,
    Column("instance_id", String(12), primary_key=True),
    Column("kind", String(32), primary_key=True),
    Column("enabled", Boolean, nullable=False),
    Column("threshold", BigInteger, nullable=False),
    Column("window_minutes", Integer, nullable=False),
    Column("raise_after", Integer, nullable=False),
    Column("clear_after", Integer, nullable=False),
)
"""Rules that somebody has set; `instance_id` empty: the operators', which hold where an instance has none."""

alarms = Table(
    "alarms",
    metadata,
    Column("instance_id", String(12), primary_key=True),
    Column("kind", String(32), primary_key=True),
    Column("subject", String(128), primary_key=True),
    Column("state", String(16), nullable=False),
    Column("since_ms", BigInteger, nullable=False),
    Column("raised_at_ms", BigInteger, index=True),
    Column("known_at_ms", BigInteger),
    Column("value", Float),
    Column("says", Text, nullable=False),
    Column("is_told", Boolean, nullable=False),
    Column("acked_at_ms", BigInteger),
    Column("acked_by", String(160)),
    Column("silenced_until_ms", BigInteger),
    Column("silenced_by", String(160)),
)
"""What was looked at last. Up to `is_told` it is the runner's, from `acked_at_ms` on people's."""

alarm_history = Table(
    "alarm_history",
    metadata,
    Column("id", COUNTER, primary_key=True, autoincrement=True),
    Column("instance_id", String(12), nullable=False, index=True),
    Column("kind", String(32), nullable=False),
    Column("subject", String(128), nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("event", String(16), nullable=False),
    Column("says", Text, nullable=False),
    Column("by", String(160)),
)

webhooks = Table(
    "webhooks",
    metadata,
    Column("id", String(16), primary_key=True),
    Column("tenant", String(64), nullable=False, index=True),
    Column("name", String(64), nullable=False),
    Column("url", Text, nullable=False),
    Column("salt", String(64), nullable=False),
    Column("secret_sha256", String(64), nullable=False),
    Column("created_at_ms", BigInteger, nullable=False),
    Column("created_by", String(160), nullable=False),
    Column("enabled", Boolean, nullable=False, server_default=true()),
    Column("kind", String(8), nullable=False, server_default="http"),
    Column("confirmed_at_ms", BigInteger),
)
"""Who is told of alarms; `tenant` empty: operators, of everybody's. The secret follows from the deployment's
and `salt`, as access keys do. Of kind `email`, `url` is the address, which is told once it was confirmed."""

mail_questions = Table(
    "mail_questions",
    metadata,
    Column("id", String(16), primary_key=True),
    Column("tenant", String(64), nullable=False),
    Column("address_key", String(254), nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("refused", Boolean, nullable=False),
    Index("ix_mail_questions_at_ms", "at_ms"),
)
"""What e-mail addresses were asked, by the id that they had then: of a day, and those that refused."""

webhook_deliveries = Table(
    "webhook_deliveries",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("webhook_id", String(16), nullable=False),
    Column("event", String(32), nullable=False),
    Column("body", Text, nullable=False),
    Column("created_at_ms", BigInteger, nullable=False),
    Column("state", String(16), nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("next_at_ms", BigInteger, nullable=False),
    Column("tried_at_ms", BigInteger),
    Column("status", Integer),
    Column("error", Text, nullable=False),
    Index("ix_webhook_deliveries_webhook_id", "webhook_id", "created_at_ms"),
    Index("ix_webhook_deliveries_state", "state", "next_at_ms"),
)
"""The queue of each webhook, and its log: what is `pending` is tried from `next_at_ms` on."""

"""The tables as the newest migration leaves them (a test compares the two). Times are epoch ms.

Those of alarms have a file of their own: whoever needs a table, or all, finds them here.
"""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
    text,
    true,
)

from tenants.store.alarm_tables import alarm_history as alarm_history
from tenants.store.alarm_tables import alarm_rules as alarm_rules
from tenants.store.alarm_tables import alarms as alarms
from tenants.store.alarm_tables import mail_questions as mail_questions
from tenants.store.alarm_tables import webhook_deliveries as webhook_deliveries
from tenants.store.alarm_tables import webhooks as webhooks
from tenants.store.tables import COUNTER
from tenants.store.tables import metadata as metadata

settings = Table(
    "settings",
    metadata,
    Column("key", String(64), primary_key=True),
    Column("value", Text, nullable=False),
)
"""The feed's id and revision counter, and other single values."""

tenants = Table(
    "tenants",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("created_at_ms", BigInteger, nullable=False),
    Column("ceilings", JSON),
)
"""`ceilings`: those that an operator has set (`tenants.rules.ceilings.Amounts`); null: none."""

users = Table(
    "users",
    metadata,
    Column("name", String(128), primary_key=True),
    Column("tenant", String(64), ForeignKey("tenants.name"), nullable=False),
    Column("role", String(16), nullable=False),
    Column("password_hash", Text, nullable=False),
    Column("created_at_ms", BigInteger, nullable=False),
    Column("last_login_at_ms", BigInteger),
    Column("is_managed", Boolean, nullable=False, server_default=false()),
)
"""People. `is_managed`: groups of an identity provider say the role, and no password is taken.
`name` is what one logs in with: NAME@TENANT, in the default tenant NAME."""

identities = Table(
    "identities",
    metadata,
    Column("issuer", String(512), primary_key=True),
    Column("subject", String(255), primary_key=True),
    Column("user_name", String(128), ForeignKey("users.name"), nullable=False, index=True),
    Column("groups", JSON, nullable=False),
    Column("linked_at_ms", BigInteger, nullable=False),
)
"""People as an identity provider knows them; `groups`: as it told them last."""

group_roles = Table(
    "group_roles",
    metadata,
    Column("id", String(16), primary_key=True),
    Column("group_name", String(256), nullable=False),
    Column("tenant", String(64), ForeignKey("tenants.name"), nullable=False),
    Column("role", String(16), nullable=False),
    Column("created_by", String(160), nullable=False),
    Column("created_at_ms", BigInteger, nullable=False),
    UniqueConstraint("group_name", "tenant"),
)
"""Whom groups of the identity provider let in, where, and as what."""

invitations = Table(
    "invitations",
    metadata,
    Column("id", String(16), primary_key=True),
    Column("tenant", String(64), ForeignKey("tenants.name"), nullable=False, index=True),
    Column("user_name", String(128), nullable=False, unique=True),
    Column("role", String(16), nullable=False),
    Column("secret_sha256", String(64), nullable=False, unique=True),
    Column("invited_by", String(160), nullable=False),
    Column("created_at_ms", BigInteger, nullable=False),
    Column("expires_at_ms", BigInteger, nullable=False, index=True),
)
"""Members to be. A row is gone once its link has been used."""

api_keys = Table(
    "api_keys",
    metadata,
    Column("id", String(16), primary_key=True),
    Column("tenant", String(64), ForeignKey("tenants.name"), nullable=False, index=True),
    Column("name", String(64), nullable=False),
    Column("role", String(16), nullable=False),
    Column("secret_sha256", String(64), nullable=False, unique=True),
    Column("created_at_ms", BigInteger, nullable=False),
    Column("last_used_at_ms", BigInteger),
    Column("expires_at_ms", BigInteger),
    Column("previous_sha256", String(64), unique=True),
    Column("previous_until_ms", BigInteger),
)
"""`previous_...`: the secret before the last rotation, and until when it is still good."""

access_keys = Table(
    "access_keys",
    metadata,
    Column("secret_id", String(40), primary_key=True),
    Column("tenant", String(64), ForeignKey("tenants.name"), nullable=False, index=True),
    Column("name", String(64), nullable=False),
    Column("role", String(16), nullable=False),
    Column("salt", String(64), nullable=False),
    Column("secret_key_sha256", String(64), nullable=False),
    Column("created_at_ms", BigInteger, nullable=False),
    Column("last_used_at_ms", BigInteger),
)
"""Pairs that sign requests. The secret key follows from the deployment's secret and `salt`; its hash tells
whether that is still the secret it was made with."""

sessions = Table(
    "sessions",
    metadata,
    Column("token_sha256", String(64), primary_key=True),
    Column("user_name", String(128), ForeignKey("users.name"), nullable=False, index=True),
    Column("tenant", String(64), ForeignKey("tenants.name"), nullable=False),
    Column("created_at_ms", BigInteger, nullable=False),
    Column("expires_at_ms", BigInteger, nullable=False, index=True),
    Column("last_used_at_ms", BigInteger),
    Column("address", String(64)),
    Column("agent", String(200)),
)
"""`address` and `agent`: where and by which browser the user logged in."""

clusters = Table(
    "clusters",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("revision", BigInteger, nullable=False),
    Column("ceilings", JSON),
    Column("engine", String(16), nullable=False, server_default="builtin"),
    Column("bootstrap", Text),
    Column("kafka_cluster_id", String(64)),
    Column("security", JSON),
    Column("is_drained", Boolean, nullable=False, server_default=false()),
    Column("removed_at_ms", BigInteger),
)
"""Of an Apache Kafka: `bootstrap` is where its operators say that it is, HOST:PORT,...; `kafka_cluster_id`
what it called itself when it was met first; `security` an `UpstreamSecurity`, null: it asks for nothing."""

brokers = Table(
    "brokers",
    metadata,
    Column("cluster_id", String(64), ForeignKey("clusters.id"), primary_key=True),
    Column("node_id", Integer, primary_key=True, autoincrement=False),
    Column("host", String(255), nullable=False),
    Column("port", Integer, nullable=False),
    Column("registered_at_ms", BigInteger, nullable=False),
)

instances = Table(
    "instances",
    metadata,
    Column("id", String(12), primary_key=True),
    Column("tenant", String(64), ForeignKey("tenants.name"), nullable=False),
    Column("name", String(64), nullable=False),
    Column("state", String(16), nullable=False, index=True),
    Column("state_reason", Text),
    Column("cluster_id", String(64), ForeignKey("clusters.id"), nullable=False),
    Column("produce_rate_bytes_per_s", BigInteger, nullable=False),
    Column("consume_rate_bytes_per_s", BigInteger, nullable=False),
    Column("capacity_bytes", BigInteger, nullable=False),
    Column("request_percent", Integer),
    Column("limits", JSON, nullable=False),
    Column("full_behaviour", String(16), nullable=False),
    Column("auto_create_topics", Boolean, nullable=False),
    Column("legacy_clients", Boolean, nullable=False, server_default=false()),
    Column("client_metrics", Boolean, nullable=False, server_default=true()),
    Column("metric_subscriptions", JSON, nullable=False, server_default="[]"),
    Column("allow_all", Boolean, nullable=False),
    Column("whitelist", JSON, nullable=False),
    Column("topic_whitelists", JSON, nullable=False),
    Column("users", JSON, nullable=False, server_default="[]"),
    Column("oauth", JSON),
    Column("acls", JSON, nullable=False, server_default="[]"),
    Column("acls_enforced", Boolean, nullable=False, server_default=false()),
    Column("security_protocols", String(64), nullable=False, server_default="plain"),
    Column("listeners_withheld", Boolean, nullable=False),
    Column("is_held", Boolean, nullable=False, server_default=false()),
    Column("epochs_anew", Boolean, nullable=False, server_default=false()),
    Column("deletion", JSON),
    Column("was_suspended", Boolean, nullable=False, server_default=false()),
    Column("revision", BigInteger, nullable=False),
    Column("created_at_ms", BigInteger, nullable=False),
    Column("updated_at_ms", BigInteger, nullable=False),
    Column("served_at_ms", BigInteger),
    Index(
        "uq_instances_tenant_name_visible",
        "tenant",
        "name",
        unique=True,
        sqlite_where=text("state NOT IN ('deleted', 'purging', 'purged')"),
        postgresql_where=text("state NOT IN ('deleted', 'purging', 'purged')"),
    ),
)

ports = Table(
    "ports",
    metadata,
    Column("bind_host", String(64), primary_key=True),
    Column("port", Integer, primary_key=True, autoincrement=False),
    Column("advertised_host", String(255), nullable=False),
    Column("tenant", String(64), ForeignKey("tenants.name"), nullable=False),
    Column("instance_id", String(12), ForeignKey("instances.id"), nullable=False, index=True),
    Column("node_id", Integer),
    Column("security_protocol", String(16), nullable=False, server_default="plain"),
    Column("freed_at_ms", BigInteger),
)
"""Every endpoint ever given out; `node_id` null: a bootstrap listener; `freed_at_ms` null: in use."""

outbox = Table(
    "outbox",
    metadata,
    Column("revision", BigInteger, primary_key=True, autoincrement=False),
    Column("mark", String(16), nullable=False, server_default=""),
    Column("kind", String(16), nullable=False),
    Column("subject_id", String(64), nullable=False),
    Column("tenant", String(64)),
    Column("at_ms", BigInteger, nullable=False),
)
"""One row per change, written with it: what the feed tells those who follow."""

lineages = Table(
    "lineages",
    metadata,
    Column("feed_id", String(32), primary_key=True),
    Column("parent_feed_id", String(32), nullable=False),
    Column("parent_revision", BigInteger, nullable=False),
    Column("began_at_ms", BigInteger, nullable=False),
)
"""Where each feed of this store went on from another one: the store was restored from an older copy."""

followers = Table(
    "followers",
    metadata,
    Column("consumer", String(128), primary_key=True),
    Column("kind", String(16), nullable=False),
    Column("cluster_id", String(64)),
    Column("node_id", Integer),
    Column("feed_id", String(32), nullable=False),
    Column("applied_revision", BigInteger, nullable=False),
    Column("objections", JSON, nullable=False),
    Column("heard_at_ms", BigInteger, nullable=False),
)
"""What gateways, brokers and masters acknowledged, to whichever control plane of this store."""

control_processes = Table(
    "control_processes",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("url", String(255), nullable=False),
    Column("known_schema", String(32), nullable=False),
    Column("heard_at_ms", BigInteger, nullable=False),
    Column("told", Text, nullable=False),
)
"""Control processes of a shared database: what each was told by followers (`tenants.hearsay`), once a second.
`heard_at_ms` is the database's clock, `known_schema` the newest schema that the process knows."""

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("caller", String(200), primary_key=True),
    Column("key_sha256", String(64), primary_key=True),
    Column("tenant", String(64), nullable=False, index=True),
    Column("fingerprint", String(64), nullable=False),
    Column("token", String(32), nullable=False),
    Column("began_at_ms", BigInteger, nullable=False, index=True),
    Column("subject", String(300)),
    Column("status", Integer),
    Column("headers", JSON),
    Column("body", Text),
)
"""Requests that may be sent again (`tenants.store.idempotency`). `subject`: what was done, written with it;
`status` null: the answer is not there, because the request runs, or its process died."""

operations = Table(
    "operations",
    metadata,
    Column("id", String(24), primary_key=True),
    Column("tenant", String(64), nullable=False),
    Column("kind", String(32), nullable=False),
    Column("instance_id", String(12), nullable=False, index=True),
    Column("revision", BigInteger, nullable=False),
    Column("started_at_ms", BigInteger, nullable=False),
    Column("ended_at_ms", BigInteger, index=True),
    Column("error", Text),
    Index("ix_operations_tenant_started_at_ms", "tenant", "started_at_ms"),
)
"""What takes until gateways or brokers follow. `ended_at_ms` null: running; `error` null: succeeded."""

audit = Table(
    "audit",
    metadata,
    Column("id", COUNTER, primary_key=True, autoincrement=True),
    Column("at_ms", BigInteger, nullable=False),
    Column("actor", String(160), nullable=False),
    Column("tenant", String(64), index=True),
    Column("action", String(64), nullable=False),
    Column("subject", String(300), nullable=False),
    Column("detail", Text, nullable=False),
    Column("address", String(64)),
    Index("ix_audit_subject", "subject", "id"),
)

injected_faults = Table(
    "injected_faults",
    metadata,
    Column("id", String(16), primary_key=True),
    Column("instance_id", String(12), ForeignKey("instances.id"), nullable=False, index=True),
    Column("told", JSON, nullable=False),
    Column("ends_at_ms", BigInteger, nullable=False),
    Column("started_by", String(160), nullable=False),
    Column("ended_at_ms", BigInteger, index=True),
    Column("ended_by", String(160)),
)
"""Faults that tenants have injected; `told` is an `InjectedFault`; null `ended_at_ms`: it is told."""

pipeline_runs = Table(
    "pipeline_runs",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("job", String(64), nullable=False),
    Column("subject", String(300), nullable=False),
    Column("state", String(16), nullable=False, index=True),
    Column("started_at_ms", BigInteger, nullable=False, index=True),
    Column("updated_at_ms", BigInteger, nullable=False),
    Column("heard_at_ms", BigInteger, nullable=False),
    Column("planned", BigInteger, nullable=False),
    Column("done", BigInteger, nullable=False),
    Column("unit", String(32), nullable=False),
    Column("figures", JSON, nullable=False),
    Column("error", Text, nullable=False),
    Index("ix_pipeline_runs_job_started_at_ms", "job", "started_at_ms"),
)
"""The last runs of each pipeline job, as they told of themselves."""

pipeline_jobs = Table(
    "pipeline_jobs",
    metadata,
    Column("job", String(64), primary_key=True),
    Column("succeeded", BigInteger, nullable=False),
    Column("failed", BigInteger, nullable=False),
    Column("last_success_ms", BigInteger),
    Column("heard_at_ms", BigInteger, nullable=False),
)
"""What is counted over all runs of a job, also those that are forgotten."""

pipeline_schedules = Table(
    "pipeline_schedules",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("job", String(16), nullable=False),
    Column("instance_id", String(64)),
    Column("cron", String(100), nullable=False),
    Column("is_paused", Boolean, nullable=False),
    Column("since_ms", BigInteger, nullable=False),
    Column("done_until_ms", BigInteger, nullable=False),
    Column("asked_at_ms", BigInteger),
    Column("state", String(16)),
    Column("runner", String(64)),
    Column("started_at_ms", BigInteger),
    Column("heard_at_ms", BigInteger),
    Column("ended_at_ms", BigInteger),
    Column("error", Text),
)
"""When pipeline jobs run by themselves; from `state` on, how the last run went: null before the first."""

usage_positions = Table(
    "usage_positions",
    metadata,
    Column("cluster_id", String(64), primary_key=True),
    Column("partition", Integer, primary_key=True, autoincrement=False),
    Column("topic_id", String(36), nullable=False),
    Column("next_offset", BigInteger, nullable=False),
)
"""How far topic `usage` is counted into `usage_hours`."""

usage_meters = Table(
    "usage_meters",
    metadata,
    Column("boot_id", String(200), primary_key=True),
    Column("instance_id", String(200), primary_key=True),
    Column("until_ms", BigInteger, nullable=False, index=True),
    Column("produce_bytes_total", BigInteger, nullable=False),
    Column("consume_bytes_total", BigInteger, nullable=False),
)
"""Counters of the brokers, as far as they are counted (`tenants.rules.counted_usage.Meter`)."""

usage_hours = Table(
    "usage_hours",
    metadata,
    Column("instance_id", String(200), primary_key=True),
    Column("hour_start_ms", BigInteger, primary_key=True, autoincrement=False, index=True),
    Column("produce_bytes", BigInteger, nullable=False),
    Column("consume_bytes", BigInteger, nullable=False),
    Column("produce_requests", BigInteger, nullable=False),
    Column("consume_requests", BigInteger, nullable=False),
    Column("refused", BigInteger, nullable=False),
    Column("produce_throttled_ms", BigInteger, nullable=False),
    Column("consume_throttled_ms", BigInteger, nullable=False),
    Column("blocked_ms", BigInteger, nullable=False),
    Column("stored_byte_s", BigInteger, nullable=False),
    Column("recovered_bytes", BigInteger, nullable=False),
    Column("produce_peak_bytes", BigInteger, nullable=False),
    Column("consume_peak_bytes", BigInteger, nullable=False),
    Column("slot_start_ms", BigInteger, nullable=False),
    Column("slot_produce_bytes", BigInteger, nullable=False),
    Column("slot_consume_bytes", BigInteger, nullable=False),
)
"""What instances used, provisionally (`tenants.rules.counted_usage.CountedHour`)."""

written_limits = Table(
    "written_limits",
    metadata,
    Column("instance_id", String(12), primary_key=True),
    Column("revision", BigInteger, nullable=False),
    Column("retention_ms_max", BigInteger, nullable=False),
    Column("message_bytes_max", BigInteger, nullable=False),
)
"""Limits that topics hold in their configs, where brokers know no instances; of one revision of it."""

moves = Table(
    "moves",
    metadata,
    Column("id", String(16), primary_key=True),
    Column("instance_id", String(12), ForeignKey("instances.id"), nullable=False, index=True),
    Column("source", String(64), ForeignKey("clusters.id"), nullable=False),
    Column("target", String(64), ForeignKey("clusters.id"), nullable=False),
    Column("phase", String(16), nullable=False, index=True),
    Column("reason", Text),
    Column("started_by", String(160), nullable=False),
    Column("started_at_ms", BigInteger, nullable=False),
    Column("updated_at_ms", BigInteger, nullable=False),
    Column("held_at_ms", BigInteger),
    Column("tries", Integer, nullable=False),
    Column("copied_bytes", BigInteger, nullable=False),
    Column("total_bytes", BigInteger, nullable=False),
    Column("switched_at_ms", BigInteger),
    Column("gap_ms", Integer),
    Column("fills_gaps", Boolean, nullable=False, server_default=false()),
    Column("copies", JSON, nullable=False),
)
"""Instances that go, or went, from one cluster to another. Of each at most one is not over."""

series_steps = Table(
    "series_steps",
    metadata,
    Column("at_ms", BigInteger, primary_key=True, autoincrement=False),
    Column("data", LargeBinary, nullable=False),
)
"""What was recorded of all instances at each step, until it is in blocks (`tenants.rules.series`)."""

series_blocks = Table(
    "series_blocks",
    metadata,
    Column("instance_id", String(12), primary_key=True),
    Column("step_ms", Integer, primary_key=True, autoincrement=False),
    Column("start_ms", BigInteger, primary_key=True, autoincrement=False),
    Column("data", LargeBinary, nullable=False),
    Index("ix_series_blocks_start", "step_ms", "start_ms"),
)
"""Points of one instance, empty: of the deployment."""

schema_registries = Table(
    "schema_registries",
    metadata,
    Column("instance_id", String(12), ForeignKey("instances.id"), primary_key=True),
    Column("url", Text, nullable=False),
    Column("user", Text, nullable=False),
    Column("password", Text, nullable=False),
    Column("revision", BigInteger, nullable=False),
)
"""Where schemas of an instance's messages are. `password`: sealed with the deployment's secret."""

topic_decodings = Table(
    "topic_decodings",
    metadata,
    Column("instance_id", String(12), ForeignKey("instances.id"), primary_key=True),
    Column("topic", String(249), primary_key=True),
    Column("kind", String(16)),
    Column("schema_text", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column("has_registry_header", Boolean, nullable=False),
    Column("masked_fields", JSON, nullable=False),
    Column("masked_headers", JSON, nullable=False),
    Column("masks_key", Boolean, nullable=False),
)
"""How a topic's messages are read (`tenants.rules.decoding.Decoding`); no row: nobody has said."""

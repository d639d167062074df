"""The tables of docs/security.md, from the code that holds the bounds and causes.

`python -m tests.tidy.bounds_tables --rewrite` renews what stands between the two markers; a test compares it.
"""

import ast
import importlib
import sys
from collections.abc import Iterable, Sequence
from dataclasses import fields
from enum import StrEnum
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from broker.config import BrokerConfig
from broker.groups.group_config import GroupConfig
from broker.requests.causes import CloseCause
from broker.transactions.transaction_config import TransactionConfig
from contracts.specs import Limits
from contracts.units import format_bytes
from gateway.causes import REFUSED_AT_ACCEPT, DisconnectCause
from gateway.config import Timeouts
from runtime.http_limits import HttpLimits
from runtime.internal_http import INTERNAL_LIMITS
from tenants.rules.ceilings import BROKER_DEFAULT, TENANT_DEFAULT, WHAT
from tenants.rules.lifecycle import LIMIT_BOUNDS
from wire.api_table import ApiKey
from wire.request_bounds import USUAL, RequestBound, bound_of

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = ROOT / "docs" / "security.md"
BEGIN: Final = "<!-- begin of what is made from the code: python -m tests.tidy.bounds_tables --rewrite -->"
END: Final = "<!-- end of what is made from the code -->"

_BETWEEN_BROKERS: Final = ("session_timeout_ms", "replica_lag_time_max_ms", "controlled_shutdown_timeout_ms")
_NO_BOUNDS: Final = ("initial_rebalance_delay_ms", "offsets_partitions", "retry_ms")
CONSTANTS: Final[dict[str, tuple[str, ...]]] = {
    "gateway.session.ordering": ("UNANSWERED_MAX",),
    "gateway.session.requests": ("WORK_AT_ONCE", "ANSWERS_AT_ONCE_BYTES"),
    "gateway.kept_answers": ("KEPT_BYTES_MAX",),
    "gateway.served": ("COLLECTED_BYTES_MAX", "WAITING_BYTES_SOFT"),
    "gateway.portions": ("ENTRIES_MAX",),
    "gateway.session.replies": ("COLLECTED_BYTES_MAX",),
    "gateway.rules.topic_ids": ("KNOWN_BEYOND", "UNKNOWN_MAX", "ASKED_MAX"),
    "gateway.rules.client_metrics": ("PUSHED_BYTES_MAX", "READ_BYTES_PER_S", "CLIENTS_MAX", "REPORTS_MAX"),
    "gateway.otlp": ("ENTRIES_MAX",),
    "gateway.reporter": ("CLIENTS_TOLD_MAX",),
    "gateway.rules.connected": ("TOLD_APART_MAX",),
    "contracts.connected": ("TOLD_MAX",),
    "contracts.client_metrics": (
        "SUBSCRIPTIONS_MAX",
        "SUBSCRIPTION_CHARS_MAX",
        "VALUES_MAX",
        "METRIC_CHARS_MAX",
        "TEXT_CHARS_MAX",
    ),
    "tenants.rules.series": ("NAMES_MAX", "BLOCK_NAMES_MAX", "POINTS_MAX"),
    "tenants.rules.series_prometheus": (
        "ANSWER_MS_MAX",
        "ANSWER_BYTES_MAX",
        "UNDER_WAY_MAX",
        "UNDER_WAY_MAX_PER_TENANT",
    ),
    "tenants.rules.client_reports": ("CLIENTS_KEPT", "CLIENTS_KEPT_IN_ALL"),
    "gateway.strangers": ("RATE_US_PER_S",),
    "gateway.handshakes": ("HANDSHAKES_MAX", "HANDSHAKES_CPU_PERCENT"),
    "gateway.rules.client_hello": ("HELLO_BYTES_MAX",),
    "gateway.named_port": ("NAMELESS_US_PER_S",),
    "contracts.injected_faults": ("DELAY_MS_MAX", "DURATION_S_MAX"),
    "gateway.session.fault_marks": ("HELD_BACK_BYTES_MAX",),
    "gateway.rules.injected_faults": ("SEQUENCES_HELD_MAX",),
    "wire.request_bounds": ("SUBSCRIBED_NAMES_MAX",),
    "traffic.turns": ("QUANTUM_NS", "QUANTUM_ALONE_NS"),
    "traffic.cpu": ("CPU_BURST_MS", "CPU_BURST_MIN_US"),
    "traffic.flow": ("BURST_MS", "REPORTED_THROTTLE_MS_MAX"),
    "traffic.verdict": ("STALL_MS_MAX",),
    "runtime.pacing": ("GOING_ON_DEBT_MS",),
    "contracts.request_time": ("REQUEST_PERCENT_FLOOR", "REQUEST_PERCENT_MAX"),
    "contracts.topic_policy": ("SEGMENT_BYTES_MIN", "SEGMENT_MS_MIN"),
    "wire.record_walk": ("COMPRESSED_COUNT_FREE", "COMPRESSED_COUNT_PER_BYTE", "COUNT_MAX"),
    "wire.record_lengths": ("WALKED_HERE_MAX",),
    "wire.compression": ("PAYLOAD_BYTES_MAX",),
    "wire.legacy.message_set": ("MESSAGES_MAX",),
    "wire.legacy.conversion": ("RECORDS_DOWN_MAX", "PAYLOAD_DOWN_MAX", "RECORDS_PER_STEP"),
    "broker.records.legacy_fetching": ("ANSWER_BYTES_MAX",),
    "broker.log.payload": ("SAMPLE_EVERY",),
    "broker.scanning.scanner": ("IN_PROCESS_MAX",),
    "broker.scanning.bench": ("BEGUN_MAX",),
    "broker.net.connection": ("STALLED_MS_MIN",),
    "broker.handlers.describe_groups": ("DESCRIBED_BYTES_MAX",),
    "broker.requests.payer": ("FREE_FETCH_REQUEST_BYTES",),
    "broker.fetches.fetch_sessions": ("PARTITIONS_CACHED_MAX",),
    "broker.coordinators.producer_id_rates": ("IDS_PER_S", "IDS_AT_ONCE"),
    "broker.log.producer_state": ("PRODUCERS_MAX",),
    "broker.log.segment": ("SMALL_SEGMENT_BYTES",),
    "broker.log.log_producers": ("SNAPSHOTS_KEPT",),
    "broker.log.rolling": ("ROLL_AGE_MIN_MS",),
    "broker.log.instance_shares": (
        "SMALL_SEGMENTS_PER_LOG",
        "SMALL_SEGMENTS_PER_INSTANCE",
        "SMALL_SEGMENTS_MIN",
    ),
    "tenants.rules.lifecycle": (
        "RATE_MIN_BYTES_PER_S",
        "RATE_MAX_BYTES_PER_S",
        "CAPACITY_MIN_BYTES",
        "CAPACITY_MAX_BYTES",
        "WHITELIST_ENTRIES_MAX",
    ),
    "tenants.store.injected_faults": ("HISTORY_MAX",),
    "tenants.rules.cidrs": ("TOPIC_WHITELISTS_MAX",),
    "tenants.usecases.accounts": ("KEYS_MAX", "SESSION_MS"),
    "tenants.rules.oidc": ("ATTEMPT_MS_MAX", "SKEW_S", "GROUPS_MAX"),
    "tenants.oidc_provider": ("CALL_MS_MAX", "ANSWER_BYTES_MAX", "EXCHANGES_MAX"),
    "tenants.usecases.sign_in": ("GROUP_ROLES_MAX",),
    "tenants.rules.vports": ("REST_MS", "RESTING_SHARE"),
    "tenants.config": ("DELETION_GRACE_MS",),
    "tenants.app": ("BODY_BYTES_MAX", "STRANGERS_BODY_BYTES_MAX"),
    "tenants.rules.callers": (
        "STREAMS_MAX",
        "STREAMS_MAX_PER_TENANT",
        "STREAMS_MAX_PER_CALLER",
        "REQUESTS_MAX_PER_TENANT",
        "VIEWS_MAX",
        "VIEWS_MAX_PER_TENANT",
        "VIEWS_MAX_PER_INSTANCE",
    ),
    "tenants.rules.message_filter": (
        "EXPRESSION_CHARACTERS_MAX",
        "PATHS_MAX",
        "JSON_BYTES_MAX",
        "WALKED_BYTES_MAX",
        "WALKS_MAX",
        "SEGMENTS_MAX",
    ),
    "tenants.rules.message_scan": (
        "RECORDS_MAX",
        "FETCHED_BYTES_MAX",
        "INFLATED_BYTES_MAX",
        "CPU_MS_MAX",
        "BATCH_BYTES_MAX",
        "KEPT_BYTES_MAX",
        "HEADERS_BYTES_SHOWN",
        "HEADERS_SHOWN_MAX",
    ),
    "tenants.rules.alarms": ("HISTORY_MAX",),
    "tenants.rules.webhook_queue": ("PENDING_MAX", "OPERATORS_PENDING_MAX", "SHARE_MAX"),
    "tenants.rules.webhooks": (
        *(
            "WEBHOOKS_MAX",
            "LOG_MAX",
            "URL_CHARACTERS_MAX",
            "ANSWER_BYTES_MAX",
            "ATTEMPT_MS_MAX",
        ),
    ),
    "tenants.webhook_runner": ("ATTEMPTS_MAX", "ATTEMPTS_MAX_PER_TENANT", "MAIL_ATTEMPTS_MAX"),
    "tenants.mail_sink": ("ATTEMPT_S_MAX", "REPLY_CHARACTERS_MAX"),
    "tenants.rules.mail_addresses": ("ADDRESS_CHARACTERS_MAX",),
    "tenants.rules.mails": (
        "ADDRESSES_MAX",
        "CONFIRMATIONS_MAX_PER_ADDRESS",
        "CONFIRMATIONS_MAX_PER_PAIR",
        "CONFIRMATIONS_MAX_PER_TENANT",
        "CONFIRMATIONS_MAX",
        "MAILS_MAX_PER_ADDRESS",
        "MAILS_MAX_PER_TENANT",
        "MAILS_MAX",
        "OPERATORS_MAILS_MAX_PER_ADDRESS",
        "MAILS_SHARE_MAX",
    ),
    "tenants.rules.decoding": ("SCHEMA_CHARACTERS_MAX", "MASKED_MAX", "TOPICS_MAX"),
    "tenants.decoding.process": (
        "MEMORY_BYTES_MAX",
        "FIELD_CPU_MS_MAX",
        "SCHEMA_CPU_MS_MAX",
        "TEXT_BYTES_MAX",
    ),
    "tenants.decoding.decoder": ("PROCESSES_MAX", "PROCESSES_MAX_PER_TENANT", "SCHEMAS_MAX", "DEATHS_MAX"),
    "tenants.decoding.reading": ("FIELD_BYTES_MAX",),
    "tenants.decoding.registry": (
        *("ANSWER_BYTES_MAX", "ASKED_MAX", "ASKING_MS_MAX", "REFUSED_MAX"),
        *("KEPT_MAX", "KEPT_BYTES_MAX", "KEPT_IN_ALL_MAX", "KEPT_IN_ALL_BYTES_MAX"),
    ),
    "runtime.schema_registry": ("REFERENCES_MAX", "REFERRED_BYTES_MAX"),
    "pipeline.lake.decode.registry": ("ANSWER_BYTES_MAX", "ASK_S_MAX", "ASKING_S_MAX"),
    "pipeline.lake.decode.registered": ("IDS_MAX", "NODES_MAX"),
    "tenants.tenant_http": ("LOOKUPS_MAX", "LOOKUPS_MAX_PER_TENANT", "LOOKUP_MS_MAX"),
    "tenants.alarm_lags": (
        *("GROUPS_OF_INSTANCE_MAX", "GROUPS_MAX", "COMMITTED_OF_INSTANCE_MAX"),
        *("WITHIN_S", "WAIT_OF_TENANT_S"),
    ),
    "tenants.api.message_downloads": ("LIMIT_MAX",),
    "tenants.usecases.messages": ("PARTITIONS_MAX", "VIEW_MS_MAX", "DECODING_MS_MAX"),
    "wire.record_views": ("HEADERS_SEEN_MAX",),
    "tenants.store.idempotency": ("KEPT_MS", "KEYS_MAX_PER_TENANT", "ABANDONED_MS"),
    "tenants.store.operations": ("OPERATIONS_MAX_PER_TENANT",),
    "tenants.usecases.idempotency": ("BODY_BYTES_MAX",),
    "tenants.usecases.access_keys": ("ACCESS_KEYS_MAX",),
    "tenants.ckafka.endpoint": ("BODY_BYTES_MAX",),
    "tenants.ckafka.request.rates": ("CALLS_PER_S",),
    "tenants.ckafka.request.replays": ("MOMENT_MS", "SEEN_MAX_PER_TENANT"),
    "tenants.ckafka.groups": ("GROUPS_LOOKED_AT_MAX",),
    "gateway.rules.logins": ("WRONG_MAX_PER_PAIR", "WRONG_MAX_PER_ADDRESS", "WRONG_ANSWERED_MS_MAX"),
    "tenants.rules.kafka_users": ("USERS_MAX",),
    "contracts.oauth": ("TOKEN_BYTES_MAX", "KEYS_MAX", "KEYS_BYTES_MAX", "RSA_BITS_MAX"),
    "gateway.session.tenant_login": ("TOKEN_HOLDS_MS_MAX",),
    "traffic.login_limit": ("FAILURES_MAX_PER_PAIR", "FAILURES_MAX_PER_ADDRESS"),
    "runtime.metrics": ("THREADS_MAX", "REQUEST_TIMEOUT_S"),
}
"""Bounds that only a change of the code moves, by module."""


def rendered() -> str:
    """Everything between the markers."""
    sections = (
        ("Of an instance", _limits()),
        ("Of a tenant, and of a cluster", _ceilings()),
        ("Of a request", _requests()),
        ("Of a broker", _broker()),
        ("Of consumer groups", _settings(GroupConfig())),
        ("Of transactions", _settings(TransactionConfig())),
        ("Of time, in a gateway", _settings(Timeouts())),
        ("Of the HTTP ports", _http()),
        ("Fixed in the code", _constants()),
        ("Why a gateway ends a connection", _causes(DisconnectCause)),
        ("Why a broker ends a connection", _causes(CloseCause)),
    )
    return "\n\n".join(f"### {title}\n\n{text}" for title, text in sections)


def _limits() -> str:
    defaults = Limits()
    rows = (
        (
            f"`{name}`",
            quantity(name, getattr(defaults, name)),
            " to ".join(quantity(name, end) for end in LIMIT_BOUNDS[name]),
            words(Limits, name),
        )
        for name in Limits.__struct_fields__
    )
    said = "`limits` of an instance in the REST API; `portico instance create` and `resize` set some of them."
    return f"{said}\n\n" + table(("limit", "default", "may be", "what it bounds, and the answer"), rows)


def _ceilings() -> str:
    rows = (
        (
            f"`{name}`",
            quantity(name, getattr(TENANT_DEFAULT, name)),
            quantity(name, getattr(BROKER_DEFAULT, name)),
        )
        for name in WHAT
    )
    said = (
        "`portico tenant set-limits`, `portico cluster set-limits`. Instances are the cluster's and not\n"
        "each broker's; so is capacity where the control plane sees the disk, of which it then is the size."
    )
    return f"{said}\n\n" + table(("sold", "a tenant, in all", "a cluster, per broker"), rows)


def _requests() -> str:
    said = (
        "At most so many list entries and bytes in one request: `request_too_large` at a gateway,\n"
        "`malformed_request` or `frame_too_large` at a broker, which takes what a gateway adds besides.\n"
        f"APIs that are not here may have {USUAL.entries_max:,} entries and {_frame(USUAL.frame_bytes_max)}."
    )
    keys = [key for key in ApiKey if bound_of(key) is not USUAL]
    rows = ((f"{key.name}", _entries(b := bound_of(key)), _frame(b.frame_bytes_max), b.why) for key in keys)
    return f"{said}\n\n" + table(("API", "entries", "frame", "made for"), rows)


def _entries(bound: RequestBound) -> str:
    of_broker = f"{bound.entries_max:,}"
    return f"{bound.in_portions_max:,}, a broker {of_broker}" if bound.in_portions_max else of_broker


def _frame(size_bytes: int | None) -> str:
    return "`request_bytes_max`" if size_bytes is None else quantity("bytes", size_bytes)


def _broker() -> str:
    names = [
        each.name
        for each in fields(BrokerConfig)
        if isinstance(each.default, int)
        and each.name not in _BETWEEN_BROKERS
        and any(part in each.name for part in ("_max", "timeout", "memory", "rate_min"))
    ]
    rows = (
        (
            f"`{name}`",
            quantity(name, _default(BrokerConfig, name)),
            f"`--{name.replace('_', '-')}`",
            words(BrokerConfig, name),
        )
        for name in names
    )
    return table(("setting", "default", "option", "what it bounds"), rows)


def _default(kind: type[Any], name: str) -> Any:
    return next(each.default for each in fields(kind) if each.name == name)


def _settings(config: Any) -> str:
    names = [each.name for each in fields(config) if each.name not in _NO_BOUNDS]
    rows = ((f"`{n}`", quantity(n, getattr(config, n)), words(type(config), n)) for n in names)
    return table(("setting", "value", "what it bounds"), rows)


def _http() -> str:
    public = HttpLimits(port="public")
    names = [each.name for each in fields(HttpLimits) if each.name not in ("port", "proxies")]
    rows = (
        (
            f"`{name}`",
            quantity(name, getattr(public, name)),
            quantity(name, getattr(INTERNAL_LIMITS, name)),
            words(HttpLimits, name),
        )
        for name in names
    )
    return table(("bound", "console", "internal", "what it bounds"), rows)


def _constants() -> str:
    rows = []
    for module, names in CONSTANTS.items():
        for name in names:
            value = getattr(importlib.import_module(module), name)
            place = module.replace(".", "/") + ".py"
            rows.append((f"`{name}`", quantity(name, value), docstrings(place).get(name, ""), f"`{place}`"))
    return table(("constant", "value", "what it bounds", "where"), rows)


def _causes(kind: type[StrEnum]) -> str:
    rows = []
    for cause in kind:
        at_accept = "yes" if cause in REFUSED_AT_ACCEPT and kind is DisconnectCause else ""
        cells = [f"`{cause}`", words(kind, cause.name)]
        rows.append((*cells, at_accept) if kind is DisconnectCause else tuple(cells))
    if kind is DisconnectCause:
        return table(("cause", "what happened", "at accept"), rows)
    return table(("cause", "what happened"), rows)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def words(kind: type[Any], name: str) -> str:
    """The docstring behind a field or member."""
    return docstrings(kind.__module__.replace(".", "/") + ".py").get(f"{kind.__name__}.{name}", "")


@cache
def docstrings(path: str) -> dict[str, str]:
    """Strings behind assignments of a module and its classes, on one line: by `NAME` or `Class.name`."""
    found: dict[str, str] = {}
    tree = ast.parse((ROOT / path).read_text())
    bodies = [("", tree.body)]
    bodies += [(f"{node.name}.", node.body) for node in tree.body if isinstance(node, ast.ClassDef)]
    for prefix, body in bodies:
        for statement, behind in pairwise(body):
            target = (
                statement.targets[0]
                if isinstance(statement, ast.Assign)
                else getattr(statement, "target", None)
            )
            text = behind.value if isinstance(behind, ast.Expr) else None
            if (
                isinstance(target, ast.Name)
                and isinstance(text, ast.Constant)
                and isinstance(text.value, str)
            ):
                found[prefix + target.id] = " ".join(text.value.split())
    return found


def quantity(name: str, value: float) -> str:
    """A number with the unit that its name ends in."""
    lower = name.lower()
    if "bytes" in lower or "payload" in lower:
        return _bytes(int(value), rate="per_s" in lower)
    for unit, per_ms in (("us_per_s", 0.001), ("_us", 0.001), ("_ns", 1e-6), ("_ms", 1.0), ("_s", 1000.0)):
        if lower.endswith(unit) or (unit == "_ms" and "_ms_" in lower):
            if unit == "_s" and "per_s" in lower:
                break
            return _duration(value * per_ms) + (" per second" if unit == "us_per_s" else "")
    return f"{value:,}"


def _bytes(value: int, *, rate: bool) -> str:
    if value >= 1000 and value % 1000 == 0:
        return format_bytes(value, rate=rate)
    for size, unit in ((1024**2, "MiB"), (1024, "KiB")):
        if value >= size and value % size == 0:
            return f"{value // size:,} {unit}" + ("/s" if rate else "")
    return f"{value:,} bytes" + ("/s" if rate else "")


def _duration(value_ms: float) -> str:
    for size_ms, unit in ((86_400_000, "days"), (3_600_000, "h"), (60_000, "min")):
        if value_ms >= size_ms and value_ms % size_ms == 0:
            return f"{value_ms / size_ms:g} {unit}"
    if value_ms >= 1000:
        return f"{value_ms / 1000:g} s"
    return f"{value_ms:g} ms"


def of_page(text: str) -> str:
    """What stands between the markers of a page."""
    return text.split(BEGIN, 1)[1].split(END, 1)[0].strip()


def rewritten(text: str) -> str:
    """The page with its generated part renewed."""
    before, behind = text.split(BEGIN, 1)
    return f"{before}{BEGIN}\n\n{rendered()}\n\n{END}{behind.split(END, 1)[1]}"


if __name__ == "__main__":
    if sys.argv[1:] != ["--rewrite"]:
        raise SystemExit("usage: python -m tests.tidy.bounds_tables --rewrite")
    PAGE.write_text(rewritten(PAGE.read_text()))

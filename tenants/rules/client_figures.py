"""What of a client's metrics the console shows first, by the names that Java's and librdkafka's clients have.
Pure."""

from collections.abc import Mapping
from typing import Final, Literal

from tenants.rules.client_reports import Seen

_PRODUCER: Final = "org.apache.kafka.producer."
_CONSUMER: Final = "org.apache.kafka.consumer."
_FETCH: Final = f"{_CONSUMER}fetch.manager."
_GROUP: Final = f"{_CONSUMER}coordinator."
_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "request_latency_avg_ms": (
        f"{_PRODUCER}request.latency.avg",
        f"{_PRODUCER}node.request.latency.avg",
        f"{_CONSUMER}node.request.latency.avg",
    ),
    "request_latency_max_ms": (
        f"{_PRODUCER}request.latency.max",
        f"{_PRODUCER}node.request.latency.max",
        f"{_CONSUMER}node.request.latency.max",
    ),
    "queue_time_avg_ms": (f"{_PRODUCER}record.queue.time.avg",),
    "queue_time_max_ms": (f"{_PRODUCER}record.queue.time.max",),
    "fetch_latency_avg_ms": (f"{_FETCH}fetch.latency.avg",),
    "fetch_latency_max_ms": (f"{_FETCH}fetch.latency.max",),
    "throttle_time_avg_ms": (f"{_PRODUCER}produce.throttle.time.avg", f"{_FETCH}fetch.throttle.time.avg"),
    "throttle_time_max_ms": (f"{_PRODUCER}produce.throttle.time.max", f"{_FETCH}fetch.throttle.time.max"),
    "retries": (f"{_PRODUCER}record.retry.total",),
    "errors": (f"{_PRODUCER}record.error.total",),
    "lag_records_max": (f"{_FETCH}records.lag.max",),
    "poll_idle_ratio": (f"{_CONSUMER}poll.idle.ratio.avg",),
    "poll_interval_max_ms": (f"{_CONSUMER}time.between.poll.max",),
    "commit_latency_avg_ms": (f"{_GROUP}commit.latency.avg",),
    "rebalances": (f"{_GROUP}rebalance.total",),
    "assigned_partitions": (f"{_GROUP}assigned.partitions",),
}
"""Figure -> metrics, of which the first that the client tells counts."""
_SILENT_PUSHES: Final = 2.5
"""Clients spread their pushes by half an interval."""


def figures(values: Mapping[str, float]) -> dict[str, float | None]:
    """Each figure; None: the client does not tell."""
    return {
        figure: next((values[name] for name in names if name in values), None)
        for figure, names in _OF.items()
    }


def state_of(seen: Seen, now_ms: int) -> Literal["live", "silent", "disconnected", "ended"]:
    """Whether the client is there, as far as its pushes say."""
    if seen.report.is_last:
        return "ended"
    if seen.is_lost:
        return "disconnected"
    is_silent = now_ms - seen.seen_ms > _SILENT_PUSHES * seen.report.push_interval_ms
    return "silent" if is_silent else "live"

"""What the master says of used traffic and storage: one record per point, instance and interval.

Topic `usage` of the system instance has them as `contracts/usage_batches.py` says. Counters of one boot id
only grow, so the totals carry the truth: what a lost record had is the difference between its neighbours.
Times are epoch ms of the master, rates bytes/s of Kafka frames on the wire.
"""

from typing import Annotated, Final

import msgspec

USAGE_VERSION: Final = 2
USAGE_TOPIC: Final = "usage"
"""The system instance's own name of the topic."""

USAGE_RAW: Final = "usage_raw"
"""Accepted records, each once, and rows that fill gaps (`recovered`)."""
USAGE_QUARANTINE: Final = "usage_quarantine"
"""What could not be read or cannot be true, with its raw bytes."""

INTERVAL_MS_DEFAULT: Final = 60_000
INTERVAL_MS_MIN: Final = 1_000
INTERVAL_MS_MAX: Final = 300_000
"""Also the length of the shortest slot that is billed, so a record touches at most two of them."""

Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Identifier = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Grid = Annotated[int, msgspec.Meta(ge=INTERVAL_MS_MIN, le=INTERVAL_MS_MAX)]
COUNT_MAX: Final = 2**62
"""No number is larger: two of them can be added up."""


class UsageRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one instance used on one point in one interval; also when idle, while the point leads partitions.

    Intervals end on multiples of `usage_interval_ms` since the epoch. The first one that a master sees of a
    boot id may start later than the multiple before (its base is the first report seen), and the last one
    may end sooner; intervals of one boot id and instance do not overlap.
    Invariant: `produce_bytes_total - produce_bytes` is the total at the interval's start; for consume too.
    """

    id: Identifier
    """`boot_id/instance_id/interval_start_ms`: a record that is sent again has the same one."""
    point: Identifier
    node_id: int
    cluster_id: str
    boot_id: Identifier
    counted_since_ms: Count
    """When the counters of the boot id were zero; 0: not known."""
    instance_id: Identifier
    interval_start_ms: Count
    interval_ms: Annotated[int, msgspec.Meta(ge=1, le=INTERVAL_MS_MAX)]
    grid_ms: Grid = INTERVAL_MS_DEFAULT
    """The usage interval in force: whole intervals begin and end on its multiples."""
    produce_bytes: Count
    consume_bytes: Count
    produce_bytes_total: Count
    """The counter of the boot id at the interval's end."""
    consume_bytes_total: Count
    produce_requests: Count
    consume_requests: Count
    produce_throttled_ms: Count
    """Time in which clients were held back."""
    consume_throttled_ms: Count
    refused: Count
    """Produce requests refused because the instance was full."""
    stored_bytes: Count
    """At the interval's end, of the partitions that the point leads."""
    stored_byte_ms: Count
    """The integral of stored bytes over the interval."""
    produce_peak_bytes_per_s: Count
    """The highest rate between two reports."""
    consume_peak_bytes_per_s: Count
    produce_rate_bytes_per_s: Count
    """q_i: the point's share of the limit, as applied at the interval's end."""
    consume_rate_bytes_per_s: Count
    produce_limit_bytes_per_s: Count
    """The instance's limit over all points; zero when no spec names the instance any more."""
    consume_limit_bytes_per_s: Count
    capacity_bytes: Count
    partitions_led: Count
    blocked_ms: Count
    """Time in which produce requests were refused because the instance was full."""
    sent_at_ms: Count
    version: int = USAGE_VERSION


def record_id(boot_id: str, instance_id: str, interval_start_ms: int) -> str:
    """The id of a record: the same facts always have the same one."""
    return f"{boot_id}/{instance_id}/{interval_start_ms}"

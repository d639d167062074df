"""What traffic points and the quota master tell each other (quota.md: Who applies it, Safety).

Counters in reports only grow for the life of a boot id; rates are the difference between two reports
over the time between them. Times are epoch ms, rates bytes/s of Kafka frames on the wire.
"""

from enum import StrEnum
from typing import Final

import msgspec

MESSAGE_VERSION: Final = 1


class Direction(StrEnum):
    """The algorithm runs once for each."""

    PRODUCE = "produce"
    CONSUME = "consume"


class DirectionCounters(msgspec.Struct, frozen=True, kw_only=True):
    """Counters of one instance and direction on one point, and the rate it applies now."""

    bytes: int = 0
    requests: int = 0
    throttled_ms: int = 0
    refused: int = 0
    """Produce requests refused because the instance is full."""
    rate_bytes_per_s: int = 0
    """q_i as applied: a new master starts from it."""
    lease_epoch: int = 0


class InstanceTraffic(msgspec.Struct, frozen=True, kw_only=True):
    """One instance on one point. Left out of a report while idle and unchanged."""

    instance_id: str
    produce: DirectionCounters
    consume: DirectionCounters
    partitions_led: int
    stored_bytes: int
    blocked: bool = False
    on_lease: bool = False
    """False: the point fell back to F_i from the last spec it knows."""


class TrafficReport(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """POST /internal/v1/reports, every period (1 s by default)."""

    point: str
    node_id: int
    cluster_id: str
    boot_id: str
    sequence: int
    window_ms: int
    sent_at_ms: int
    full: bool = False
    """True: lists every instance the point leads something of; others are gone."""
    instances: tuple[InstanceTraffic, ...] = ()
    version: int = MESSAGE_VERSION


class Allocation(msgspec.Struct, frozen=True, kw_only=True):
    """A lease: what one point may let through until it expires or a newer epoch arrives."""

    instance_id: str
    lease_epoch: int
    lease_ms: int
    """Valid this long after it was received: no clocks need agree."""
    produce_rate_bytes_per_s: int
    consume_rate_bytes_per_s: int
    produce_share_bytes_per_s: int
    """F_i, the fall-back when the lease ends."""
    consume_share_bytes_per_s: int
    blocked: bool
    stored_bytes: int
    """Of the whole instance, for the refusal's message."""
    stored_left_bytes: int


class ReportAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The master's answer to a report: the allocations of that point."""

    allocations: tuple[Allocation, ...] = ()
    want_full: bool = False
    """The master does not know this boot id: send a full report next."""
    version: int = MESSAGE_VERSION

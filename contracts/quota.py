"""What traffic points and the quota master tell each other (quota.md: Who applies it, Safety).

Counters in reports only grow for the life of a boot id; rates are the difference between two reports
over the time between them. Times are epoch ms. The unit of a direction is bytes of Kafka frames on the wire,
of `cpu` microseconds of CPU time.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Final

import msgspec

MESSAGE_VERSION: Final = 1

Count = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
"""A number that is never negative; anything else is refused when the message is decoded."""
Identifier = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class Direction(StrEnum):
    """The algorithm runs once for each."""

    PRODUCE = "produce"
    CONSUME = "consume"
    CPU = "cpu"
    """CPU time spent on requests, connects and refused logins: request time (ADR 0017)."""


BYTE_DIRECTIONS: Final = (Direction.PRODUCE, Direction.CONSUME)
"""Directions whose unit is the byte: metered, billed, and shared out among those who lead something."""
NO_NODE: Final = -1
"""The node id of a point that is a gateway worker: it leads nothing."""


class FlowCounters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Counters of one instance and direction on one point, and the rate it applies now."""

    used: Count = 0
    """Bytes, or us of CPU. Bytes are those that crossed the tenant's own socket, and they are billed."""
    overhead: Count = 0
    """Charged to the rate beside `used` and billed to nobody: requests to coordinators, what they make a
    broker write into internal topics, large Fetch requests, frames that were cut."""
    requests: Count = 0
    throttled_ms: Count = 0
    """Time in which the bucket was in debt, so that clients were held back: at most 1000 per second."""
    refused: Count = 0
    """Produce requests refused because the instance is full."""
    rate_per_s: Count = 0
    """q_i as applied: a new master starts from it. 0: nothing is limited, no spec is known."""
    lease_epoch: Count = 0


class InstanceTraffic(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One instance on one point. Left out of a report while idle and unchanged."""

    instance_id: Identifier
    produce: FlowCounters
    consume: FlowCounters
    partitions_led: Count
    stored_bytes: Count
    blocked: bool = False
    on_lease: bool = False
    """False: the point fell back to F_i from the last spec it knows."""
    leaders: dict[int, Count] = {}
    """Node id -> partitions of the instance it leads, as the sender's metadata has it; {}: unknown."""
    leaders_version: Count = 0
    """Orders what several points say of leaders: a larger one is newer. See `leaders_version`."""
    refusals: dict[str, Count] = {}
    """Refused requests by error name or close cause; only grow."""
    engine: FlowCounters = FlowCounters()
    """Request time of a broker that tells none itself, as a gateway worker reckons it (ADR 73)."""


class InstanceCpu(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Request time of one instance on one point. Left out of a report while unchanged."""

    instance_id: Identifier
    counters: FlowCounters
    on_lease: bool = False
    """False: the point applies its static share of the last spec it knows."""


class RelayedBroker(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a gateway worker carries to and from one broker that reports nothing itself: an Apache Kafka's."""

    cluster_id: Identifier
    node_id: Count
    instances: tuple[InstanceTraffic, ...] = ()
    """Counters alone: what is led and stored there, the master asks the cluster (ADR 0044)."""


class TrafficReport(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """POST /internal/v1/reports, every period (1 s by default)."""

    point: Identifier
    node_id: int
    """NO_NODE: a gateway worker, which reports request time alone."""
    cluster_id: str
    """The cluster of a broker; a gateway worker serves every cluster and leaves it empty."""
    boot_id: Identifier
    sequence: Annotated[int, msgspec.Meta(ge=1, le=2**62)]
    """1 for the first report of a boot id, then growing."""
    window_ms: Count
    """Since the report before; since the start of the point for sequence 1."""
    sent_at_ms: Count
    uptime_ms: Count = 0
    """Since the counters of the boot id were zero; 0: not told."""
    full: bool = False
    """True: lists every instance the point leads something of; others are gone."""
    instances: tuple[InstanceTraffic, ...] = ()
    cpu: tuple[InstanceCpu, ...] = ()
    relayed: tuple[RelayedBroker, ...] = ()
    """Of a gateway worker."""
    version: int = MESSAGE_VERSION


def leaders_version(controller_epoch: int, leader_epochs: Iterable[int]) -> int:
    """The version of one instance's leaders: it grows with each change, until a topic is deleted.

    `leader_epochs` of every partition of the instance; controllers come and go more rarely.
    """
    return max(0, controller_epoch) * 2**32 + sum(max(0, epoch) + 1 for epoch in leader_epochs)


class Allocation(msgspec.Struct, frozen=True, kw_only=True):
    """A lease: what one point may let through until it expires or a newer epoch arrives."""

    instance_id: str
    lease_epoch: int
    lease_ms: int
    """Valid this long after it was received: no clocks need agree."""
    produce_rate_bytes_per_s: int
    consume_rate_bytes_per_s: int
    partitions_total: int
    """sum(n) of the instance: when the lease ends the point falls back to F_i = T * n_i / sum(n)."""
    blocked: bool
    stored_bytes: int
    """Bytes of the whole instance, for the refusal's message."""
    stored_left_bytes: int
    """Capacity less stored; negative when more is stored than that. The point counts its own appends."""


class CpuAllocation(msgspec.Struct, frozen=True, kw_only=True):
    """A lease of request time, beside and apart from the one of bytes: more points hold it."""

    instance_id: str
    lease_epoch: int
    lease_ms: int
    """Valid this long after it was received."""
    rate_us_per_s: int


class RelayedLease(msgspec.Struct, frozen=True, kw_only=True):
    """What a gateway worker needs to know of one instance on a broker that is not ours."""

    instance_id: str
    cluster_id: str
    node_id: int
    lease_ms: int
    """So long after it was received the worker's parts hold. 0: there are none, F_i is to be applied."""
    partitions_led: int
    partitions_total: int
    """n_i and sum(n), as last known: F_i = T * n_i / sum(n)."""
    blocked: bool
    stored_bytes: int
    """Bytes of the whole instance, for the refusal's message."""
    produce_rate_bytes_per_s: int = 0
    """The worker's part of q_i; 0: none."""
    consume_rate_bytes_per_s: int = 0
    quotas_stand: bool = False
    """Whether the broker's own quotas, somewhat above q_i, bound all workers together."""


class ReportAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The master's answer to a report: the allocations of that point."""

    allocations: tuple[Allocation, ...] = ()
    cpu: tuple[CpuAllocation, ...] = ()
    relayed: tuple[RelayedLease, ...] = ()
    gateways: int = 0
    """Gateway workers that the master has heard of lately: each has a part of half of T. 0: not told."""
    want_full: bool = False
    """The master does not know this boot id: send a full report next."""
    period_ms: int = 1_000
    """When to send the next one."""
    version: int = MESSAGE_VERSION

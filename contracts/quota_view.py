"""What the console and its pages show of one instance's quota: inputs, the rule that fired, and results.

The letters of the quota rule (docs/quota.md) are spelled out: T `purchased`, r `rate`, F `share`,
P `proportion`, q `allocated`, n `partitions_led`; rates in bytes/s, of request time in us of CPU per second.
Times are epoch ms.
"""

from enum import StrEnum
from typing import Final

import msgspec

MESSAGE_VERSION: Final = 1


class Rule(StrEnum):
    """Which step of the rule set q in the last decision of one direction."""

    NO_BROKERS = "no_brokers"
    """No broker has reported that it leads anything: nothing to share out."""
    HOLD = "hold"
    """A new master has not yet seen two reports of every broker: each keeps the q it applies."""
    BELOW_GATE = "below_gate"
    """Step 3: every broker is below 80 % of its share: q = F."""
    RATIO_MET = "ratio_met"
    """Step 5a: Pmin / Pmax >= 0.8: q = P."""
    HEADROOM = "headroom"
    """Step 5b: the busiest get P, the others min(P + 0.1 Pmax, Pmax)."""
    LEVEL = "level"
    """Policy `fair`: more is wanted than T: nobody gets more than the water level."""
    ROOM = "room"
    """Policy `fair`: everybody gets what it wants, and some of what is left."""
    STATIC = "static"
    """Policy `static`: q = F always."""


class PointFlow(msgspec.Struct, frozen=True, kw_only=True):
    """One point and direction."""

    rate_per_s: int
    """r: what was used between the last two reports over the time between them."""
    share_per_s: int
    """F: T * n_i / sum(n); of request time by `contracts.request_time.Weights`."""
    proportion_per_s: int
    """P: T * r_i / sum(r); 0 while nothing flows, and for a silent point."""
    allocated_per_s: int
    """q as decided last; a silent point's is its reserved F."""
    applied_per_s: int
    """The rate the point said it applies, in its last report."""
    throttled_ms_per_s: int
    """Milliseconds of each second in which clients were held back (0-1000)."""
    below_gate: bool
    """r < 0.8 F."""
    used_total: int
    """Since the point started."""
    refused_total: int
    """Produce requests refused because the instance was full, since the broker started."""


class BrokerQuota(msgspec.Struct, frozen=True, kw_only=True):
    """One broker that leads partitions of the instance."""

    point: str
    node_id: int
    partitions_led: int
    stored_bytes: int
    silent: bool
    """No report for three periods: out of the rule, its share stays reserved."""
    on_lease: bool
    """False: the broker fell back to its share F, because its lease ended or it never had one."""
    blocked: bool
    """Whether the broker says that it refuses Produce."""
    lease_epoch: int
    report_age_ms: int
    produce: PointFlow
    consume: PointFlow
    refusals: dict[str, int] = {}
    """Requests refused since the broker started, by error or close cause: they were charged all the same."""


class DirectionQuota(msgspec.Struct, frozen=True, kw_only=True):
    """The decision for one direction, with what it was decided from."""

    purchased_per_s: int
    """T."""
    rate_per_s: int
    """sum(r)."""
    allocated_per_s: int
    """sum(q), reserved shares of silent points included."""
    rule: Rule
    explanation: str
    """One sentence for people, with the numbers that made the rule fire."""
    reserved_per_s: int
    """sum(F) of the silent points; the others shared T minus this."""
    p_min_per_s: int
    p_max_per_s: int
    p_ratio: float | None
    """Pmin / Pmax; None while nothing flows."""
    throttled_ms_per_s: int
    """The largest of the points'."""


class CpuPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One broker or gateway worker that spent CPU time on the instance lately."""

    point: str
    node_id: int
    """-1: a gateway worker."""
    silent: bool
    on_lease: bool
    """False: it applies its static share F."""
    lease_epoch: int
    report_age_ms: int
    flow: PointFlow


class CpuQuota(msgspec.Struct, frozen=True, kw_only=True):
    """Request time (ADR 0017)."""

    request_percent: int
    """T in percent of one core over the whole cluster."""
    total: DirectionQuota
    points: tuple[CpuPoint, ...] = ()
    """Brokers in order of node id, then gateway workers."""
    idle_points: int = 0
    """Others at which the tenant may turn up: each applies its static share."""
    idle_share_per_s: int = 0
    """The sum of those shares."""


class HistoryDirection(msgspec.Struct, frozen=True, kw_only=True):
    """Series of one point and direction, aligned with `History.at_ms`; None where it took no part."""

    rate_per_s: list[int | None] = []
    share_per_s: list[int | None] = []
    proportion_per_s: list[int | None] = []
    allocated_per_s: list[int | None] = []
    throttled_ms_per_s: list[int | None] = []


class HistoryBroker(msgspec.Struct, frozen=True, kw_only=True):
    """Series of one broker."""

    node_id: int
    produce: HistoryDirection
    consume: HistoryDirection


class HistoryCpu(msgspec.Struct, frozen=True, kw_only=True):
    """Request time of one point."""

    point: str
    flow: HistoryDirection


class History(msgspec.Struct, frozen=True, kw_only=True):
    """The last hour at most, oldest first: every second for ten minutes, every ten seconds before that."""

    at_ms: list[int] = []
    stored_bytes: list[int] = []
    blocked: list[bool] = []
    brokers: tuple[HistoryBroker, ...] = ()
    cpu: tuple[HistoryCpu, ...] = ()


class QuotaView(msgspec.Struct, frozen=True, kw_only=True):
    """GET /internal/v1/instances/{id}/quota?seconds=N (N = 0: no history)."""

    instance_id: str
    at_ms: int
    policy: str
    period_ms: int
    capacity_bytes: int
    stored_bytes: int
    stored_left_bytes: int
    unblock_below_bytes: int
    """A blocked instance takes produce again when it stores less than this."""
    blocked: bool
    produce: DirectionQuota
    consume: DirectionQuota
    cpu: CpuQuota
    brokers: tuple[BrokerQuota, ...] = ()
    """In order of node id."""
    history: History = History()
    version: int = MESSAGE_VERSION


class EngineView(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster whose own client quotas limit its instances: an Apache Kafka."""

    cluster_id: str
    trouble: str | None
    """Why they are not those of the leases; None: they are."""
    quotas: int
    """Instances at brokers that have some."""


class QuotaOverview(msgspec.Struct, frozen=True, kw_only=True):
    """GET /internal/v1/quota: every instance, without history, in order of id."""

    at_ms: int
    policy: str
    instances: tuple[QuotaView, ...] = ()
    engines: tuple[EngineView, ...] = ()
    version: int = MESSAGE_VERSION


class PolicySetting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """GET and PUT /internal/v1/policy: the operator's choice of rule, for all instances."""

    policy: str
    """`static`, `seed`, `capped` or `fair`."""

"""What the console and its pages show of one instance's quota: inputs, the rule that fired, and results.

The letters of the quota rule (docs/quota.md) are spelled out: T `purchased`, r `rate`, F `share`,
P `proportion`, q `allocated`, n `partitions_led`; all rates in bytes/s. Times are epoch ms.
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


class BrokerDirection(msgspec.Struct, frozen=True, kw_only=True):
    """One broker and direction."""

    rate_bytes_per_s: int
    """r: bytes between the last two reports over the time between them."""
    share_bytes_per_s: int
    """F: T * n_i / sum(n)."""
    proportion_bytes_per_s: int
    """P: T * r_i / sum(r); 0 while nothing flows, and for a silent broker."""
    allocated_bytes_per_s: int
    """q as decided last; a silent broker's is its reserved F."""
    applied_bytes_per_s: int
    """The rate the broker said it applies, in its last report."""
    throttled_ms_per_s: int
    """Milliseconds of each second in which clients were held back (0-1000)."""
    below_gate: bool
    """r < 0.8 F."""
    bytes_total: int
    """Since the broker started."""
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
    """As the broker says."""
    lease_epoch: int
    report_age_ms: int
    produce: BrokerDirection
    consume: BrokerDirection


class DirectionQuota(msgspec.Struct, frozen=True, kw_only=True):
    """The decision for one direction, with what it was decided from."""

    purchased_bytes_per_s: int
    """T."""
    rate_bytes_per_s: int
    """sum(r)."""
    allocated_bytes_per_s: int
    """sum(q), reserved shares of silent brokers included."""
    rule: Rule
    explanation: str
    """One sentence for people, with the numbers that made the rule fire."""
    reserved_bytes_per_s: int
    """sum(F) of the silent brokers; the others shared T minus this."""
    p_min_bytes_per_s: int
    p_max_bytes_per_s: int
    p_ratio: float | None
    """Pmin / Pmax; None while nothing flows."""
    throttled_ms_per_s: int
    """The largest of the brokers'."""


class HistoryDirection(msgspec.Struct, frozen=True, kw_only=True):
    """Series of one broker and direction, aligned with `History.at_ms`; None where it led nothing."""

    rate_bytes_per_s: list[int | None] = []
    share_bytes_per_s: list[int | None] = []
    proportion_bytes_per_s: list[int | None] = []
    allocated_bytes_per_s: list[int | None] = []
    throttled_ms_per_s: list[int | None] = []


class HistoryBroker(msgspec.Struct, frozen=True, kw_only=True):
    """Series of one broker."""

    node_id: int
    produce: HistoryDirection
    consume: HistoryDirection


class History(msgspec.Struct, frozen=True, kw_only=True):
    """The last hour at most, oldest first: every second for ten minutes, every ten seconds before that."""

    at_ms: list[int] = []
    stored_bytes: list[int] = []
    blocked: list[bool] = []
    brokers: tuple[HistoryBroker, ...] = ()


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
    brokers: tuple[BrokerQuota, ...] = ()
    """In order of node id."""
    history: History = History()
    version: int = MESSAGE_VERSION


class QuotaOverview(msgspec.Struct, frozen=True, kw_only=True):
    """GET /internal/v1/quota: every instance, without history, in order of id."""

    at_ms: int
    policy: str
    instances: tuple[QuotaView, ...] = ()
    version: int = MESSAGE_VERSION


class PolicySetting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """GET and PUT /internal/v1/policy: the operator's choice of rule, for all instances."""

    policy: str
    """`static`, `seed`, `capped` or `fair`."""

"""Request time of one instance on one point: its flow, and the lease or the static share that sets the rate.

Apart from the leases of bytes, because more points hold it: also brokers that lead nothing of the instance,
and gateway workers, which know nothing of partitions.
"""

from typing import Final

from contracts.quota import CpuAllocation, FlowCounters, InstanceCpu
from contracts.request_time import Weights
from traffic.flow import UNLIMITED, Flow
from traffic.saved import SavedCpu

CPU_BURST_MS: Final = 1_000
"""What a bucket of request time holds when full, in time of its rate: connects and logins come in bursts."""
CPU_BURST_MIN_US: Final = 50_000
"""And at least: with many workers the share of one is small, and clients come to it before its lease."""
RATE_MIN_US_PER_S: Final = 100
"""A share that rounds to nothing still lets a request pass each few seconds: every debt is paid some day."""
NEVER_MS: Final = 2**62


def broker_share(purchased_us_per_s: int, *, brokers: int, led: int, others_led: int | None) -> int:
    """F of a broker; `others_led` None: never told who leads what, so all brokers are taken to be alike."""
    partitions = 0 if others_led is None else led + others_led
    weights = Weights(brokers=brokers, partitions=partitions, gateways=1)
    return purchased_us_per_s * weights.broker(0 if others_led is None else led) // weights.total


def gateway_share(purchased_us_per_s: int, *, gateways: int) -> int:
    """F of a gateway worker."""
    weights = Weights(brokers=1, partitions=0, gateways=gateways)
    return purchased_us_per_s * weights.gateway // weights.total


class CpuShare:
    """Invariant: once a share is known the flow is limited, never unlimited and never zero."""

    __slots__ = ("acknowledged", "flow", "lease_ends_at_ms", "lease_epoch", "on_lease")

    def __init__(self) -> None:
        self.flow = Flow(CPU_BURST_MS, CPU_BURST_MIN_US)
        self.on_lease = False
        self.lease_epoch = 0
        self.lease_ends_at_ms = NEVER_MS
        """Only meaningful while `on_lease`; NEVER_MS otherwise, so that the hot path has one comparison."""
        self.acknowledged: tuple[object, ...] | None = None
        """What the master is known to have, see `state`."""

    def apply(self, allocation: CpuAllocation, now_ms: int) -> bool:
        """Take a lease; whether the rate changed. An older epoch is ignored."""
        if allocation.lease_epoch < self.lease_epoch:
            return False
        self.lease_epoch = allocation.lease_epoch
        self.on_lease = True
        self.lease_ends_at_ms = now_ms + allocation.lease_ms
        return self.flow.set_rate(max(RATE_MIN_US_PER_S, allocation.rate_us_per_s), now_ms)

    def end_lease(self) -> None:
        """Its rate stays until another one is set."""
        self.on_lease = False
        self.lease_ends_at_ms = NEVER_MS

    def fall_back(self, share_us_per_s: int, now_ms: int) -> bool:
        """No lease, or it ended: the static share applies until one comes. Whether the rate changed."""
        self.end_lease()
        return self.flow.set_rate(max(RATE_MIN_US_PER_S, share_us_per_s), now_ms)

    def hold(self, now_ms: int) -> None:
        """The instance is gone, its spec was never known: what was never told a rate gets the lowest one."""
        if self.flow.rate_per_s == UNLIMITED:
            self.flow.set_rate(RATE_MIN_US_PER_S, now_ms)

    # -- reports ------------------------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """Nothing was ever spent here: of no interest to a master that never heard of it."""
        return not self.flow.requests

    def state(self) -> tuple[object, ...]:
        """Everything a change of which must reach the master."""
        return self.flow.used, self.flow.requests, self.flow.throttled_ms, self.on_lease

    def is_due(self, *, full: bool) -> bool:
        """Whether the next report lists it."""
        if full or self.acknowledged is None:
            return not self.is_idle
        return self.state() != self.acknowledged

    def told(self, instance_id: str) -> InstanceCpu:
        """Its part of a report."""
        flow = self.flow
        return InstanceCpu(
            instance_id=instance_id,
            counters=FlowCounters(
                used=flow.used,
                requests=flow.requests,
                throttled_ms=flow.throttled_ms,
                rate_per_s=flow.rate_per_s,
                lease_epoch=self.lease_epoch,
            ),
            on_lease=self.on_lease,
        )

    # -- what survives a restart ----------------------------------------------------------------------

    def save(self, now_ms: int) -> SavedCpu:
        """Lease and bucket, for the disk."""
        self.flow.settle(now_ms)
        return SavedCpu(
            lease_epoch=self.lease_epoch,
            lease_left_ms=max(0, self.lease_ends_at_ms - now_ms) if self.on_lease else 0,
            rate_us_per_s=self.flow.rate_per_s,
            balance_us=self.flow.balance,
        )

    def restore(self, saved: SavedCpu, elapsed_ms: int, now_ms: int) -> None:
        """Go on where the run before stopped, `elapsed_ms` ago. Before any charge."""
        self.lease_epoch = saved.lease_epoch
        if saved.rate_us_per_s == UNLIMITED:
            return
        self.flow.set_rate(saved.rate_us_per_s, now_ms)
        self.flow.resume(saved.balance_us + saved.rate_us_per_s * elapsed_ms // 1000)
        left_ms = saved.lease_left_ms - elapsed_ms
        if left_ms > 0:
            self.on_lease = True
            self.lease_ends_at_ms = now_ms + left_ms

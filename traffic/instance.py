"""One instance on one traffic point: its flows of bytes, the lease that sets their rates, the block.

Request time has a lease of its own: `traffic.cpu`.
"""

from collections.abc import Mapping
from typing import Final

from contracts.quota import Allocation, InstanceTraffic
from contracts.specs import FullBehaviour, InstanceSpec
from traffic.cpu import CpuShare
from traffic.flow import UNLIMITED, Flow
from traffic.saved import SavedInstance
from traffic.verdict import ADMIT, Admit, Full, full_message

RATE_MIN_BYTES_PER_S: Final = 1
"""A share that rounds to nothing is still not zero: every debt is paid some day."""
NEVER_MS: Final = 2**62


class InstancePoint:
    """What one point knows of one instance.

    Invariant: once a spec is known both flows are limited, by the lease's rates until it ends and by F_i
    after that; never unlimited, never zero. The lease epoch never decreases.
    """

    __slots__ = (
        "_base_left_bytes",
        "_base_own_bytes",
        "_base_stored_bytes",
        "_has_base",
        "_led_stored_bytes",
        "_unblock_fraction",
        "acknowledged",
        "blocked",
        "consume",
        "cpu",
        "instance_id",
        "internal",
        "is_held",
        "is_purged",
        "leaders",
        "leaders_version",
        "lease_ends_at_ms",
        "lease_epoch",
        "on_lease",
        "others_led",
        "own_stored_bytes",
        "partitions_led",
        "produce",
        "refusals",
        "spec",
        "told_partitions_led",
        "told_stored_bytes",
    )

    def __init__(self, instance_id: str, unblock_fraction: float) -> None:
        self.instance_id = instance_id
        self.produce = Flow()
        self.consume = Flow()
        self.cpu = CpuShare()
        self.internal = Flow()
        """Requests to coordinators and what they make the broker write into internal topics, at the produce
        rate. They are charged to `produce` too, but wait for each other alone: producers over their rate
        must not cost consumers their sessions."""
        self.refusals: dict[str, int] = {}
        """Requests that were refused, by error or close cause."""
        self.spec: InstanceSpec | None = None
        self.is_held = False
        """Deleted or absent: it keeps its rates, block and counters, and may come back."""
        self.is_purged = False
        self.blocked = False
        self.on_lease = False
        self.lease_epoch = 0
        self.lease_ends_at_ms = NEVER_MS
        """Only meaningful while `on_lease`; NEVER_MS otherwise, so that the hot path has one comparison."""
        self.partitions_led = 0
        self.own_stored_bytes = 0
        """Log sizes of the partitions led here: as measured last, plus appended since."""
        self.told_partitions_led = 0
        self.told_stored_bytes = 0
        """Both as the last report listed them: the master's figures are based on them."""
        self.leaders: Mapping[int, int] = {}
        """Node id -> partitions it leads, as this broker's metadata has it; empty: unknown."""
        self.leaders_version = 0
        self.acknowledged: tuple[object, ...] | None = None
        """What the master is known to have, see `state`."""
        self.others_led: int | None = None
        """Partitions led by other points, by our metadata or else by the master; None: never told."""
        self._base_stored_bytes = 0
        self._base_left_bytes: int | None = None
        self._base_own_bytes = 0
        """The whole instance's figures from the last allocation and our own part in them."""
        self._has_base = False
        """Whether an allocation of this run set those figures."""
        self._unblock_fraction = unblock_fraction

    # -- capacity -----------------------------------------------------------------------------------

    @property
    def stored_bytes(self) -> int:
        """Bytes of the whole instance, as far as is known here: others' part is from the last allocation."""
        return self._base_stored_bytes + self.own_stored_bytes - self._base_own_bytes

    @property
    def left_bytes(self) -> int | None:
        """Capacity less stored; None while no capacity is known."""
        if self._base_left_bytes is None:
            return None
        return self._base_left_bytes - (self.own_stored_bytes - self._base_own_bytes)

    def count_appended(self, size_bytes: int) -> None:
        """Records went into a log: block at once when they fill the instance."""
        self.own_stored_bytes += size_bytes
        left = self._base_left_bytes
        if left is not None and self.own_stored_bytes - self._base_own_bytes >= left:
            self.blocked = True

    def set_led(self, partitions_led: int, stored_bytes: int) -> None:
        """The broker measured its logs. Lifts a block when deletion made room, without asking the master."""
        self.partitions_led = partitions_led
        self.own_stored_bytes = stored_bytes
        self._check_block()

    def move_leadership(self, partitions: int, stored_bytes: int) -> None:
        """Partitions came to be led here, or (negative) ceased to be, with logs of so many bytes.

        They were stored before and are stored after: a move neither fills nor frees the instance. Before the
        first allocation of a run nothing is known of the others, so what is led counts as it comes.
        """
        self.partitions_led += partitions
        self.own_stored_bytes = max(0, self.own_stored_bytes + stored_bytes)
        assert self.partitions_led >= 0
        self.told_stored_bytes += stored_bytes  # an answer under way does not know of the move
        if self._has_base:
            self._base_own_bytes += stored_bytes
        self._check_block()

    def set_leaders(self, leaders: Mapping[int, int], version: int, node_id: int) -> None:
        """What the cluster's metadata says of the instance's leaders, see `contracts.quota`."""
        self.leaders = leaders
        self.leaders_version = version
        self.others_led = sum(leaders.values()) - leaders.get(node_id, 0)

    def _check_block(self) -> None:
        left = self.left_bytes
        if left is None or self.spec is None:
            return
        if left <= 0:
            self.blocked = True
        elif self.blocked and self.stored_bytes < int(self.spec.capacity_bytes * self._unblock_fraction):
            self.blocked = False

    def verdict(self) -> Admit | Full:
        """Whether a Produce request may append. A refusal is counted."""
        if not self.blocked:
            return ADMIT
        self.produce.refused += 1
        stored = self.stored_bytes
        capacity = self.spec.capacity_bytes if self.spec is not None else stored + (self.left_bytes or 0)
        behaviour = self.spec.full_behaviour if self.spec is not None else FullBehaviour.REJECT
        return Full(full_message(self.instance_id, stored, capacity), behaviour)

    def refuse(self, reason: str, count: int) -> None:
        """Count refused requests."""
        self.refusals[reason] = self.refusals.get(reason, 0) + count

    def charge_internal(self, size_bytes: int, now_ms: int) -> None:
        """Charge what a coordinator's request carries, or makes the broker write."""
        self.internal.charge(size_bytes, now_ms)
        self.produce.spend(size_bytes, now_ms)

    # -- rates --------------------------------------------------------------------------------------

    def set_spec(self, spec: InstanceSpec, broker_count: int, now_ms: int) -> bool:
        """Another revision of the spec; whether a rate or the block changed."""
        before = self._effects()
        if self.is_held or self.is_purged:
            self.is_held = self.is_purged = False
            # The master may have forgotten it: tell all of it again.
            self.acknowledged = self.cpu.acknowledged = None
        old_capacity = self.spec.capacity_bytes if self.spec is not None else None
        self.spec = spec
        if self._base_left_bytes is None or old_capacity is None:
            self._base_left_bytes = spec.capacity_bytes - self._base_stored_bytes
        else:
            self._base_left_bytes += spec.capacity_bytes - old_capacity
        self._check_block()
        if not self.on_lease:
            self._apply_share(broker_count, now_ms)
        return self._effects() != before

    def hold(self, now_ms: int) -> None:
        """Nobody is served now. What was never told a rate gets the lowest one, not none."""
        self.is_held = True
        if self.spec is None:
            for flow in (self.produce, self.internal, self.consume):
                if flow.rate_per_s == UNLIMITED:
                    flow.set_rate(RATE_MIN_BYTES_PER_S, now_ms)
            self.cpu.hold(now_ms)

    def apply(self, allocation: Allocation, now_ms: int) -> bool:
        """Take a lease; whether a rate or the block changed. An older epoch is ignored altogether."""
        if allocation.lease_epoch < self.lease_epoch:
            return False
        before = self._effects()
        self.lease_epoch = allocation.lease_epoch
        self.on_lease = True
        self.lease_ends_at_ms = now_ms + allocation.lease_ms
        if not self.leaders:
            self.others_led = max(0, allocation.partitions_total - self.told_partitions_led)
        self._base_stored_bytes = allocation.stored_bytes
        self._base_left_bytes = allocation.stored_left_bytes
        self._base_own_bytes = self.told_stored_bytes
        self._has_base = True
        self._set_produce_rate(allocation.produce_rate_bytes_per_s, now_ms)
        self.consume.set_rate(max(RATE_MIN_BYTES_PER_S, allocation.consume_rate_bytes_per_s), now_ms)
        self.blocked = allocation.blocked
        self._check_block()
        return self._effects() != before

    def keep_time(self, broker_count: int, now_ms: int) -> None:
        """Once a period: a lease that ended, a share that leaders' moves changed, what time has earned."""
        if now_ms >= self.lease_ends_at_ms or not self.on_lease:
            self.fall_back(broker_count, now_ms)
        self.produce.settle(now_ms)
        self.consume.settle(now_ms)
        self.internal.settle(now_ms)

    def fall_back(self, broker_count: int, now_ms: int) -> bool:
        """The lease ended: F_i of the last spec known, until another lease comes. A block stays in force."""
        before = self._effects()
        self.on_lease = False
        self.lease_ends_at_ms = NEVER_MS
        self._apply_share(broker_count, now_ms)
        return self._effects() != before

    def _apply_share(self, broker_count: int, now_ms: int) -> None:
        if self.spec is None:
            return
        self._set_produce_rate(self._share(self.spec.produce_rate_bytes_per_s, broker_count), now_ms)
        share = self._share(self.spec.consume_rate_bytes_per_s, broker_count)
        self.consume.set_rate(max(RATE_MIN_BYTES_PER_S, share), now_ms)

    def _set_produce_rate(self, rate_bytes_per_s: int, now_ms: int) -> None:
        for flow in (self.produce, self.internal):
            flow.set_rate(max(RATE_MIN_BYTES_PER_S, rate_bytes_per_s), now_ms)

    def _share(self, purchased: int, broker_count: int) -> int:
        """F_i = T * n_i / sum(n), with the others' partitions as last known; T / brokers when never told.

        A point that leads nothing counts as one partition: a misdirected produce must not mute for hours.
        """
        if self.others_led is None:
            return purchased // max(1, broker_count)
        own = max(1, self.partitions_led)
        return purchased * own // (own + self.others_led)

    def _effects(self) -> tuple[int, int, bool]:
        return self.produce.rate_per_s, self.consume.rate_per_s, self.blocked

    # -- reports ------------------------------------------------------------------------------------

    def state(self) -> tuple[object, ...]:
        """Everything a change of which must reach the master."""
        return (
            self.produce.used,
            self.produce.overhead,
            self.produce.throttled_ms,
            self.produce.refused,
            sum(self.refusals.values()),
            self.consume.used,
            self.consume.overhead,
            self.consume.throttled_ms,
            self.partitions_led,
            self.own_stored_bytes,
            self.blocked,
            self.on_lease,
            self.leaders,
            self.leaders_version,
        )

    @property
    def is_idle(self) -> bool:
        """Nothing led and nothing carried: of no interest to a master that never heard of it."""
        carried = self.produce.used + self.produce.overhead
        carried += self.consume.used + self.consume.overhead
        return not (self.partitions_led or self.own_stored_bytes or carried or self.refusals)

    def traffic(self) -> InstanceTraffic:
        """This instance's part of a report; remembers what it told."""
        self.told_partitions_led = self.partitions_led
        self.told_stored_bytes = self.own_stored_bytes
        return InstanceTraffic(
            instance_id=self.instance_id,
            produce=self.produce.counters(self.lease_epoch),
            consume=self.consume.counters(self.lease_epoch),
            partitions_led=self.partitions_led,
            stored_bytes=self.own_stored_bytes,
            blocked=self.blocked,
            on_lease=self.on_lease,
            leaders=dict(self.leaders),
            leaders_version=self.leaders_version,
            refusals=dict(self.refusals),
        )

    # -- what survives a restart ----------------------------------------------------------------------

    def save(self, now_ms: int) -> SavedInstance:
        """Leases, block and debts, for the disk."""
        self.produce.settle(now_ms)
        self.consume.settle(now_ms)
        return SavedInstance(
            instance_id=self.instance_id,
            lease_epoch=self.lease_epoch,
            lease_left_ms=max(0, self.lease_ends_at_ms - now_ms) if self.on_lease else 0,
            produce_rate_bytes_per_s=self.produce.rate_per_s,
            consume_rate_bytes_per_s=self.consume.rate_per_s,
            produce_debt_bytes=self.produce.debt,
            consume_debt_bytes=self.consume.debt,
            others_led=self.others_led,
            blocked=self.blocked,
            stored_bytes=self.stored_bytes,
            left_bytes=self.left_bytes,
            own_stored_bytes=self.own_stored_bytes,
            cpu=self.cpu.save(now_ms),
        )

    def restore(self, saved: SavedInstance, elapsed_ms: int, broker_count: int, now_ms: int) -> None:
        """Go on where the run before stopped, `elapsed_ms` ago. Before any charge."""
        self.lease_epoch = saved.lease_epoch
        self.others_led = saved.others_led
        self._base_stored_bytes = saved.stored_bytes
        self._base_left_bytes = saved.left_bytes
        self._base_own_bytes = self.own_stored_bytes = saved.own_stored_bytes
        self.blocked = saved.blocked
        self.cpu.restore(saved.cpu, elapsed_ms, now_ms)
        left_ms = saved.lease_left_ms - elapsed_ms
        for flow, rate, debt in (
            (self.produce, saved.produce_rate_bytes_per_s, saved.produce_debt_bytes),
            (self.consume, saved.consume_rate_bytes_per_s, saved.consume_debt_bytes),
        ):
            if rate != UNLIMITED:
                if flow is self.produce:
                    self.internal.set_rate(rate, now_ms)
                flow.set_rate(rate, now_ms)
                flow.resume(min(0, rate * elapsed_ms // 1000 - debt))
        if left_ms > 0:
            self.on_lease = True
            self.lease_ends_at_ms = now_ms + left_ms
        else:
            self.fall_back(broker_count, now_ms)

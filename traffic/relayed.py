"""What a gateway worker carries to and from brokers that hold no traffic point of ours (ADR 0044).

The brokers limit each instance themselves, by client quotas that the master sets; here bytes are counted.
While no lease says that the quotas stand, the worker limits the instance itself, to F_i of the spec it knows.
"""

from collections.abc import Iterable
from typing import Final

from contracts.quota import Direction, InstanceTraffic, RelayedBroker, RelayedLease
from contracts.specs import InstanceSpec, InstanceState
from traffic.flow import UNLIMITED, Flow
from traffic.verdict import Full, full_message

RATE_MIN_BYTES_PER_S: Final = 1
_NEVER_MS: Final = -1


class RelayedFlows:
    """One instance at one broker.

    Invariant: without a lease that holds, both flows are limited; never to nothing.
    """

    __slots__ = (
        "_lease_ends_at_ms",
        "_others_led",
        "_own_led",
        "_quotas_stand",
        "_throttled_until_ms",
        "_told",
        "acknowledged",
        "connections",
        "consume",
        "instance_id",
        "node_id",
        "produce",
        "refusals",
    )

    def __init__(self, instance_id: str, node_id: int) -> None:
        self.instance_id = instance_id
        self.node_id = node_id
        self.produce = Flow()
        self.consume = Flow()
        self.refusals: dict[str, int] = {}
        """Requests that were refused here, by error."""
        self.connections = 0
        """Open ones: while there are any, each report asks for a lease."""
        self.acknowledged: tuple[object, ...] | None = None
        """What the master is known to have, see `state`."""
        self._throttled_until_ms = {Direction.PRODUCE: 0, Direction.CONSUME: 0}
        self._lease_ends_at_ms = _NEVER_MS
        self._quotas_stand = False
        """Whether the last word was that the broker's quotas are set: they stay set when nobody is there to
        change them."""
        self._told = False
        self._own_led = 0
        self._others_led = 0

    @property
    def is_limited(self) -> bool:
        """Whether this worker's own buckets hold the instance."""
        return self.produce.rate_per_s != UNLIMITED

    def flow(self, direction: Direction) -> Flow:
        """The meter and bucket of produce or consume."""
        return self.produce if direction is Direction.PRODUCE else self.consume

    def wait_ms(self, direction: Direction, now_ms: int) -> int:
        """How long the next request has to wait for what was carried before."""
        return max(0, self.flow(direction).unmute_at_ms(now_ms) - now_ms) if self.is_limited else 0

    def broker_throttles(self, direction: Direction, throttle_ms: int, now_ms: int) -> None:
        """A reply said so: time that several connections wait at once counts once."""
        begins_ms = max(now_ms, self._throttled_until_ms[direction])
        ends_ms = now_ms + throttle_ms
        if ends_ms > begins_ms:
            self.flow(direction).throttled_ms += ends_ms - begins_ms
            self._throttled_until_ms[direction] = ends_ms

    def refuse(self, reason: str) -> None:
        """Count one refused request; `reason` is an error's name."""
        self.refusals[reason] = self.refusals.get(reason, 0) + 1

    # -- rates --------------------------------------------------------------------------------------

    def take_lease(self, lease: RelayedLease, now_ms: int) -> None:
        """The master's word; `keep_time` applies it."""
        self._told = True
        self._own_led = max(1, lease.partitions_led)
        self._others_led = max(0, lease.partitions_total - lease.partitions_led)
        self._quotas_stand = lease.lease_ms > 0
        self._lease_ends_at_ms = now_ms + lease.lease_ms if lease.lease_ms else _NEVER_MS

    def keep_time(self, spec: InstanceSpec, workers: int, now_ms: int) -> None:
        """Once a period, and when something changed: who limits, and to what."""
        if now_ms < self._lease_ends_at_ms:
            rates = UNLIMITED, UNLIMITED
        else:
            produce = self._share(spec, spec.produce_rate_bytes_per_s, workers)
            rates = produce, self._share(spec, spec.consume_rate_bytes_per_s, workers)
        for flow, rate in zip((self.produce, self.consume), rates, strict=True):
            flow.set_rate(rate, now_ms)
            flow.settle(now_ms)

    def _share(self, spec: InstanceSpec, purchased: int, workers: int) -> int:
        """F_i. Where no quota at the broker bounds all workers together, each has its part of it."""
        if self._told:
            share = purchased * self._own_led // (self._own_led + self._others_led)
        else:
            share = purchased // max(1, sum(one.node_id is not None for one in spec.listeners))
        return max(RATE_MIN_BYTES_PER_S, share if self._quotas_stand else share // max(1, workers))

    # -- reports ------------------------------------------------------------------------------------

    def state(self) -> tuple[object, ...]:
        """Everything a change of which must reach the master."""
        produce, consume = self.produce, self.consume
        return (
            *(produce.used, produce.overhead, produce.throttled_ms, produce.refused),
            *(consume.used, consume.overhead, consume.throttled_ms),
            sum(self.refusals.values()),
        )

    def traffic(self) -> InstanceTraffic:
        """Its part of a report."""
        return InstanceTraffic(
            instance_id=self.instance_id,
            produce=self.produce.counters(),
            consume=self.consume.counters(),
            partitions_led=0,
            stored_bytes=0,
            on_lease=not self.is_limited,
            refusals=dict(self.refusals),
        )


class Relays:
    """All of one gateway worker. Whoever holds it calls `keep_time` once a period."""

    def __init__(self) -> None:
        self._specs: dict[str, InstanceSpec] = {}
        self._flows: dict[str, dict[tuple[str, int], RelayedFlows]] = {}
        self._full: dict[str, int] = {}
        """Stored bytes of the instances that are full."""
        self._workers = 1
        self._states: dict[tuple[str, str, int], tuple[object, ...]] = {}

    def flows(self, spec: InstanceSpec, node_id: int, now_ms: int) -> RelayedFlows:
        """An instance at a broker of its cluster, limited from the start."""
        of_instance = self._flows.setdefault(spec.instance_id, {})
        key = spec.cluster_id, node_id
        if key not in of_instance:
            of_instance[key] = RelayedFlows(spec.instance_id, node_id)
            of_instance[key].keep_time(spec, self._workers, now_ms)
        return of_instance[key]

    def full(self, instance_id: str) -> Full | None:
        """What a Produce gets; None: it may be carried."""
        stored_bytes, spec = self._full.get(instance_id), self._specs.get(instance_id)
        if stored_bytes is None or spec is None:
            return None
        return Full(full_message(instance_id, stored_bytes, spec.capacity_bytes), spec.full_behaviour)

    def set_spec(self, spec: InstanceSpec, now_ms: int) -> None:
        """Follow the feed. Counters never go back within a run, so only a purge forgets them."""
        instance_id = spec.instance_id
        if spec.state is InstanceState.PURGED:
            self._specs.pop(instance_id, None)
            self._flows.pop(instance_id, None)
            self._full.pop(instance_id, None)
            return
        self._specs[instance_id] = spec
        for flows in self._flows.get(instance_id, {}).values():
            flows.keep_time(spec, self._workers, now_ms)

    def keep_time(self, workers: int, now_ms: int) -> None:
        """Leases that ended, shares that changed; `workers` gateway workers are about."""
        self._workers = workers
        for instance_id, of_instance in self._flows.items():
            spec = self._specs.get(instance_id)
            if spec is not None:
                for flows in of_instance.values():
                    flows.keep_time(spec, workers, now_ms)

    def report(self, *, full: bool) -> tuple[RelayedBroker, ...]:
        """What changed, and what has connections: those need leases."""
        due: dict[tuple[str, int], list[InstanceTraffic]] = {}
        self._states = {}
        for instance_id, of_instance in self._flows.items():
            for key, flows in of_instance.items():
                state = flows.state()
                if full or flows.connections or state != flows.acknowledged:
                    due.setdefault(key, []).append(flows.traffic())
                    self._states[instance_id, *key] = state
        return tuple(
            RelayedBroker(cluster_id=cluster_id, node_id=node_id, instances=tuple(told))
            for (cluster_id, node_id), told in due.items()
        )

    def apply(self, leases: Iterable[RelayedLease], now_ms: int) -> frozenset[str]:
        """The answer to the last report. Returns the instances whose block changed."""
        for (instance_id, cluster_id, node_id), state in self._states.items():
            flows = self._flows.get(instance_id, {}).get((cluster_id, node_id))
            if flows is not None:
                flows.acknowledged = state
        self._states = {}
        changed = set()
        for lease in leases:
            spec = self._specs.get(lease.instance_id)
            flows = self._flows.get(lease.instance_id, {}).get((lease.cluster_id, lease.node_id))
            if spec is None or flows is None:
                continue
            flows.take_lease(lease, now_ms)
            flows.keep_time(spec, self._workers, now_ms)
            if lease.cluster_id == spec.cluster_id and self._set_full(lease):
                changed.add(lease.instance_id)
        return frozenset(changed)

    def _set_full(self, lease: RelayedLease) -> bool:
        was_full = lease.instance_id in self._full
        if lease.blocked:
            self._full[lease.instance_id] = lease.stored_bytes
        else:
            self._full.pop(lease.instance_id, None)
        return was_full != lease.blocked

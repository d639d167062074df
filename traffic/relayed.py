"""What a gateway worker carries to and from brokers that hold no traffic point of ours (ADR 0044).

It is counted here, and limited to the worker's part of q_i while a lease of it holds, then by F_i of the spec
that is known. Behind that stand the brokers' own client quotas, which the master sets somewhat higher.
"""

from collections.abc import Iterable
from typing import Final

from contracts.quota import Direction, InstanceTraffic, RelayedBroker, RelayedLease
from contracts.specs import InstanceSpec, InstanceState
from traffic.engine_room import EngineRoom
from traffic.engine_time import of_fetch_us, of_produce_us
from traffic.flow import REPORTED_THROTTLE_MS_MAX, Flow
from traffic.verdict import Full, full_message

RATE_MIN_BYTES_PER_S: Final = 1
_NEVER_MS: Final = -1


class RelayedFlows:
    """One instance at one broker.

    Invariant: once the spec is known both flows are limited, and never to nothing.
    """

    __slots__ = (
        "_alike",
        "_lease_ends_at_ms",
        "_others_led",
        "_own_led",
        "_parts",
        "_quotas_stand",
        "_throttled_until_ms",
        "_told",
        "acknowledged",
        "connections",
        "consume",
        "engine",
        "engine_room",
        "instance_id",
        "node_id",
        "on_lease",
        "produce",
        "refusals",
    )

    def __init__(self, instance_id: str, node_id: int) -> None:
        self.instance_id = instance_id
        self.node_id = node_id
        self.produce = Flow()
        self.consume = Flow()
        self.engine = Flow()
        """The broker's request time, as reckoned (`engine_time`). Only counted: the broker limits it."""
        self.engine_room = EngineRoom()
        self.refusals: dict[str, int] = {}
        """Requests that were refused here, by error."""
        self.connections = 0
        """Open ones: while there are any, each report asks for a lease."""
        self.acknowledged: tuple[object, ...] | None = None
        """What the master is known to have, see `state`."""
        self.on_lease = False
        self._throttled_until_ms = dict.fromkeys(Direction, 0)
        self._alike = {Direction.PRODUCE: 0, Direction.CONSUME: 0}
        """F_i, divided among all workers."""
        self._parts = 0, 0
        """Of produce and consume, as leased last; 0: it never was."""
        self._lease_ends_at_ms = _NEVER_MS
        self._quotas_stand = False
        """Whether the last word was that the broker's quotas are set: they stay set when nobody is there to
        change them."""
        self._told = False
        self._own_led = 0
        self._others_led = 0

    def flow(self, direction: Direction) -> Flow:
        """The meter of a direction, of bytes with its bucket."""
        if direction is Direction.CPU:
            return self.engine
        return self.produce if direction is Direction.PRODUCE else self.consume

    def works(self, threads_us: int) -> None:
        """A request went up that takes the broker's threads about so long."""
        self.engine.used += threads_us
        self.engine.requests += 1

    def answers(self, threads_us: int) -> None:
        """Its answer has taken them so much longer."""
        self.engine.used += threads_us

    def wait_ms(self, direction: Direction, now_ms: int, ticket: int | None = None) -> int:
        """How long until everything charged up to `ticket` (None: so far) is paid."""
        return max(0, self.flow(direction).unmute_at_ms(now_ms, ticket) - now_ms)

    def told_ms(self, direction: Direction, now_ms: int) -> int:
        """The throttle time that clients are told. They wait that long whatever changes meanwhile: where the
        worker has little yet, it is what an equal part of F_i would take."""
        rate_per_s = self.flow(direction).rate_per_s
        wait_ms = self.wait_ms(direction, now_ms) * rate_per_s // max(1, rate_per_s, self._alike[direction])
        return min(wait_ms, REPORTED_THROTTLE_MS_MAX)

    def broker_throttles(self, direction: Direction, throttle_ms: int, now_ms: int) -> None:
        """A reply said so: time that several connections wait at once counts once. Where nothing is owed for
        bytes it may be for request time, so it counts as that, too: quotas of bytes are above what is
        carried."""
        owes_bytes = direction is not Direction.CPU and self.wait_ms(direction, now_ms) > 0
        for told in {direction} if owes_bytes else {direction, Direction.CPU}:
            begins_ms = max(now_ms, self._throttled_until_ms[told])
            ends_ms = now_ms + throttle_ms
            if ends_ms > begins_ms:
                self.flow(told).throttled_ms += ends_ms - begins_ms
                self._throttled_until_ms[told] = ends_ms

    def refuse(self, reason: str) -> None:
        """Count one refused request; `reason` is an error's name."""
        self.refusals[reason] = self.refusals.get(reason, 0) + 1

    # -- rates --------------------------------------------------------------------------------------

    def take_lease(self, lease: RelayedLease, now_ms: int) -> None:
        """The master's word; `keep_time` applies it."""
        self._told = True
        self._own_led = max(1, lease.partitions_led)
        self._others_led = max(0, lease.partitions_total - lease.partitions_led)
        self._quotas_stand = lease.quotas_stand
        parts = lease.produce_rate_bytes_per_s, lease.consume_rate_bytes_per_s
        if lease.lease_ms > 0 and all(parts):
            self._parts = parts
            self._lease_ends_at_ms = now_ms + lease.lease_ms
        else:
            self._lease_ends_at_ms = _NEVER_MS

    def keep_time(self, spec: InstanceSpec, workers: int, now_ms: int) -> None:
        """Once a period, and when something changed: who limits, and to what."""
        self.on_lease = now_ms < self._lease_ends_at_ms
        for direction, part, purchased in (
            (Direction.PRODUCE, self._parts[0], spec.produce_rate_bytes_per_s),
            (Direction.CONSUME, self._parts[1], spec.consume_rate_bytes_per_s),
        ):
            share = self._share(spec, purchased)
            alike = self._alike[direction] = max(RATE_MIN_BYTES_PER_S, share // max(1, workers))
            # Who had more than the others goes on with it where the broker bounds all of them together.
            unleased = max(alike, min(part, share)) if self._quotas_stand else alike
            flow = self.flow(direction)
            flow.set_rate(part if self.on_lease else unleased, now_ms)
            flow.settle(now_ms)

    def _share(self, spec: InstanceSpec, purchased: int) -> int:
        """F_i."""
        if self._told:
            return purchased * self._own_led // (self._own_led + self._others_led)
        return purchased // max(1, sum(one.node_id is not None for one in spec.listeners))

    # -- reports ------------------------------------------------------------------------------------

    def state(self) -> tuple[object, ...]:
        """Everything a change of which must reach the master."""
        produce, consume = self.produce, self.consume
        return (
            *(produce.used, produce.overhead, produce.throttled_ms, produce.refused),
            *(consume.used, consume.overhead, consume.throttled_ms),
            *(self.engine.used, self.engine.throttled_ms),
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
            on_lease=self.on_lease,
            refusals=dict(self.refusals),
            engine=self.engine.counters(),
        )


class Place:
    """Where one connection stands among those of its instance that wait for what was carried.

    A Produce is charged when it begins, and carried when what was charged before it is paid. What a Fetch
    costs is known when it is answered: the next one waits until that is paid, and one that comes later than
    that for all that is owed.
    """

    __slots__ = ("_awaited", "_engine_us", "_fetched", "_reserved", "flows")

    def __init__(self, flows: RelayedFlows) -> None:
        self.flows = flows
        self._reserved: tuple[int, int] | None = None
        """Of the Produce that begins or is carried: its ticket, and what was charged."""
        self._fetched: int | None = None
        """What the last answer was charged with; None: there was none."""
        self._awaited: int | None = None
        """What the Fetch that waits waits for."""
        self._engine_us = 0
        """What its questions have of the broker's room."""

    def produce_wait_ms(self, frame_bytes: int, now_ms: int) -> int:
        """How long a Produce of this size has to wait; 0: it is carried now. The first time it is charged."""
        produce = self.flows.produce
        if self._reserved is None:
            ticket = produce.reserve(frame_bytes, now_ms)
            if ticket is None:
                return 0
            self._reserved = ticket, frame_bytes
        return self.flows.wait_ms(Direction.PRODUCE, now_ms, self._reserved[0])

    def produced(self, frame_bytes: int, now_ms: int) -> None:
        """It was carried."""
        self.flows.works(of_produce_us(frame_bytes))
        produce, reserved = self.flows.produce, self._reserved
        self._reserved = None
        if reserved is None:
            produce.charge(frame_bytes, now_ms)
        else:
            produce.carry(*reserved, frame_bytes, now_ms)

    def enters_engine(self, cost_us: int) -> bool:
        """Whether a question goes up now; otherwise it waits for its room, and then has `engine_entered`."""
        entered = self.flows.engine_room.enter(cost_us)
        if entered:
            self.engine_entered(cost_us)
        return entered

    def engine_entered(self, cost_us: int) -> None:
        """A question has so much of the broker's room until `engine_left`."""
        self._engine_us += cost_us

    def engine_left(self, cost_us: int) -> None:
        """It was answered."""
        self._engine_us -= cost_us
        self.flows.engine_room.leave(cost_us)

    def cut(self, carried_bytes: int, now_ms: int) -> None:
        """The connection ends, with so much of a Produce carried."""
        self.engine_left(self._engine_us)
        reserved, self._reserved = self._reserved, None
        if reserved is not None:
            self.flows.produce.release(reserved[1], now_ms)
        if carried_bytes:
            self.flows.produce.spend(carried_bytes, now_ms)

    def fetch_wait_ms(self, now_ms: int) -> int:
        """How long a Fetch has to wait; 0: it is carried now."""
        consume = self.flows.consume
        if self._awaited is None:
            late = self._fetched is None or not self.flows.wait_ms(Direction.CONSUME, now_ms, self._fetched)
            self._awaited = consume.ticket if late else self._fetched
        wait_ms = self.flows.wait_ms(Direction.CONSUME, now_ms, self._awaited)
        if not wait_ms:
            self._awaited = None
        return wait_ms

    def fetched(self, size_bytes: int, now_ms: int) -> None:
        """So much of an answer goes to the client."""
        self.flows.works(of_fetch_us(size_bytes))
        self.flows.consume.charge(size_bytes, now_ms)
        self._fetched = self.flows.consume.ticket


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

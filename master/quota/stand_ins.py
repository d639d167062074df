"""Traffic points in place of brokers that have none: of an Apache Kafka (ADR 0044). Pure.

What gateway workers carry to one broker is summed up here, what it leads and stores is asked of the cluster,
and both are reported as if by the broker itself. The leases that are answered become its client quotas.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec

from contracts.quota import (
    Direction,
    FlowCounters,
    InstanceTraffic,
    TrafficReport,
)
from contracts.specs import InstanceSpec, InstanceState
from master.quota.client_quotas import Entity, Rates
from master.quota.flows import ELAPSED_MS_MIN
from master.quota.parts import Parts
from traffic.flow import Flow
from traffic.point import TrafficPoint

_ZERO = FlowCounters()
_SURVEY_HOLDS_MS: Final = 30_000
"""So long after a look at a cluster what it said is taken to be so."""
_PACE_HOLDS_MS: Final = 2_500
"""A worker that is not heard for so long carries nothing."""
_Key = tuple[str, int, str]
"""Cluster, node, instance."""
Led = Mapping[str, Mapping[int, tuple[int, int]]]
"""Instance -> node -> (partitions that it leads, bytes of their logs)."""


class _Pace(NamedTuple):
    """One direction of an instance at a broker, as a worker's last report has it: per second."""

    used: int
    overhead: int
    throttled_ms: int

    def goes_on(self, flow: Flow, elapsed_ms: int) -> None:
        """For so long."""
        flow.used += self.used * elapsed_ms // 1000
        flow.overhead += self.overhead * elapsed_ms // 1000
        flow.throttled_ms += self.throttled_ms * elapsed_ms // 1000


@dataclass(slots=True)
class _Sender:
    """One run of a gateway worker."""

    boot_id: str
    is_complete: bool
    """It told everything: what it has not listed has counted nothing."""
    heard_ms: int
    told: dict[_Key, InstanceTraffic] = field(default_factory=dict)
    paces: dict[_Key, tuple[_Pace, ...]] = field(default_factory=dict)
    """By direction, in their order."""
    sequences: dict[tuple[str, int], int] = field(default_factory=dict)
    """Of what was said for bills, by broker."""


class Part(NamedTuple):
    """What one worker may carry for an instance to and from one broker."""

    cluster_id: str
    entity: Entity
    rates: Rates
    lease_ms: int
    """0: it has none, for nobody knows the broker's rates."""


class StandIns:
    """Those of one run of the master."""

    def __init__(self, run: str, lease_ms: int) -> None:
        """`run` is no earlier run's."""
        self._run = run
        self._parts = Parts(lease_ms)
        self._points: dict[tuple[str, int], TrafficPoint] = {}
        self._senders: dict[str, _Sender] = {}
        self._leaders: dict[tuple[str, str], Mapping[int, int]] = {}
        self._surveys = 0
        self._surveyed_ms: dict[str, int] = {}
        self._reported_ms: dict[str, int] = {}
        self._specs: dict[tuple[str, int, str], InstanceSpec] = {}

    # -- what gateways carry ------------------------------------------------------------------------------

    def receive(self, report: TrafficReport, now_ms: int) -> list[TrafficReport]:
        """A gateway worker's report that the ledger has accepted. The answer is what it says for bills: per
        broker one, of a point whose run is the worker's, so that no restart of a master loses anything."""
        sender = self._senders.get(report.point)
        if sender is None or sender.boot_id != report.boot_id:
            is_complete = report.sequence == 1
            sender = _Sender(report.boot_id, is_complete, heard_ms=now_ms - report.window_ms)
            self._senders[report.point] = sender
            self._parts.forget_worker(report.point)
        for broker in report.relayed:
            # From zero on, unless it was told of before this master heard of the worker.
            sender.sequences.setdefault((broker.cluster_id, broker.node_id), 0 if sender.is_complete else 1)
        elapsed_ms = max(ELAPSED_MS_MIN, now_ms - sender.heard_ms)
        sender.heard_ms = now_ms
        sender.paces = {}
        for broker in report.relayed:
            point = self._point(broker.cluster_id, broker.node_id, now_ms)
            for traffic in broker.instances:
                key = broker.cluster_id, broker.node_id, traffic.instance_id
                base = sender.told.get(key)
                if base is None and sender.is_complete:
                    base = _nothing(traffic.instance_id)
                sender.told[key] = traffic
                if base is not None:
                    _advance(point, base, traffic)
                    sender.paces[key] = _paces(base, traffic, elapsed_ms)
                place = broker.cluster_id, Entity(traffic.instance_id, broker.node_id)
                self._parts.take(report.point, place, traffic, base, report.window_ms, now_ms)
        sender.is_complete = sender.is_complete or report.full
        return [_for_bill(report, sender, key) for key in sender.sequences]

    def parts(self, report: TrafficReport, now_ms: int) -> Iterator[Part]:
        """What a worker that was heard now may carry, and what it has to let go."""
        told = [
            (broker.cluster_id, Entity(traffic.instance_id, broker.node_id))
            for broker in report.relayed
            for traffic in broker.instances
        ]
        for place in [*told, *self._parts.rest(report.point, told, now_ms)]:
            cluster_id, entity = place
            rates = self._rates(cluster_id, entity)
            if (
                rates is None
                or now_ms - self._surveyed_ms.get(cluster_id, -_SURVEY_HOLDS_MS) >= _SURVEY_HOLDS_MS
            ):
                yield Part(cluster_id, entity, Rates(0, 0), 0)
                continue
            granted = self._parts.grant(report.point, place, rates, now_ms)
            yield Part(cluster_id, entity, granted, self._parts.left_ms(report.point, place, now_ms))

    def forget_sender(self, name: str) -> list[str]:
        """The worker is gone for good. The answer is what bills know it by."""
        self._parts.forget_worker(name)
        sender = self._senders.pop(name, None)
        return [] if sender is None else [_bill_point(name, key) for key in sender.sequences]

    def _point(self, cluster_id: str, node_id: int, now_ms: int) -> TrafficPoint:
        key = cluster_id, node_id
        if key not in self._points:
            self._points[key] = TrafficPoint(
                point=point_name(cluster_id, node_id),
                node_id=node_id,
                cluster_id=cluster_id,
                boot_id=self._run,
                now_ms=now_ms,
            )
        return self._points[key]

    # -- what the cluster says ----------------------------------------------------------------------------

    def survey(self, cluster_id: str, node_ids: Iterable[int], led: Led, now_ms: int) -> None:
        """Who leads and stores what in the whole cluster, and which brokers are registered."""
        self._surveys += 1
        self._surveyed_ms[cluster_id] = now_ms
        points = [self._point(cluster_id, node_id, now_ms) for node_id in node_ids]
        for point in points:
            point.broker_count = len(points)
            point.set_all_led(
                {
                    instance_id: by_node[point.node_id]
                    for instance_id, by_node in led.items()
                    if point.node_id in by_node
                }
            )
        known = {key[1] for key in self._leaders if key[0] == cluster_id}
        for instance_id in known | led.keys():
            by_node = led.get(instance_id, {})
            leaders = Counter({node_id: partitions for node_id, (partitions, _) in by_node.items()})
            if self._leaders.get((cluster_id, instance_id)) != leaders:
                self._leaders[cluster_id, instance_id] = leaders
                for point in points:
                    point.set_leaders(instance_id, leaders, self._surveys)
            if not leaders:
                del self._leaders[cluster_id, instance_id]

    def reports(self, cluster_id: str, now_ms: int, sent_at_ms: int) -> list[TrafficReport]:
        """Of all points of a cluster, each to be given the answer. Each worker goes on as it did in its last
        report: those do not come at the same times as these."""
        elapsed_ms = min(self.silence_ms(cluster_id, now_ms), _PACE_HOLDS_MS)
        for sender in self._senders.values():
            if now_ms - sender.heard_ms < _PACE_HOLDS_MS:
                for key, paces in sender.paces.items():
                    if key[0] == cluster_id:
                        flows = _flows(self._points[key[:2]], key[2])
                        for pace, flow in zip(paces, flows, strict=True):
                            pace.goes_on(flow, elapsed_ms)
        self._reported_ms[cluster_id] = now_ms
        return [point.report(now_ms, sent_at_ms) for point in self.points(cluster_id)]

    def follow(self, cluster_id: str, specs: Mapping[str, InstanceSpec], now_ms: int) -> None:
        """Hold every instance of the cluster to its present spec. One that was deleted, and is told of no
        more, was purged."""
        for key, spec in [*self._specs.items()]:
            if key[0] == cluster_id and key[2] not in specs and spec.state.is_gone:
                del self._specs[key]
                purged = msgspec.structs.replace(spec, state=InstanceState.PURGED)
                self._points[key[:2]].set_spec(purged, now_ms)
        for (of_cluster, node_id), point in self._points.items():
            if of_cluster != cluster_id:
                continue
            for instance_id, spec in specs.items():
                key = cluster_id, node_id, instance_id
                if spec.cluster_id == cluster_id and self._specs.get(key) is not spec:
                    self._specs[key] = spec
                    point.set_spec(spec, now_ms)

    # -- what follows -------------------------------------------------------------------------------------

    def points(self, cluster_id: str) -> list[TrafficPoint]:
        """Those of a cluster."""
        return [point for key, point in self._points.items() if key[0] == cluster_id]

    def told_of(self, report: TrafficReport) -> set[str]:
        """The clusters whose stand-ins are to report, if it is time, now that a worker was heard: what it
        told is in the rates by which it is answered, as in those of a broker of ours."""
        return {broker.cluster_id for broker in report.relayed if broker.cluster_id in self._reported_ms}

    def silence_ms(self, cluster_id: str, now_ms: int) -> int:
        """Since the stand-ins of a cluster reported; if they never did, as if long ago."""
        return now_ms - self._reported_ms.get(cluster_id, now_ms - _SURVEY_HOLDS_MS)

    def stands_in(self, point: str) -> bool:
        """Whether a point is one of these."""
        return any(each.point == point for each in self._points.values())

    def shares(self, cluster_id: str, specs: Mapping[str, InstanceSpec]) -> dict[Entity, Rates]:
        """The rates of every instance at every broker, whatever that leads."""
        found = {
            Entity(instance_id, point.node_id): self._rates(cluster_id, Entity(instance_id, point.node_id))
            for point in self.points(cluster_id)
            for instance_id, spec in specs.items()
            if spec.cluster_id == cluster_id and not spec.state.is_gone
        }
        return {entity: rates for entity, rates in found.items() if rates is not None}

    def _rates(self, cluster_id: str, entity: Entity) -> Rates | None:
        """q_i of an instance at a broker; None: neither is known here."""
        point = self._points.get((cluster_id, entity.node_id))
        if point is None:
            return None
        flows = [point.flow(entity.instance_id, each) for each in Direction]
        rates = [0 if flow is None else flow.rate_per_s for flow in flows]
        return Rates(*rates) if all(rates) else None

    def led(self, cluster_id: str, entity: Entity) -> tuple[int, int]:
        """(n_i, sum(n)) as of the last survey."""
        leaders = self._leaders.get((cluster_id, entity.instance_id), {})
        return leaders.get(entity.node_id, 0), sum(leaders.values())


def point_name(cluster_id: str, node_id: int) -> str:
    """What the stand-in of a broker is called among points."""
    return f"{cluster_id}-broker-{node_id}"


def _flows(point: TrafficPoint, instance_id: str) -> tuple[Flow, ...]:
    return tuple(point.charged_flow(instance_id, each) for each in Direction)


def _counters(traffic: InstanceTraffic) -> tuple[FlowCounters, ...]:
    """By direction."""
    return traffic.produce, traffic.consume, traffic.engine


def _nothing(instance_id: str) -> InstanceTraffic:
    return InstanceTraffic(
        instance_id=instance_id, produce=_ZERO, consume=_ZERO, partitions_led=0, stored_bytes=0
    )


def _paces(base: InstanceTraffic, traffic: InstanceTraffic, elapsed_ms: int) -> tuple[_Pace, ...]:
    pairs = zip(_counters(base), _counters(traffic), strict=True)
    return tuple(_pace(old, new, elapsed_ms) for old, new in pairs)


def _pace(old: FlowCounters, new: FlowCounters, elapsed_ms: int) -> _Pace:
    return _Pace(
        (new.used - old.used) * 1000 // elapsed_ms,
        (new.overhead - old.overhead) * 1000 // elapsed_ms,
        min(1000, (new.throttled_ms - old.throttled_ms) * 1000 // elapsed_ms),
    )


def _advance(point: TrafficPoint, base: InstanceTraffic, traffic: InstanceTraffic) -> None:
    """Add what a worker has counted since it was heard last and is no rate."""
    flows = _flows(point, traffic.instance_id)
    for flow, old, new in zip(flows, _counters(base), _counters(traffic), strict=True):
        flow.requests += new.requests - old.requests
        flow.refused += new.refused - old.refused
    for reason, count in traffic.refusals.items():
        point.refuse(traffic.instance_id, reason, count - base.refusals.get(reason, 0))
    if traffic.produce.refused == base.produce.refused:
        point.count_appended(traffic.instance_id, traffic.produce.used - base.produce.used)


# -- bills ------------------------------------------------------------------------------------------------


def _bill_point(name: str, key: tuple[str, int]) -> str:
    return f"{point_name(*key)}/{name}"


def _for_bill(report: TrafficReport, sender: _Sender, key: tuple[str, int]) -> TrafficReport:
    sender.sequences[key] += 1
    told = [each.instances for each in report.relayed if (each.cluster_id, each.node_id) == key]
    return TrafficReport(
        point=_bill_point(report.point, key),
        cluster_id=key[0],
        node_id=key[1],
        boot_id=_bill_point(report.boot_id, key),
        sequence=sender.sequences[key],
        window_ms=report.window_ms,
        sent_at_ms=report.sent_at_ms,
        uptime_ms=report.window_ms if sender.sequences[key] == 1 else report.uptime_ms,
        instances=tuple(traffic for instances in told for traffic in instances),
    )


def holdings_report(report: TrafficReport) -> TrafficReport:
    """What a stand-in's report says for the bill: what is led and stored. The traffic is in the workers'."""
    return TrafficReport(
        point=report.point,
        node_id=report.node_id,
        cluster_id=report.cluster_id,
        boot_id=report.boot_id,
        sequence=report.sequence,
        window_ms=report.window_ms,
        sent_at_ms=report.sent_at_ms,
        uptime_ms=report.uptime_ms,
        full=report.full,
        instances=tuple(
            InstanceTraffic(
                instance_id=each.instance_id,
                produce=FlowCounters(rate_per_s=each.produce.rate_per_s),
                consume=FlowCounters(rate_per_s=each.consume.rate_per_s),
                partitions_led=each.partitions_led,
                stored_bytes=each.stored_bytes,
                blocked=each.blocked,
            )
            for each in report.instances
        ),
    )

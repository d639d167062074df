"""What the points reported last, and what follows from it: r, n, stored bytes, who is silent.

`now_ms` is monotonic milliseconds of the master. A missing report repeats the last one: nothing here changes
without a report but silence.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from contracts.quota import MESSAGE_VERSION, NO_NODE, FlowCounters, InstanceTraffic, TrafficReport
from master.quota.cpu_ledger import CpuLedger
from master.quota.flows import ELAPSED_MS_MIN, FlowEntry, Refusal, ReportRefusedError

PAST_BOOTS_MAX: Final = 8
ANY_CLUSTER: Final = ""
"""The cluster of a gateway worker, and of a broker that has not said yet."""
NO_BOOT: Final = ""
"""The boot id of a point that was restored from the journal and has not reported yet."""


class Outcome(StrEnum):
    """What became of a report; also a metric label."""

    ACCEPTED = "accepted"
    REPEATED = "repeated"
    """A duplicate, or overtaken by a later one: changes nothing."""
    SUPERSEDED = "superseded"
    """From a run of the point that a later run has replaced: changes nothing."""


@dataclass(slots=True)
class Entry:
    """One instance on one point, as last reported. Leads nothing: out of the rule."""

    point: str
    node_id: int
    instance_id: str
    partitions_led: int = 0
    stored_bytes: int = 0
    blocked: bool = False
    on_lease: bool = False
    produce: FlowEntry = field(default_factory=FlowEntry)
    consume: FlowEntry = field(default_factory=FlowEntry)
    leaders: Mapping[int, int] = field(default_factory=dict)
    """Node id -> partitions it leads, as the point's metadata has it; empty: unknown."""
    leaders_version: int = 0
    refusals: Mapping[str, int] = field(default_factory=dict)
    """Refused requests of the point's present run, by error or close cause."""
    has_base: bool = False
    """The counters are those of the point's present run, as of its last report."""

    def advance(self, traffic: InstanceTraffic, elapsed_ms: int) -> None:
        """Take what a report says. Without a base r stays what it was: unknown, or of the run before."""
        for direction, counters in ((self.produce, traffic.produce), (self.consume, traffic.consume)):
            direction.advance(counters, elapsed_ms, has_base=self.has_base)
        self.partitions_led = traffic.partitions_led
        self.stored_bytes = traffic.stored_bytes
        self.blocked = traffic.blocked
        self.on_lease = traffic.on_lease
        self.leaders = traffic.leaders
        self.leaders_version = traffic.leaders_version
        self.refusals = traffic.refusals
        self.has_base = True

    def rest(self) -> None:
        """Not listed in a report: idle and unchanged. Without a base nothing is known to be unchanged."""
        if self.has_base:
            self.produce.rest()
            self.consume.rest()

    def start_run(self, from_zero: bool) -> None:
        """The point started anew; `from_zero`: this is its first report, so all counters began at zero."""
        for direction in (self.produce, self.consume):
            direction.start_run()
        self.has_base = from_zero


@dataclass(slots=True)
class Point:
    """One point. `sequence` grows within a boot id; a past boot id never comes back."""

    name: str
    node_id: int
    """NO_NODE: a gateway worker."""
    cluster_id: str
    boot_id: str
    sequence: int
    received_at_ms: int
    sent_at_ms: int
    is_complete: bool = False
    """A report of this run told everything: what it has not listed since has counted nothing."""
    past_boots: list[str] = field(default_factory=list)
    entries: dict[str, Entry] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a report did. `listed` and `cpu_listed`: the instances whose bytes, or CPU time, it spoke of."""

    outcome: Outcome
    listed: frozenset[str]
    cpu_listed: frozenset[str]
    want_full: bool = False


class Ledger:
    """All points and, the other way round, the points of each instance."""

    def __init__(self) -> None:
        self._points: dict[str, Point] = {}
        self._by_instance: dict[str, dict[str, Entry]] = {}
        self.cpu = CpuLedger()
        """Request time, of the same reports."""

    # -- reading --------------------------------------------------------------------------------------

    def instances(self) -> Iterator[str]:
        """Every instance that some point spoke of."""
        yield from {**self._by_instance, **dict.fromkeys(self.cpu.instances())}

    def entries_of(self, instance_id: str) -> list[Entry]:
        """The points that spoke of the instance, in order of node id."""
        entries = self._by_instance.get(instance_id, {}).values()
        return sorted(entries, key=lambda entry: (entry.node_id, entry.point))

    def instances_led_by(self, point: str) -> list[str]:
        """The instances that a point leads something of."""
        known = self._points.get(point)
        return [e.instance_id for e in known.entries.values() if e.partitions_led > 0] if known else []

    def report_age_ms(self, point: str, now_ms: int) -> int:
        """Time since the point was last heard of."""
        return max(0, now_ms - self._points[point].received_at_ms)

    def brokers(self) -> list[Point]:
        """Every broker, also those that lead nothing."""
        return [point for point in self._points.values() if point.node_id != NO_NODE]

    def points(self) -> dict[str, int]:
        """Every point's name and node id."""
        return {point.name: point.node_id for point in self._points.values()}

    def brokers_of(self, cluster_id: str, now_ms: int, within_ms: int) -> frozenset[str]:
        """The brokers of a cluster that were heard of within the time."""
        return frozenset(
            point.name
            for point in self._points.values()
            if point.node_id != NO_NODE
            and point.cluster_id in (cluster_id, ANY_CLUSTER)
            and now_ms - point.received_at_ms < within_ms
        )

    def gateways(self) -> int:
        """Gateway workers that are known."""
        return sum(point.node_id == NO_NODE for point in self._points.values())

    def lost_gateways(self, now_ms: int, within_ms: int) -> list[str]:
        """Gateway workers that were not heard of within the time."""
        return [
            point.name
            for point in self._points.values()
            if point.node_id == NO_NODE and now_ms - point.received_at_ms >= within_ms
        ]

    # -- changing -------------------------------------------------------------------------------------

    def receive(self, report: TrafficReport, now_ms: int) -> Receipt:
        """Take a report.

        Raises: ReportRefusedError when it cannot be true; the ledger is as it was before.
        """
        if report.version != MESSAGE_VERSION:
            raise ReportRefusedError(
                Refusal.VERSION,
                f"the report has version {report.version}, this master reads {MESSAGE_VERSION}",
            )
        listed = frozenset(each.instance_id for each in report.instances)
        cpu_listed = frozenset(each.instance_id for each in report.cpu)
        if len(listed) != len(report.instances) or len(cpu_listed) != len(report.cpu):
            raise ReportRefusedError(Refusal.LISTED_TWICE, "the report lists an instance twice")
        point = self._points.get(report.point)
        if point is None:
            point = self._add_point(report, now_ms)
        elif report.boot_id in point.past_boots:
            return Receipt(Outcome.SUPERSEDED, listed, cpu_listed)
        same_run = point.boot_id == report.boot_id
        if same_run:
            if report.sequence <= point.sequence:
                return Receipt(Outcome.REPEATED, listed, cpu_listed)
            self._check_growth(point, report)
            self.cpu.check(report)
        elapsed_ms = self._elapsed_ms(point, report, now_ms) if same_run else report.window_ms
        if not same_run:
            self._start_run(point, report)
        point.node_id = report.node_id
        point.cluster_id = report.cluster_id
        point.sequence = report.sequence
        point.received_at_ms = now_ms
        point.sent_at_ms = report.sent_at_ms
        self._take(point, report, listed, max(ELAPSED_MS_MIN, elapsed_ms))
        return Receipt(Outcome.ACCEPTED, listed, cpu_listed, want_full=not point.is_complete)

    @staticmethod
    def _check_growth(point: Point, report: TrafficReport) -> None:
        for each in report.instances:
            entry = point.entries.get(each.instance_id)
            if entry is None or not entry.has_base:
                continue
            for name, flow, new in (
                ("produce", entry.produce, each.produce),
                ("consume", entry.consume, each.consume),
            ):
                flow.check_growth(name, each.instance_id, new)

    @staticmethod
    def _elapsed_ms(point: Point, report: TrafficReport, now_ms: int) -> int:
        """The time since the report before.

        The sender's clock is free of the network's jitter, but it may be set: ours is the check on it.
        """
        received_ms = now_ms - point.received_at_ms
        sent_ms = report.sent_at_ms - point.sent_at_ms
        return sent_ms if 2 * abs(sent_ms - received_ms) <= received_ms else received_ms

    def _add_point(self, report: TrafficReport, now_ms: int) -> Point:
        point = Point(report.point, report.node_id, report.cluster_id, NO_BOOT, 0, now_ms, report.sent_at_ms)
        self._points[report.point] = point
        return point

    def _start_run(self, point: Point, report: TrafficReport) -> None:
        if point.boot_id != NO_BOOT:
            point.past_boots = [*point.past_boots, point.boot_id][-PAST_BOOTS_MAX:]
        point.boot_id = report.boot_id
        point.is_complete = report.sequence == 1
        for entry in point.entries.values():
            entry.start_run(from_zero=point.is_complete)
        self.cpu.start_run(point.name, from_zero=point.is_complete)

    def _take(self, point: Point, report: TrafficReport, listed: frozenset[str], elapsed_ms: int) -> None:
        for traffic in report.instances:
            entry = point.entries.get(traffic.instance_id) or self._add(point, traffic.instance_id)
            entry.node_id = report.node_id
            entry.advance(traffic, elapsed_ms)
        self.cpu.take(report, elapsed_ms, is_complete=point.is_complete)
        for entry in point.entries.values():
            if entry.instance_id not in listed:
                entry.rest()
                if report.full:
                    entry.partitions_led = entry.stored_bytes = 0
                    entry.leaders = {}
        point.is_complete = point.is_complete or report.full

    def _add(self, point: Point, instance_id: str) -> Entry:
        entry = Entry(point.name, point.node_id, instance_id, has_base=point.is_complete)
        point.entries[instance_id] = entry
        self._by_instance.setdefault(instance_id, {})[point.name] = entry
        return entry

    def restore(
        self,
        *,
        point: str,
        node_id: int,
        instance_id: str,
        partitions_led: int,
        stored_bytes: int,
        produce_rate_bytes_per_s: int,
        consume_rate_bytes_per_s: int,
        now_ms: int,
    ) -> None:
        """What the master before knew. It counts as heard of now, so a broker that is gone becomes silent."""
        known = self._points.get(point)
        if known is None:
            known = self._points[point] = Point(point, node_id, ANY_CLUSTER, NO_BOOT, 0, now_ms, 0)
        entry = self._add(known, instance_id)
        entry.partitions_led = partitions_led
        entry.stored_bytes = stored_bytes
        entry.produce.counters = FlowCounters(rate_per_s=produce_rate_bytes_per_s)
        entry.consume.counters = FlowCounters(rate_per_s=consume_rate_bytes_per_s)
        self.granted(point, instance_id, produce_rate_bytes_per_s, consume_rate_bytes_per_s)

    def granted(
        self, point: str, instance_id: str, produce_bytes_per_s: int, consume_bytes_per_s: int
    ) -> None:
        """The point was answered with these rates: until it says otherwise, it applies them."""
        entry = self._points[point].entries[instance_id]
        entry.produce.applied_per_s = produce_bytes_per_s
        entry.consume.applied_per_s = consume_bytes_per_s

    def forget_instance(self, instance_id: str) -> None:
        """The instance is deleted."""
        self.cpu.forget_instance(instance_id)
        for name in self._by_instance.pop(instance_id, {}):
            del self._points[name].entries[instance_id]

    def forget_point(self, point: str) -> bool:
        """The point is gone for good: its shares are reserved no longer. Whether it was known."""
        self.cpu.forget_point(point)
        known = self._points.pop(point, None)
        if known is None:
            return False
        for instance_id in known.entries:
            del self._by_instance[instance_id][point]
        return True

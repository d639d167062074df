"""What the points reported of request time: one entry per point and instance, found from either side."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from contracts.quota import NO_NODE, InstanceCpu, TrafficReport
from master.quota.flows import FlowEntry


@dataclass(slots=True)
class CpuEntry:
    """Request time of one instance on one point, as last reported."""

    point: str
    node_id: int
    """NO_NODE: a gateway worker."""
    instance_id: str
    flow: FlowEntry = field(default_factory=FlowEntry)
    on_lease: bool = False
    has_base: bool = False
    """The counters are those of the point's present run, as of its last report."""

    @property
    def is_gateway(self) -> bool:
        """Whether the point is a gateway worker."""
        return self.node_id == NO_NODE

    @property
    def is_active(self) -> bool:
        """It spent something in its last few reports, or that is not known yet: it takes part in the rule."""
        flow = self.flow
        return flow.rate_per_s is None or any(sample.rate_per_s for sample in flow.recent)


class CpuLedger:
    """All entries. `Ledger` decides which reports count and calls in that order: check, start_run, take."""

    def __init__(self) -> None:
        self._by_point: dict[str, dict[str, CpuEntry]] = {}
        self._by_instance: dict[str, dict[str, CpuEntry]] = {}

    # -- reading --------------------------------------------------------------------------------------

    def instances(self) -> Iterator[str]:
        """Every instance that some point spoke of."""
        return iter(self._by_instance)

    def entries_of(self, instance_id: str) -> list[CpuEntry]:
        """The points that spoke of the instance: brokers by node id, then gateway workers by name."""
        entries = self._by_instance.get(instance_id, {}).values()
        return sorted(entries, key=lambda one: (one.is_gateway, one.node_id, len(one.point), one.point))

    def active_on(self, point: str) -> list[str]:
        """The instances that spent something on the point lately."""
        return [entry.instance_id for entry in self._by_point.get(point, {}).values() if entry.is_active]

    # -- changing -------------------------------------------------------------------------------------

    def check(self, report: TrafficReport) -> None:
        """Raises: ReportRefusedError when a counter is smaller than the same run said before."""
        entries = self._by_point.get(report.point, {})
        for each in report.cpu:
            entry = entries.get(each.instance_id)
            if entry is not None and entry.has_base:
                entry.flow.check_growth("request time", each.instance_id, each.counters)

    def start_run(self, point: str, *, from_zero: bool) -> None:
        """The point started anew; `from_zero`: this is its first report, so all counters began at zero."""
        for entry in self._by_point.get(point, {}).values():
            entry.flow.start_run()
            entry.has_base = from_zero

    def take(self, report: TrafficReport, elapsed_ms: int, *, is_complete: bool) -> None:
        """A report that counts. `is_complete`: what its run has not listed before it has not spent."""
        entries = self._by_point.setdefault(report.point, {})
        for each in report.cpu:
            entry = entries.get(each.instance_id) or self._add(report, each, has_base=is_complete)
            entry.node_id = report.node_id
            entry.flow.advance(each.counters, elapsed_ms, has_base=entry.has_base)
            entry.on_lease = each.on_lease
            entry.has_base = True
        listed = {each.instance_id for each in report.cpu}
        for entry in entries.values():
            if entry.instance_id not in listed and entry.has_base and entry.is_active:
                entry.flow.rest()

    def _add(self, report: TrafficReport, each: InstanceCpu, *, has_base: bool) -> CpuEntry:
        entry = CpuEntry(report.point, report.node_id, each.instance_id, has_base=has_base)
        self._by_point[report.point][each.instance_id] = entry
        self._by_instance.setdefault(each.instance_id, {})[report.point] = entry
        return entry

    def granted(self, point: str, instance_id: str, rate_us_per_s: int) -> None:
        """The point was answered with this rate: until it says otherwise, it applies it."""
        self._by_point[point][instance_id].flow.applied_per_s = rate_us_per_s

    def forget_instance(self, instance_id: str) -> None:
        """The instance is deleted."""
        for name in self._by_instance.pop(instance_id, {}):
            del self._by_point[name][instance_id]

    def forget_point(self, point: str) -> None:
        """The point is gone for good."""
        for instance_id in self._by_point.pop(point, {}):
            entries = self._by_instance[instance_id]
            del entries[point]
            if not entries:
                del self._by_instance[instance_id]

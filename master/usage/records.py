"""Usage records from accepted traffic reports: one per point, instance and interval that ended.

Pure: `now_ms` is epoch ms of the `UsageClock`. A point's intervals are cut when its reports pass their ends,
so a point that is silent for a while loses nothing; one that stays silent has its open interval told as far
as it is known. What a master did not see of a boot id (it was elected later) shows in the totals.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from contracts.quota import InstanceTraffic, TrafficReport
from contracts.specs import InstanceSpec
from contracts.usage_records import UsageRecord
from master.usage.meter import ZERO, Counters, Meter, Source, between, counters_of, rate_bytes_per_s

CATCH_UP_INTERVALS: Final = 60
"""A point that was silent longer begins anew: what it carried meanwhile is recovered from the totals."""
SAID_EVERY_MS: Final = 3_600_000
"""Totals that are not zero are told at least so often, so that who looks for the record before finds it."""
_SILENT_MS: Final = 10_000
_ROUND_METERS: Final = 2_000
"""Idle meters looked at in one round, so that no round takes long."""


@dataclass(slots=True)
class _Point:
    """One run of a point."""

    source: Source
    sequence: int
    time_ms: int
    """When it was heard of last; meters that it did not list are unchanged until then."""
    is_complete: bool
    """It told everything: what it has not listed has counted nothing."""
    is_closed: bool = False
    """Silent for long: its open intervals were told."""
    meters: dict[str, Meter] = field(default_factory=dict)


class UsageAggregator:
    """All points of one master's run."""

    def __init__(self, specs: Callable[[], Mapping[str, InstanceSpec]], interval_ms: int) -> None:
        self._specs = specs
        self._interval_ms = interval_ms
        self._points: dict[str, _Point] = {}
        self._ready: list[UsageRecord] = []
        self._due: deque[tuple[_Point, Meter]] = deque()
        self._now_ms = 0

    # -- reports ----------------------------------------------------------------------------------------

    def receive(self, report: TrafficReport, now_ms: int) -> None:
        """A report that the ledger accepted."""
        self._now_ms = now_ms
        point = self._points.get(report.point)
        if point is not None and point.source.boot_id != report.boot_id:
            self._close(point)
            point = None
        if point is None:
            point = self._points[report.point] = self._begin(report, now_ms)
        elif not 0 <= now_ms - point.time_ms <= CATCH_UP_INTERVALS * self._interval_ms:
            self._skip(point, report, now_ms)
        is_next = report.sequence == point.sequence + 1
        elapsed_ms = report.window_ms if is_next else now_ms - point.time_ms
        for traffic in report.instances:
            self._take(point, traffic, now_ms, elapsed_ms)
        if report.full:
            self._drop_unlisted(point, report, now_ms)
        point.source = point.source._replace(node_id=report.node_id, cluster_id=report.cluster_id)
        point.is_complete = point.is_complete or report.full
        point.sequence = report.sequence
        point.time_ms = now_ms
        point.is_closed = False

    def _begin(self, report: TrafficReport, now_ms: int) -> _Point:
        """A run of which nothing is known; its counters are known to begin at zero if this is its start."""
        is_start = report.sequence == 1
        uptime_ms = max(report.uptime_ms, report.window_ms if is_start else 0)
        since_ms = max(0, now_ms - uptime_ms) if uptime_ms or is_start else 0
        source = Source(report.point, report.node_id, report.cluster_id, report.boot_id, since_ms)
        reach_ms = CATCH_UP_INTERVALS * self._interval_ms
        time_ms = max(since_ms, now_ms - reach_ms) if is_start else now_ms
        return _Point(source, report.sequence - 1, time_ms, is_complete=is_start)

    def _skip(self, point: _Point, report: TrafficReport, now_ms: int) -> None:
        """The clock jumped, or the point was cut off for very long: begin at another time."""
        self._close(point)
        is_next = report.sequence == point.sequence + 1
        begin_ms = now_ms - (min(report.window_ms, self._interval_ms) if is_next else 1)
        point.time_ms = begin_ms
        listed = {} if is_next else {each.instance_id: each for each in report.instances}
        for instance_id, meter in point.meters.items():
            if instance_id in listed:  # what was carried since is not known to be of now
                meter.counters = _grown(meter, counters_of(listed[instance_id]))
            meter.restart(begin_ms)
            meter.said_ms = begin_ms
            meter.owes = meter.counters != ZERO

    def _take(self, point: _Point, traffic: InstanceTraffic, now_ms: int, elapsed_ms: int) -> None:
        counters = counters_of(traffic)
        meter = point.meters.get(traffic.instance_id)
        if meter is None:
            # A master that comes later has a moment, too, in which to say the totals.
            at_ms = point.time_ms if point.is_complete else now_ms - 1
            meter = Meter(traffic.instance_id, at_ms, ZERO if point.is_complete else counters)
            point.meters[traffic.instance_id] = meter
        counters = _grown(meter, counters)
        if meter.known_ms < point.time_ms:
            self._roll(point, meter, point.time_ms, meter.counters)
        peaks = (
            rate_bytes_per_s(counters.produce_bytes - meter.counters.produce_bytes, elapsed_ms),
            rate_bytes_per_s(counters.consume_bytes - meter.counters.consume_bytes, elapsed_ms),
        )
        self._roll(point, meter, now_ms, counters, peaks)
        meter.take(traffic, counters)

    def _drop_unlisted(self, point: _Point, report: TrafficReport, now_ms: int) -> None:
        """A full report lists every instance that the point leads something of; counters stay."""
        listed = {each.instance_id for each in report.instances}
        for instance_id, meter in point.meters.items():
            if instance_id not in listed and (meter.partitions_led or meter.stored_bytes):
                self._roll(point, meter, now_ms, meter.counters)
                meter.partitions_led = meter.stored_bytes = 0
                meter.blocked = False

    # -- time -----------------------------------------------------------------------------------------------

    def take_records(self, now_ms: int) -> list[UsageRecord]:
        """Once a period: the records of intervals that ended, of idle instances a part of them."""
        self._now_ms = now_ms
        silent_ms = 2 * self._interval_ms + _SILENT_MS
        for point in self._points.values():
            if not point.is_closed and now_ms - point.time_ms > silent_ms:
                self._close(point)
        if not self._due:
            self._due.extend(
                (p, m) for p in self._points.values() if not p.is_closed for m in p.meters.values()
            )
        for _ in range(min(_ROUND_METERS, len(self._due))):
            point, meter = self._due.popleft()
            if meter.known_ms < point.time_ms and self._end_of(meter) <= point.time_ms:
                self._roll(point, meter, point.time_ms, meter.counters)
        records, self._ready = self._ready, []
        return records

    def open_records(self) -> list[UsageRecord]:
        """What would be lost with all processes: open intervals in which something was carried or is owed."""
        return [
            meter.record(point.source, self._specs().get(meter.instance_id), self._interval_ms, self._now_ms)
            for point in self._points.values()
            for meter in point.meters.values()
            if meter.known_ms > meter.start_ms and (meter.owes or meter.counters != meter.at_start)
        ]

    def lost(self, records: Iterable[UsageRecord]) -> None:
        """These could not be written: the next ones of the same runs must come, to tell the totals."""
        for record in records:
            point = self._points.get(record.point)
            if point is not None and point.source.boot_id == record.boot_id:
                meter = point.meters.get(record.instance_id)
                if meter is not None:
                    meter.owes = True

    def forget_point(self, point: str) -> None:
        """The broker is gone for good."""
        known = self._points.pop(point, None)
        if known is not None:
            self._close(known)

    # -- intervals ------------------------------------------------------------------------------------------

    def _end_of(self, meter: Meter) -> int:
        return (meter.start_ms // self._interval_ms + 1) * self._interval_ms

    def _roll(
        self, point: _Point, meter: Meter, to_ms: int, counters: Counters, peaks: tuple[int, int] = (0, 0)
    ) -> None:
        """Let time pass for one meter, while its counters grow to these; tell each interval that ends."""
        from_ms, before = meter.known_ms, meter.counters
        while (end_ms := self._end_of(meter)) <= to_ms:
            meter.note_peaks(*peaks)
            meter.pass_time(end_ms)
            meter.counters = between(before, counters, end_ms - from_ms, max(1, to_ms - from_ms))
            self._tell(point, meter)
            meter.restart(end_ms)
        if meter.known_ms < to_ms:
            meter.note_peaks(*peaks)
        meter.pass_time(to_ms)
        meter.counters = counters

    def _tell(self, point: _Point, meter: Meter) -> None:
        """A record of the open interval, unless there is nothing to say."""
        if meter.known_ms == meter.start_ms:
            return
        spec = self._specs().get(meter.instance_id)
        lives = spec is None or not spec.state.is_gone
        is_time = lives and meter.counters != ZERO and meter.known_ms - meter.said_ms >= SAID_EVERY_MS
        if meter.is_worth_a_record or is_time:
            self._ready.append(meter.record(point.source, spec, self._interval_ms, self._now_ms))
            meter.owes = False
            meter.said_ms = meter.known_ms

    def _close(self, point: _Point) -> None:
        """Tell the open intervals as far as they are known."""
        if point.is_closed:
            return
        point.is_closed = True
        for meter in point.meters.values():
            if meter.known_ms < point.time_ms:
                self._roll(point, meter, point.time_ms, meter.counters)
            self._tell(point, meter)
            meter.restart(meter.known_ms)


def _grown(meter: Meter, counters: Counters) -> Counters:
    """Counters never go back within a run; of a deleted instance that its broker forgot they may."""
    known = meter.counters
    return Counters(*(max(old, new) for old, new in zip(known, counters, strict=True)))

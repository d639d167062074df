"""One instance on one point: what it used since its open interval began, cut at the interval's ends.

Counters between two reports are taken to grow evenly, in whole numbers: what intervals hold is the difference
of totals at their ends, so no cut loses or invents a byte.
"""

from typing import Final, NamedTuple

from contracts.quota import InstanceTraffic
from contracts.specs import InstanceSpec
from contracts.usage_records import COUNT_MAX, UsageRecord, record_id

ELAPSED_MS_MIN: Final = 100
"""Reports closer together are judged as if they were this far apart: a hiccup is not a peak."""


class Counters(NamedTuple):
    """What only grows within a boot id."""

    produce_bytes: int = 0
    consume_bytes: int = 0
    produce_requests: int = 0
    consume_requests: int = 0
    produce_throttled_ms: int = 0
    consume_throttled_ms: int = 0
    refused: int = 0


ZERO: Final = Counters()


def counters_of(traffic: InstanceTraffic) -> Counters:
    """The counters that a report lists."""
    produce, consume = traffic.produce, traffic.consume
    return Counters(
        produce.used,
        consume.used,
        produce.requests,
        consume.requests,
        produce.throttled_ms,
        consume.throttled_ms,
        produce.refused,
    )


class Source(NamedTuple):
    """The point's run that a meter belongs to."""

    point: str
    node_id: int
    cluster_id: str
    boot_id: str
    counted_since_ms: int


class Meter:
    """The open interval of one instance on one point.

    Invariant: `start_ms <= known_ms`, and no multiple of the grid lies between them.
    """

    __slots__ = (
        "at_start",
        "blocked",
        "blocked_ms",
        "consume_peak_bytes_per_s",
        "consume_rate_bytes_per_s",
        "counters",
        "instance_id",
        "known_ms",
        "owes",
        "partitions_led",
        "produce_peak_bytes_per_s",
        "produce_rate_bytes_per_s",
        "said_ms",
        "start_ms",
        "stored_byte_ms",
        "stored_bytes",
    )

    def __init__(self, instance_id: str, at_ms: int, base: Counters) -> None:
        self.instance_id = instance_id
        self.owes = base != ZERO
        """A record must say the totals even if nothing was used: someone may miss what was before."""
        self.partitions_led = 0
        self.stored_bytes = 0
        self.blocked = False
        self.produce_rate_bytes_per_s = 0
        self.consume_rate_bytes_per_s = 0
        self.counters = base
        self.said_ms = at_ms
        """The end of the last interval that a record was made of."""
        self.restart(at_ms)

    def restart(self, at_ms: int) -> None:
        """Begin an interval at any time, from the counters as they are."""
        self.start_ms = self.known_ms = at_ms
        self.at_start = self.counters
        self.stored_byte_ms = self.blocked_ms = 0
        self.produce_peak_bytes_per_s = self.consume_peak_bytes_per_s = 0

    @property
    def is_worth_a_record(self) -> bool:
        """Whether the interval so far must be told."""
        return bool(
            self.owes
            or self.partitions_led
            or self.stored_bytes
            or self.stored_byte_ms
            or self.counters != self.at_start
        )

    def pass_time(self, to_ms: int) -> None:
        """Nothing changed until `to_ms`, which lies within the open interval or at its end."""
        elapsed_ms = to_ms - self.known_ms
        assert elapsed_ms >= 0
        self.stored_byte_ms += self.stored_bytes * elapsed_ms
        if self.blocked:
            self.blocked_ms += elapsed_ms
        self.known_ms = to_ms

    def note_peaks(self, produce_bytes_per_s: int, consume_bytes_per_s: int) -> None:
        """Rates that held during a part of the open interval."""
        self.produce_peak_bytes_per_s = max(self.produce_peak_bytes_per_s, produce_bytes_per_s)
        self.consume_peak_bytes_per_s = max(self.consume_peak_bytes_per_s, consume_bytes_per_s)

    def take(self, traffic: InstanceTraffic, counters: Counters) -> None:
        """What a report says is so from now on."""
        self.counters = counters
        self.partitions_led = traffic.partitions_led
        self.stored_bytes = traffic.stored_bytes
        self.blocked = traffic.blocked
        self.produce_rate_bytes_per_s = traffic.produce.rate_per_s
        self.consume_rate_bytes_per_s = traffic.consume.rate_per_s

    def record(self, source: Source, spec: InstanceSpec | None, grid_ms: int, sent_at_ms: int) -> UsageRecord:
        """The open interval as if it ended at `known_ms`, which is after its start."""
        used = [now - before for now, before in zip(self.counters, self.at_start, strict=True)]
        return UsageRecord(
            id=record_id(source.boot_id, self.instance_id, self.start_ms),
            point=source.point,
            node_id=source.node_id,
            cluster_id=source.cluster_id,
            boot_id=source.boot_id,
            counted_since_ms=source.counted_since_ms,
            instance_id=self.instance_id,
            interval_start_ms=self.start_ms,
            interval_ms=self.known_ms - self.start_ms,
            grid_ms=grid_ms,
            produce_bytes=used[0],
            consume_bytes=used[1],
            produce_bytes_total=self.counters.produce_bytes,
            consume_bytes_total=self.counters.consume_bytes,
            produce_requests=used[2],
            consume_requests=used[3],
            produce_throttled_ms=used[4],
            consume_throttled_ms=used[5],
            refused=used[6],
            stored_bytes=self.stored_bytes,
            stored_byte_ms=min(self.stored_byte_ms, COUNT_MAX),
            produce_peak_bytes_per_s=self.produce_peak_bytes_per_s,
            consume_peak_bytes_per_s=self.consume_peak_bytes_per_s,
            produce_rate_bytes_per_s=self.produce_rate_bytes_per_s,
            consume_rate_bytes_per_s=self.consume_rate_bytes_per_s,
            produce_limit_bytes_per_s=spec.produce_rate_bytes_per_s if spec else 0,
            consume_limit_bytes_per_s=spec.consume_rate_bytes_per_s if spec else 0,
            capacity_bytes=spec.capacity_bytes if spec else 0,
            partitions_led=self.partitions_led,
            blocked_ms=self.blocked_ms,
            sent_at_ms=sent_at_ms,
        )


def between(before: Counters, after: Counters, part_ms: int, whole_ms: int) -> Counters:
    """The counters `part_ms` into a span of `whole_ms`, by even growth, rounded down."""
    return Counters(
        *(old + (new - old) * part_ms // whole_ms for old, new in zip(before, after, strict=True))
    )


def rate_bytes_per_s(size_bytes: int, elapsed_ms: int) -> int:
    """A rate between two reports."""
    return size_bytes * 1000 // max(ELAPSED_MS_MIN, elapsed_ms)

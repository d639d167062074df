"""Usage by the hour from the master's records, before the pipeline settles it. Pure.

Counters of a boot id only grow, so what was used is how much a record's totals are above those before it: a
record that comes twice counts nothing, and the bytes of one that never comes are in the hour of the next.
Bytes are exact in their sum; which hour has those of a lost record is not.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

from contracts.billing import DAY_MS, HOUR_MS, SLOT_MS, PeriodState
from contracts.units import GB
from contracts.usage_records import UsageRecord
from tenants.rules.usage_periods import UsagePeriod

KEPT_MS: Final = 35 * DAY_MS
"""Hours are kept so long, this month and some of the one before, and totals of a boot id as long.
No older record is counted, so none that comes again is new."""
FUTURE_MS: Final = DAY_MS
"""How far ahead of our clock an interval may end: the master's and this process's may differ."""
NUMBER_MAX: Final = 2**63 - 1
"""What a column holds."""
_FRESH_MS: Final = 300_000
_SLOT_S: Final = SLOT_MS // 1000

MeterKey = tuple[str, str]
"""(boot id, instance id)."""
HourKey = tuple[str, int]
"""(instance id, epoch ms at which the hour begins)."""


class Position(NamedTuple):
    """How far one partition of a topic is counted; a topic that was made anew has another id."""

    topic_id: str
    next_offset: int


class Meter(NamedTuple):
    """How far the counters of one boot id and instance are counted."""

    until_ms: int
    produce_bytes_total: int
    consume_bytes_total: int


@dataclass(slots=True)
class CountedHour:
    """What one instance used in an hour, over all points."""

    produce_bytes: int = 0
    consume_bytes: int = 0
    produce_requests: int = 0
    consume_requests: int = 0
    refused: int = 0
    produce_throttled_ms: int = 0
    consume_throttled_ms: int = 0
    blocked_ms: int = 0
    stored_byte_s: int = 0
    """The integral of stored bytes, in byte-seconds."""
    recovered_bytes: int = 0
    produce_peak_bytes: int = 0
    """Bytes of the five minutes with the most, among those that are over."""
    consume_peak_bytes: int = 0
    slot_start_ms: int = 0
    """The newest five minutes."""
    slot_produce_bytes: int = 0
    slot_consume_bytes: int = 0

    def add(self, record: UsageRecord, produce_bytes: int, consume_bytes: int) -> None:
        """A record, and the bytes by which its totals have grown."""
        self.produce_bytes += produce_bytes
        self.consume_bytes += consume_bytes
        self.recovered_bytes += max(0, produce_bytes - record.produce_bytes)
        self.recovered_bytes += max(0, consume_bytes - record.consume_bytes)
        self.produce_requests += record.produce_requests
        self.consume_requests += record.consume_requests
        self.refused += record.refused
        self.produce_throttled_ms += record.produce_throttled_ms
        self.consume_throttled_ms += record.consume_throttled_ms
        self.blocked_ms += record.blocked_ms
        self.stored_byte_s += (record.stored_byte_ms + 500) // 1000
        slot_start_ms = record.interval_start_ms // SLOT_MS * SLOT_MS
        if slot_start_ms > self.slot_start_ms:
            self.produce_peak_bytes = max(self.produce_peak_bytes, self.slot_produce_bytes)
            self.consume_peak_bytes = max(self.consume_peak_bytes, self.slot_consume_bytes)
            self.slot_start_ms, self.slot_produce_bytes, self.slot_consume_bytes = slot_start_ms, 0, 0
        if slot_start_ms == self.slot_start_ms:
            self.slot_produce_bytes += min(produce_bytes, record.produce_bytes)
            self.slot_consume_bytes += min(consume_bytes, record.consume_bytes)

    def limited(self) -> dict[str, int]:
        """By name, as far as a column holds it."""
        return {one.name: min(getattr(self, one.name), NUMBER_MAX) for one in fields(self)}


class Unfit(StrEnum):
    """Why a record is not counted."""

    SEEN = "seen"
    """What it tells is counted already."""
    CLOCK = "clock"
    """Its interval lies a day ahead, or further back than hours are kept."""
    LESS = "less"
    """Its totals are below what is counted: it was sent again with another time, or the broker's machine was
    set back to an earlier state."""
    IMPOSSIBLE = "impossible"
    """It has more bytes than its totals."""


class Tally:
    """Hours and meters as they were, and what records add to them."""

    def __init__(self, meters: Mapping[MeterKey, Meter], hours: Mapping[HourKey, CountedHour]) -> None:
        """Those that the records are about, as far as there are any."""
        self.meters, self.hours = dict(meters), dict(hours)
        self.unfit: Counter[Unfit] = Counter()

    def take(self, records: Iterable[UsageRecord], now_ms: int) -> None:
        """Count records, in the order of the topic."""
        for record in records:
            unfit = self._take(record, now_ms)
            if unfit is not None:
                self.unfit[unfit] += 1

    def _take(self, record: UsageRecord, now_ms: int) -> Unfit | None:
        until_ms = record.interval_start_ms + record.interval_ms
        if until_ms > now_ms + FUTURE_MS or record.interval_start_ms < now_ms - KEPT_MS:
            return Unfit.CLOCK
        produce, consume = record.produce_bytes_total, record.consume_bytes_total
        if produce < record.produce_bytes or consume < record.consume_bytes:
            return Unfit.IMPOSSIBLE
        key = meter_key(record)
        before = self.meters.get(key) or _before(record)
        less = produce < before.produce_bytes_total or consume < before.consume_bytes_total
        more = produce > before.produce_bytes_total or consume > before.consume_bytes_total
        # More bytes are news whatever the time says: the master's clock may have been ahead before.
        if until_ms <= before.until_ms and not (more and not less):
            return Unfit.SEEN
        if less:
            return Unfit.LESS
        hour = self.hours.setdefault(hour_key(record), CountedHour())
        hour.add(record, produce - before.produce_bytes_total, consume - before.consume_bytes_total)
        self.meters[key] = Meter(until_ms, produce, consume)
        return None


def meter_key(record: UsageRecord) -> MeterKey:
    """Whose counters a record tells."""
    return record.boot_id, record.instance_id


def hour_key(record: UsageRecord) -> HourKey:
    """The hour in which its interval begins."""
    return record.instance_id, record.interval_start_ms // HOUR_MS * HOUR_MS


def _before(record: UsageRecord) -> Meter:
    """In front of the first record of a boot id: of what its counters had before, only what they counted just
    before the interval is this hour's."""
    if record.counted_since_ms > 0 and record.interval_start_ms - record.counted_since_ms <= _FRESH_MS:
        return Meter(0, 0, 0)
    return Meter(
        0,
        record.produce_bytes_total - record.produce_bytes,
        record.consume_bytes_total - record.consume_bytes,
    )


# --- as periods --------------------------------------------------------------------------------------


class Measured(NamedTuple):
    """A period, and the exact integral of what was stored in it."""

    period: UsagePeriod
    stored_byte_ms: Decimal


def hour_of(start_ms: int, hour: CountedHour, now_ms: int) -> Measured:
    """A counted hour as it is shown."""
    period = UsagePeriod(
        at=_time(start_ms),
        produce_bytes=hour.produce_bytes,
        consume_bytes=hour.consume_bytes,
        produce_requests=hour.produce_requests,
        consume_requests=hour.consume_requests,
        refused=hour.refused,
        produce_throttled_ms=hour.produce_throttled_ms,
        consume_throttled_ms=hour.consume_throttled_ms,
        blocked_ms=hour.blocked_ms,
        stored_bytes_avg=hour.stored_byte_s * 1000 // HOUR_MS if start_ms + HOUR_MS <= now_ms else None,
        gb_hours=round(hour.stored_byte_s * 1000 / (GB * HOUR_MS), 6),
        produce_peak_bytes_per_s=max(hour.produce_peak_bytes, hour.slot_produce_bytes) // _SLOT_S,
        consume_peak_bytes_per_s=max(hour.consume_peak_bytes, hour.slot_consume_bytes) // _SLOT_S,
        recovered_bytes=hour.recovered_bytes,
        completeness=None,
        estimated=hour.recovered_bytes > 0,
        state=PeriodState.OPEN,
        provisional=True,
    )
    return Measured(period, Decimal(hour.stored_byte_s * 1000))


def joined(metered: Iterable[Measured], counted: Iterable[Measured]) -> list[Measured]:
    """Hours that the pipeline has settled, and of the others what knows of more; oldest first."""
    found = {one.period.at: one for one in counted}
    for one in metered:
        other = found.get(one.period.at)
        if other is None or one.period.state is PeriodState.COMPLETE or _weight(one) >= _weight(other):
            found[one.period.at] = one
    return [found[at] for at in sorted(found)]


def _weight(one: Measured) -> tuple[int, int, Decimal]:
    period = one.period
    requests = period.produce_requests + period.consume_requests
    return period.produce_bytes + period.consume_bytes, requests, one.stored_byte_ms


def days_of(metered: Iterable[Measured], hours: Iterable[Measured], now_ms: int) -> list[Measured]:
    """Days that the pipeline has settled; others by their hours, where one of these is provisional."""
    found = {one.period.at: one for one in metered}
    by_day: dict[str, list[Measured]] = {}
    for one in hours:
        by_day.setdefault(one.period.at[:10] + "T00:00:00Z", []).append(one)
    for at, its in by_day.items():
        known = found.get(at)
        is_settled = known is not None and known.period.state is PeriodState.COMPLETE
        if not is_settled and any(one.period.provisional for one in its):
            found[at] = _day(at, its, now_ms)
    return [found[at] for at in sorted(found)]


_ADDED: Final = (
    *("produce_bytes", "consume_bytes", "produce_requests", "consume_requests", "refused"),
    *("produce_throttled_ms", "consume_throttled_ms", "blocked_ms", "recovered_bytes"),
)


def _day(at: str, hours: list[Measured], now_ms: int) -> Measured:
    periods = [one.period for one in hours]
    stored_byte_ms = sum((one.stored_byte_ms for one in hours), Decimal(0))
    is_over = datetime.fromisoformat(at).timestamp() * 1000 + DAY_MS <= now_ms
    day = msgspec.structs.replace(
        periods[0],
        at=at,
        **{name: sum(getattr(one, name) for one in periods) for name in _ADDED},
        stored_bytes_avg=int(stored_byte_ms / DAY_MS) if is_over else None,
        gb_hours=round(float(stored_byte_ms) / (GB * HOUR_MS), 6),
        produce_peak_bytes_per_s=max(one.produce_peak_bytes_per_s for one in periods),
        consume_peak_bytes_per_s=max(one.consume_peak_bytes_per_s for one in periods),
        completeness=None,
        estimated=any(one.estimated for one in periods),
        state=PeriodState.OPEN,
        provisional=True,
    )
    return Measured(day, stored_byte_ms)


def _time(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"

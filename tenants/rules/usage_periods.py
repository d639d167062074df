"""Usage in periods: what may be asked for, and the 95th percentile over the grid of five minutes. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from enum import StrEnum
from typing import Annotated, Final

import msgspec

from contracts.billing import DAY_MS, HOUR_MS, SLOT_MS, PeriodState
from tenants.rules.lifecycle import Fault, unfit

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
LAST_MS: Final = 253_402_214_400_000
"""The last day of the year 9999."""


Count = Annotated[int, msgspec.Meta(examples=[1_048_576])]
Time = Annotated[
    str, msgspec.Meta(examples=["2026-11-01T00:00:00Z"], extra_json_schema={"format": "date-time"})
]


class UsagePeriod(msgspec.Struct, frozen=True):
    """Five minutes, an hour or a day. Throttled times are summed over brokers."""

    at: Time
    """When it begins."""
    produce_bytes: Count
    consume_bytes: Count
    produce_requests: int
    consume_requests: int
    refused: int
    """Produce requests refused because the instance was full."""
    produce_throttled_ms: int
    consume_throttled_ms: int
    blocked_ms: int
    """Time in which it was full."""
    stored_bytes_avg: Count | None
    """None until the period is over."""
    gb_hours: float
    """The integral of stored bytes."""
    produce_peak_bytes_per_s: int
    """The largest average of five minutes."""
    consume_peak_bytes_per_s: int
    recovered_bytes: int
    """Part of the bytes whose report was lost: known from later totals, their times are estimated."""
    completeness: float | None
    """Time that was reported of the time that should have been; None: nothing was expected."""
    estimated: bool
    """Reports of some of it are missing."""
    state: PeriodState | None
    """None for five minutes."""
    provisional: bool
    """Counted by the control plane as reports came; the pipeline has not settled it yet."""


class Resolution(StrEnum):
    """How long each period of an answer is."""

    SLOT = "5m"
    HOUR = "hour"
    DAY = "day"

    @property
    def period_ms(self) -> int:
        """Length of one."""
        return {"5m": SLOT_MS, "hour": HOUR_MS, "day": DAY_MS}[self.value]

    @property
    def span_ms_max(self) -> int:
        """How much may be asked for at once: what is read into memory is bounded by it."""
        return {"5m": 31, "hour": 93, "day": 5 * 366}[self.value] * DAY_MS

    @property
    def span_ms_default(self) -> int:
        """How much is shown when nothing is said."""
        return {"5m": 1, "hour": 7, "day": 31}[self.value] * DAY_MS


P95_SPAN_MS_MAX: Final = 31 * DAY_MS
"""The 95th percentile is told of a month at most."""


@dataclass(frozen=True, slots=True)
class Span:
    """From (inclusive) to (exclusive)."""

    from_ms: int
    to_ms: int

    @property
    def first_day(self) -> date:
        """The first day, of UTC."""
        return _day(self.from_ms)

    @property
    def last_day(self) -> date:
        """The last day, of UTC."""
        return _day(self.to_ms - 1)

    @property
    def slots(self) -> int:
        """Periods of five minutes that begin in it."""
        return -(-self.to_ms // SLOT_MS) - -(-self.from_ms // SLOT_MS)


def span_of(
    start: datetime | None, end: datetime | None, resolution: Resolution, now_ms: int
) -> Span | list[Fault]:
    """What was asked for, or what is wrong with it. Times without a zone are UTC."""
    to_ms = now_ms if end is None else ms_of(end)
    from_ms = max(0, to_ms - resolution.span_ms_default) if start is None else ms_of(start)
    faults = [
        unfit(name, "must be in the years 1970 to 9999")
        for name, at_ms in (("from", from_ms), ("to", to_ms))
        if not 0 <= at_ms <= LAST_MS
    ]
    if not faults and to_ms <= from_ms:
        faults.append(unfit("to", "must be after `from`"))
    if not faults and to_ms - from_ms > resolution.span_ms_max:
        days = resolution.span_ms_max // DAY_MS
        faults.append(unfit("from", f"at most {days} days may be asked for by {resolution.value}"))
    return faults or Span(from_ms, to_ms)


def p95(values: Sequence[int], slots: int) -> int:
    """The 95th percentile by nearest rank over a grid of `slots`, where a slot without a value is zero."""
    assert slots >= len(values)
    rank = slots - slots // 20
    zeros = slots - len(values)
    return 0 if rank <= zeros else sorted(values)[rank - zeros - 1]


def ms_of(at: datetime) -> int:
    """Epoch ms; a time without a zone is UTC."""
    aware = at.replace(tzinfo=UTC) if at.tzinfo is None else at
    return int((aware - _EPOCH).total_seconds() * 1000)


def _day(at_ms: int) -> date:
    return datetime.fromtimestamp(at_ms / 1000, UTC).date()

"""An instance's usage: from the pipeline's tables, and where these have not settled it, as it is counted."""

import asyncio
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from contracts.billing import DAY_MS, HOUR_MS, SLOT_MS, USAGE_5M, USAGE_DAY, USAGE_HOUR
from contracts.units import GB
from tenants import pipeline_tables
from tenants.pipeline_tables import DeltaTables
from tenants.rules.counted_usage import KEPT_MS, CountedHour, Measured, days_of, hour_of, joined
from tenants.rules.usage_periods import P95_SPAN_MS_MAX, Resolution, Span, UsagePeriod, p95
from tenants.store import counted_usage
from tenants.store.engine import Store

_SLOT_S: Final = SLOT_MS // 1000
_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"
_PEAKS: Final = "produce_peak_5m_bytes_per_s, consume_peak_5m_bytes_per_s"
_OF: Final = {
    # (table, column that says when a row begins, largest five-minute averages, state)
    Resolution.SLOT: (
        USAGE_5M,
        "slot_start",
        f"produce_bytes / {_SLOT_S}, consume_bytes / {_SLOT_S}",
        "cast(null as varchar)",
    ),
    Resolution.HOUR: (USAGE_HOUR, "hour_start", _PEAKS, "state"),
    Resolution.DAY: (USAGE_DAY, "day", _PEAKS, "state"),
}


@dataclass(frozen=True, slots=True)
class Percentiles:
    """95th percentiles of five-minute averages, by nearest rank."""

    produce_bytes_per_s: int
    consume_bytes_per_s: int


@dataclass(frozen=True, slots=True)
class Metered:
    """Periods, oldest first; one that is not there is not known."""

    periods: list[UsagePeriod]
    stored_byte_ms: Decimal
    """The integral over all of them, exactly."""


class UsageReports:
    """Reads usage. Answers are None where nothing is known at all. Raises: Unavailable."""

    def __init__(self, source: DeltaTables, store: Store) -> None:
        self._tables = source
        self._store = store

    async def periods(
        self, instance_id: str, span: Span, resolution: Resolution, now_ms: int
    ) -> Metered | None:
        """Periods that begin in a span; five minutes are the pipeline's alone."""
        metered = await self._metered(instance_id, span, resolution)
        found = metered or []
        if resolution is Resolution.HOUR:
            found = await self._with_counted(found, instance_id, span, now_ms)
        elif resolution is Resolution.DAY:
            whole = _whole_days(span, now_ms)
            if whole is not None:
                settled = await self._metered(instance_id, whole, Resolution.HOUR)
                hours = await self._with_counted(settled or [], instance_id, whole, now_ms)
                found = days_of(found, hours, now_ms)
        if metered is None and not found:
            return None
        periods = [one.period for one in found]
        return Metered(periods, sum((one.stored_byte_ms for one in found), Decimal(0)))

    async def hours(self, instance_id: str, span: Span, now_ms: int) -> list[Measured]:
        """Hours that begin in a span, settled or counted, oldest first."""
        metered = await self._metered(instance_id, span, Resolution.HOUR)
        return await self._with_counted(metered or [], instance_id, span, now_ms)

    async def _with_counted(
        self, metered: list[Measured], instance_id: str, span: Span, now_ms: int
    ) -> list[Measured]:
        counted = await asyncio.to_thread(self._counted, instance_id, span)
        return joined(metered, (hour_of(start_ms, hour, now_ms) for start_ms, hour in counted))

    def _counted(self, instance_id: str, span: Span) -> list[tuple[int, CountedHour]]:
        with self._store.read() as connection:
            return counted_usage.of_instance(connection, instance_id, span.from_ms, span.to_ms)

    async def _metered(self, instance_id: str, span: Span, resolution: Resolution) -> list[Measured] | None:
        """What the pipeline has."""
        table, start, peaks, state = _OF[resolution]
        found = await self._tables.columns(
            table,
            f"select {_columns(start, peaks, state, resolution.period_ms)} from {table} "
            f"where {_where(instance_id, span, start, by_month=resolution is Resolution.DAY)}",
            order='"at"',
        )
        if found is None:
            return None
        *columns, stored_byte_ms = found
        periods = map(UsagePeriod, *columns)
        return [Measured(*pair) for pair in zip(periods, map(Decimal, stored_byte_ms), strict=True)]

    async def percentiles(self, instance_id: str, span: Span) -> Percentiles | None:
        """Over all five-minute slots of a span, those to come included; None of more than a month."""
        if span.to_ms - span.from_ms > P95_SPAN_MS_MAX or span.slots == 0:
            return None
        found = await self._tables.columns(
            USAGE_5M,
            f"select coalesce(produce_bytes, 0) as produce, coalesce(consume_bytes, 0) as consume "
            f"from {USAGE_5M} where {_where(instance_id, span, 'slot_start')}",
        )
        if found is None:
            return None
        produce, consume = (p95(values, max(span.slots, len(values))) // _SLOT_S for values in found)
        return Percentiles(produce, consume)


def _whole_days(span: Span, now_ms: int) -> Span | None:
    """The days that begin in a span and whose hours may be counted; None: there are none."""
    first_ms = max(span.from_ms, now_ms - KEPT_MS)
    from_ms, to_ms = (-(-at_ms // DAY_MS) * DAY_MS for at_ms in (first_ms, span.to_ms))
    return Span(from_ms, to_ms) if from_ms < to_ms else None


def _columns(start: str, peaks: str, state: str, period_ms: int) -> str:
    """The columns of `UsagePeriod`, in its order, and the exact integral of what was stored."""
    produce_peak, consume_peak = (each.strip() for each in peaks.split(","))
    integral = "coalesce(stored_byte_ms, 0)"
    expressions = {name: f"coalesce({name}, 0)" for name in UsagePeriod.__struct_fields__}
    expressions |= {
        "at": f"to_char({start}, '{_TIME}')",
        "stored_bytes_avg": f"cast(cast({integral} as double) / {period_ms} as bigint)",
        "gb_hours": f"round(cast({integral} as double) / {GB * HOUR_MS}, 6)",
        "produce_peak_bytes_per_s": f"coalesce({produce_peak}, 0)",
        "consume_peak_bytes_per_s": f"coalesce({consume_peak}, 0)",
        "recovered_bytes": "coalesce(produce_recovered_bytes, 0) + coalesce(consume_recovered_bytes, 0)",
        "completeness": "case when expected_ms > 0 "
        "then round(cast(covered_ms as double) / expected_ms, 4) end",
        "estimated": "coalesce(estimated, false)",
        "state": state,
        "provisional": "false",
        "stored_byte_ms": integral,
    }
    return ", ".join(f'{expression} as "{name}"' for name, expression in expressions.items())


def _where(instance_id: str, span: Span, start: str, *, by_month: bool = False) -> str:
    """Periods begin with a slot, so bounds are moved to the next one: answers are kept by their question."""
    first_s, end_s = (-(-at_ms // SLOT_MS) * _SLOT_S for at_ms in (span.from_ms, span.to_ms))
    conditions = [
        f"instance_id = {pipeline_tables.text(instance_id)}",
        f"day between {pipeline_tables.day(span.first_day)} and {pipeline_tables.day(span.last_day)}",
        f"to_unixtime({start}) >= {first_s} and to_unixtime({start}) < {end_s}",
    ]
    if by_month:
        conditions.append(f"month between '{span.first_day:%Y-%m}' and '{span.last_day:%Y-%m}'")
    return " and ".join(conditions)

"""From interval records to five-minute slots, hours and days: queries in DuckDB's SQL, pure.

A record is spread evenly over its interval, in integers: up to a time x of an interval of length n, a
quantity v has come to `v div n * x + (v mod n * x) div n`. Parts are differences of that, so they add up to v
exactly. A row without length is a correction of its instant.
"""

from collections.abc import Iterable
from typing import Final

from contracts.billing import DAY_MS, HOUR_MS, SLOT_MS, PeriodState
from pipeline.schema.rollup import (
    LARGEST,
    LIMITS,
    PEAKS_5M,
    SPREAD,
    SUMMED,
    USAGE_5M,
    USAGE_DAY,
    USAGE_HOUR,
)

SETTLE_MS: Final = 600_000
"""Reports of an hour may be this much later than the newest one before the hour counts as complete."""
RAW_READ: Final = ("instance_id", "recovered", "interval_start_ms", "interval_ms", *SPREAD, *LIMITS)
"""Columns of `usage_raw` that slots are made of."""

_MINUTE_MS: Final = 60_000
_MINUTES: Final = SLOT_MS // _MINUTE_MS
_BIG: Final = "stored_byte_ms"
"""Adds up to more than a long holds."""


def to_slots(raw: str) -> str:
    """`usage_raw` -> `usage_5m`. Sums are over all points and rows; each id must be there once.

    Peaks: bytes of each minute are summed over points first. A record that is a whole slot counts a fifth of
    itself in each of the slot's minutes. Most records are one part, as they are.
    """
    is_whole = (
        f"start_ms // {_MINUTE_MS} = greatest(start_ms, end_ms - 1) // {_MINUTE_MS} "
        f"or (interval_ms = {SLOT_MS} and start_ms % {SLOT_MS} = 0)"
    )
    minutes = f"range(start_ms // {_MINUTE_MS}, (end_ms - 1) // {_MINUTE_MS} + 1)"
    minute = f"case when part_ms = {SLOT_MS} then -1 else part_start_ms // {_MINUTE_MS} % {_MINUTES} end"
    return f"""
        with framed as (
            select *, interval_start_ms as start_ms, interval_start_ms + interval_ms as end_ms,
                greatest(interval_ms, 1) as divisor
            from {raw}
        ), cut as (
            select *, unnest(case when whole then [start_ms // {_MINUTE_MS}] else {minutes} end)
                * {_MINUTE_MS} as minute_ms
            from (select *, {is_whole} as whole from framed)
        ), placed as (
            select *, greatest(minute_ms, start_ms) as part_start_ms,
                case when whole then end_ms else least(minute_ms + {_MINUTE_MS}, end_ms) end as part_end_ms
            from cut
        ), parts as (
            select instance_id, recovered, {_list(LIMITS)}, part_start_ms,
                part_end_ms - part_start_ms as part_ms, part_start_ms = start_ms as begins,
                {_list(f"{_part_of(name)} as {name}" for name in SPREAD)}
            from placed
        ), sums as (
            select instance_id, part_start_ms // {SLOT_MS} * {SLOT_MS} as slot_ms, {_list(_slot_sums())}
            from (select *, {minute} as minute from parts)
            group by all
        )
        select {_list(_slot_column(name) for name in USAGE_5M.names)} from sums"""


def to_hours(slots: str, heard_until_ms: int) -> str:
    """`usage_5m` -> `usage_hour`; `heard_until_ms`: the newest end of an interval that was reported."""
    peaks = (f"max({_direction(name)}_bytes // {SLOT_MS // 1000}) as {name}" for name in PEAKS_5M)
    complete = f"hour_ms + {HOUR_MS + SETTLE_MS} <= {heard_until_ms} and covered_ms = expected_ms"
    columns = {"hour_start": "epoch_ms(hour_ms) as hour_start", "state": _state(complete)}
    return f"""
        select {_list(columns.get(name, name) for name in USAGE_HOUR.names)} from (
            select instance_id, day, epoch_ms(slot_start) // {HOUR_MS} * {HOUR_MS} as hour_ms,
                {_list(_sums_and_largest())}, {_list(peaks)}
            from {slots} group by all
        )"""


def to_days(hours: str, heard_until_ms: int) -> str:
    """`usage_hour` -> `usage_day`."""
    peaks = (f"max({name}) as {name}" for name in PEAKS_5M)
    end_ms = f"epoch_ms(day::timestamp) + {DAY_MS + SETTLE_MS}"
    columns = {
        "month": "strftime(day, '%Y-%m') as month",
        "state": _state(f"{end_ms} <= {heard_until_ms} and hours = hours_complete"),
    }
    return f"""
        select {_list(columns.get(name, name) for name in USAGE_DAY.names)} from (
            select instance_id, day, {_list(_sums_and_largest())}, {_list(peaks)}, count(*) as hours,
                count(*) filter (state = '{PeriodState.COMPLETE}') as hours_complete
            from {hours} group by all
        )"""


def _list(columns: Iterable[str]) -> str:
    return ", ".join(columns)


def _direction(column: str) -> str:
    return column.split("_", 1)[0]


def _state(complete: str) -> str:
    return f"case when {complete} then '{PeriodState.COMPLETE}' else '{PeriodState.OPEN}' end as state"


def _sum(name: str) -> str:
    return f"sum({name})::{'decimal(38, 0)' if name == _BIG else 'bigint'} as {name}"


def _sums_and_largest() -> Iterable[str]:
    yield from (_sum(name) for name in SUMMED)
    yield from (f"max({name}) as {name}" for name in LARGEST)
    yield "bool_or(estimated) as estimated"


def _part_of(name: str) -> str:
    until, before = (_come_to(name, f"{end} - start_ms") for end in ("part_end_ms", "part_start_ms"))
    return f"case when whole then {name} else {until} - {before} end"


def _come_to(name: str, elapsed: str) -> str:
    return f"({name} // divisor * ({elapsed}) + {name} % divisor * ({elapsed}) // divisor)"


def _slot_sums() -> Iterable[str]:
    yield from (_sum(name) for name in SPREAD)
    for direction in ("produce", "consume"):
        for each in range(_MINUTES):
            in_minute = f"case when minute = {each} then {direction}_bytes else 0 end"
            yield f"sum({in_minute})::bigint as {direction}_minute_{each}"
        recovered = f"case when recovered then {direction}_bytes else 0 end"
        yield f"sum({recovered})::bigint as {direction}_recovered_bytes"
    yield from (f"max({name}) as {name}" for name in LIMITS)
    yield "count(*) filter (begins and not recovered) as records"
    yield "sum(part_ms)::bigint as expected_ms"
    yield "sum(case when recovered then 0 else part_ms end)::bigint as covered_ms"


def _slot_column(name: str) -> str:
    if name.endswith("_peak_1m_bytes_per_s"):
        bytes_of = _direction(name)
        minutes = [f"{bytes_of}_minute_{each}" for each in range(_MINUTES)]
        whole = f"({bytes_of}_bytes - {' - '.join(minutes)}) // {_MINUTES}"
        return f"(greatest({_list(minutes)}) + {whole}) // {_MINUTE_MS // 1000} as {name}"
    missing = "expected_ms > covered_ms or produce_recovered_bytes <> 0 or consume_recovered_bytes <> 0"
    made = {
        "slot_start": "epoch_ms(slot_ms) as slot_start",
        "day": "epoch_ms(slot_ms)::date as day",
        "estimated": f"{missing} as estimated",
    }
    return made.get(name, name)

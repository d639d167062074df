"""What each instance used in a month, from rows of `usage_5m`: queries in DuckDB's SQL, pure.

The 95th percentile is the value of nearest rank (`calendar.p95_rank`) among all slots of the calendar month;
slots without a row are zeros. So it is the smallest of the few highest values, where there are so many.
"""

from typing import Final

from contracts.billing import HOUR_MS, SLOT_MS
from pipeline.metering.amounts.calendar import p95_rank

_SUMMED: Final = ("produce_bytes", "consume_bytes", "stored_byte_ms", "expected_ms", "covered_ms")
_REQUESTS: Final = ("produce_requests", "consume_requests")
_LIMITS: Final = ("produce_limit_bytes_per_s", "consume_limit_bytes_per_s")
SUMS_READ: Final = ("instance_id", *_SUMMED, *_REQUESTS, *_LIMITS)
"""Columns that `month_sums` needs."""
GAPS_READ: Final = ("instance_id", "slot_start", "expected_ms", "covered_ms")
"""Columns that `month_gaps` needs."""


def month_sums(slots: str, slots_in_month: int) -> str:
    """A row for each instance: fields of MonthUsage, without gaps. Sums are as large as they get."""
    highest = slots_in_month - p95_rank(slots_in_month) + 1
    used = {
        "produce": "produce_bytes",
        "consume": "consume_bytes",
        "total": "produce_bytes::hugeint + consume_bytes",
    }
    columns = [
        *(f"sum({name})::hugeint as {name}" for name in _SUMMED),
        f"{_sums(_REQUESTS)} as requests",
        f"{_sums(_LIMITS)} * {SLOT_MS // 1000} as provisioned_bytes",
        *(
            f"case when count(*) < {highest} then 0 "
            f"else greatest(list_min(max({of}, {highest})), 0) end as {name}_p95"
            for name, of in used.items()
        ),
    ]
    return f"select instance_id, {', '.join(columns)} from {slots} group by instance_id"


def month_gaps(slots: str) -> str:
    """Instance, start of the hour (epoch ms) and how long nothing was reported in it (ms), in order."""
    hour_ms = f"epoch_ms(slot_start) // {HOUR_MS} * {HOUR_MS}"
    return f"""
        select instance_id, {hour_ms} as hour_ms, sum(expected_ms - covered_ms)::bigint as missing_ms
        from {slots} where expected_ms > covered_ms group by all order by all"""


def _sums(names: tuple[str, ...]) -> str:
    return f"({' + '.join(f'sum({name})' for name in names)})"

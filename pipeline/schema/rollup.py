"""Columns of `usage_5m`, `usage_hour` and `usage_day`."""

from typing import Final

import pyarrow as pa

from contracts.billing import UsageDay, UsageHour, UsageSlot
from pipeline.schema.columns import columns_of

BIG: Final = pa.decimal128(38, 0)
"""Byte-milliseconds: a month of a few terabytes is more than a long holds."""

SPREAD: Final = (
    "produce_bytes",
    "consume_bytes",
    "produce_requests",
    "consume_requests",
    "refused",
    "produce_throttled_ms",
    "consume_throttled_ms",
    "blocked_ms",
    "stored_byte_ms",
)
"""Columns that a record tells of its whole interval, which may lie in several slots."""

SUMMED: Final = (
    *SPREAD,
    "produce_recovered_bytes",
    "consume_recovered_bytes",
    "records",
    "expected_ms",
    "covered_ms",
)
"""Columns whose day is the sum of its hours, and whose hour is the sum of its slots."""

LIMITS: Final = ("produce_limit_bytes_per_s", "consume_limit_bytes_per_s", "capacity_bytes")

LARGEST: Final = ("produce_peak_1m_bytes_per_s", "consume_peak_1m_bytes_per_s", *LIMITS)
"""Columns whose day is the largest of its hours."""

PEAKS_5M: Final = ("produce_peak_5m_bytes_per_s", "consume_peak_5m_bytes_per_s")
"""Columns whose day is the largest of its hours, and that slots do not have."""

_QUANTITIES: Final = (*SUMMED, *LARGEST, "estimated")
_KEY: Final = ("instance_id", "day")

USAGE_5M: Final = columns_of(UsageSlot, (*_KEY, "slot_start", *_QUANTITIES), stored_byte_ms=BIG)
"""Partitioned by `day`, as hours are."""

USAGE_HOUR: Final = columns_of(
    UsageHour, (*_KEY, "hour_start", *_QUANTITIES, *PEAKS_5M, "state"), stored_byte_ms=BIG
)

USAGE_DAY: Final = columns_of(
    UsageDay,
    (*_KEY, "month", *_QUANTITIES, *PEAKS_5M, "hours", "hours_complete", "state"),
    stored_byte_ms=BIG,
)
"""Partitioned by `month`."""

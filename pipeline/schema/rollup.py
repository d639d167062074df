"""Columns of `usage_5m`, `usage_hour` and `usage_day` (`contracts.billing`)."""

from typing import Final

from pyspark.sql.types import (
    BooleanType,
    DateType,
    DecimalType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

BIG: Final = DecimalType(38, 0)
"""Of byte-milliseconds: a month of a few terabytes is more than a long holds."""

SUMMED: Final = (
    "produce_bytes",
    "consume_bytes",
    "produce_requests",
    "consume_requests",
    "refused",
    "produce_throttled_ms",
    "consume_throttled_ms",
    "blocked_ms",
    "stored_byte_ms",
    "produce_recovered_bytes",
    "consume_recovered_bytes",
    "records",
    "expected_ms",
    "covered_ms",
)
"""Columns whose day is the sum of its hours, and whose hour is the sum of its slots."""

LARGEST: Final = (
    "produce_peak_1m_bytes_per_s",
    "consume_peak_1m_bytes_per_s",
    "produce_limit_bytes_per_s",
    "consume_limit_bytes_per_s",
    "capacity_bytes",
)
"""Columns whose day is the largest of its hours."""

PEAKS_5M: Final = ("produce_peak_5m_bytes_per_s", "consume_peak_5m_bytes_per_s")
"""The same, from hours on."""

_QUANTITIES: Final = [
    *(StructField(name, BIG if name == "stored_byte_ms" else LongType()) for name in (*SUMMED, *LARGEST)),
    StructField("estimated", BooleanType()),
]
_KEY: Final = [StructField("instance_id", StringType()), StructField("day", DateType())]
_PEAKS: Final = [StructField(name, LongType()) for name in PEAKS_5M]

USAGE_5M: Final = StructType([*_KEY, StructField("slot_start", TimestampType()), *_QUANTITIES])
"""`contracts.billing.UsageSlot`; partitioned by `day`, as hours are."""

USAGE_HOUR: Final = StructType(
    [
        *_KEY,
        StructField("hour_start", TimestampType()),
        *_QUANTITIES,
        *_PEAKS,
        StructField("state", StringType()),
    ]
)
"""`contracts.billing.UsageHour`."""

USAGE_DAY: Final = StructType(
    [
        *_KEY,
        StructField("month", StringType()),
        *_QUANTITIES,
        *_PEAKS,
        StructField("hours", LongType()),
        StructField("hours_complete", LongType()),
        StructField("state", StringType()),
    ]
)
"""`contracts.billing.UsageDay`; partitioned by `month`."""

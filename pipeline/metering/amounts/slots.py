"""From interval records to five-minute slots, hours and days: pure transforms.

A record is spread evenly over its interval, in integers: up to a time x of an interval of length n, a
quantity v has come to `v div n * x + (v mod n * x) div n`. Parts are differences of that, so they add up to v
exactly. A row without length is a correction of its instant.
"""

from collections.abc import Iterable
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from contracts.billing import DAY_MS, HOUR_MS, SLOT_MS, PeriodState
from pipeline.schema.rollup import (
    BIG,
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

_MINUTE_MS: Final = 60_000
_MINUTES: Final = SLOT_MS // _MINUTE_MS


def to_slots(raw: DataFrame) -> DataFrame:
    """`usage_raw` -> `usage_5m`. Sums are over all points and rows; each id must be there once.

    Peaks: bytes of each minute are summed over points first. A record that is a whole slot counts a fifth of
    itself in each of the slot's minutes.
    """
    slot_ms = F.col("part_start_ms") - F.col("part_start_ms") % F.lit(SLOT_MS)
    parts = _parts(raw).withColumn("slot_ms", slot_ms)
    sums = parts.groupBy("instance_id", "slot_ms").agg(*_slot_sums())
    return sums.select(*(_slot_columns()[name] for name in USAGE_5M.fieldNames()))


def to_hours(slots: DataFrame, heard_until_ms: int) -> DataFrame:
    """`usage_5m` -> `usage_hour`; `heard_until_ms`: the newest end of an interval that was reported."""
    start = F.date_trunc("hour", F.col("slot_start"))
    peaks = [
        F.max(F.expr(f"{_direction(name)}_bytes div {SLOT_MS // 1000}")).alias(name) for name in PEAKS_5M
    ]
    sums = slots.groupBy("instance_id", "day", start.alias("hour_start")).agg(*_sums_and_largest(), *peaks)
    over = F.unix_millis("hour_start") + F.lit(HOUR_MS + SETTLE_MS) <= F.lit(heard_until_ms)
    complete = over & (F.col("covered_ms") == F.col("expected_ms"))
    return sums.withColumn("state", _state(complete)).select(*USAGE_HOUR.fieldNames())


def to_days(hours: DataFrame, heard_until_ms: int) -> DataFrame:
    """`usage_hour` -> `usage_day`."""
    peaks = [F.max(name).alias(name) for name in PEAKS_5M]
    complete_hours = F.count_if(F.col("state") == PeriodState.COMPLETE)
    sums = hours.groupBy("instance_id", "day").agg(
        *_sums_and_largest(),
        *peaks,
        F.count("*").alias("hours"),
        complete_hours.alias("hours_complete"),
    )
    end_ms = F.unix_millis(F.col("day").cast("timestamp")) + F.lit(DAY_MS + SETTLE_MS)
    complete = (end_ms <= F.lit(heard_until_ms)) & (F.col("hours") == F.col("hours_complete"))
    days = sums.withColumn("state", _state(complete)).withColumn("month", F.date_format("day", "yyyy-MM"))
    return days.select(*USAGE_DAY.fieldNames())


def _direction(column: str) -> str:
    return column.split("_", 1)[0]


def _state(complete: Column) -> Column:
    return F.when(complete, F.lit(str(PeriodState.COMPLETE))).otherwise(F.lit(str(PeriodState.OPEN)))


def _sums_and_largest() -> Iterable[Column]:
    for name in SUMMED:
        total = F.sum(name)
        yield (total.cast(BIG) if name == "stored_byte_ms" else total).alias(name)
    yield from (F.max(name).alias(name) for name in LARGEST)
    yield F.bool_or("estimated").alias("estimated")


def _parts(raw: DataFrame) -> DataFrame:
    """Rows whose part lies in one minute or is exactly one slot: most records are one part, as they are."""
    framed = raw.select(
        "instance_id",
        "recovered",
        *SPREAD,
        *LIMITS,
        F.col("interval_start_ms").alias("start_ms"),
        F.col("interval_ms").alias("length_ms"),
        F.expr("greatest(interval_ms, 1)").alias("divisor"),
        F.expr("interval_start_ms + interval_ms").alias("end_ms"),
    )
    in_one = (
        f"start_ms div {_MINUTE_MS} = greatest(start_ms, end_ms - 1) div {_MINUTE_MS}"
        f" or (length_ms = {SLOT_MS} and start_ms % {SLOT_MS} = 0)"
    )
    minutes = f"sequence(start_ms div {_MINUTE_MS}, (end_ms - 1) div {_MINUTE_MS})"
    minutes = f"transform({minutes}, minute -> minute * {_MINUTE_MS})"
    starts = F.expr(f"case when {in_one} then array(start_ms) else {minutes} end")
    cut = framed.withColumn("from_ms", F.explode(starts)).withColumn("whole", F.expr(in_one))
    return cut.select(
        "instance_id",
        "recovered",
        "whole",
        *LIMITS,
        F.expr("greatest(from_ms, start_ms)").alias("part_start_ms"),
        F.expr(
            f"if(whole, length_ms, least(from_ms + {_MINUTE_MS}, end_ms) - greatest(from_ms, start_ms))"
        ).alias("part_ms"),
        (F.expr("from_ms <= start_ms")).alias("begins"),
        *(_part_of(name).alias(name) for name in SPREAD),
    )


def _part_of(name: str) -> Column:
    until = _come_to(name, f"least(from_ms + {_MINUTE_MS}, end_ms) - start_ms")
    before = _come_to(name, "greatest(from_ms, start_ms) - start_ms")
    return F.expr(f"if(whole, {name}, {until} - {before})")


def _come_to(name: str, elapsed: str) -> str:
    return f"({name} div divisor * ({elapsed}) + ({name} % divisor * ({elapsed})) div divisor)"


def _slot_sums() -> Iterable[Column]:
    for name in SPREAD:
        # Decimals only where a long may not do: they are slower to add.
        yield F.sum(F.col(name).cast("decimal(20,0)") if name == "stored_byte_ms" else F.col(name)).alias(
            name
        )
    minute = f"case when part_ms = {SLOT_MS} then -1 else part_start_ms div {_MINUTE_MS} % {_MINUTES} end"
    for direction in ("produce", "consume"):
        for each in range(_MINUTES):
            in_minute = F.expr(f"if({minute} = {each}, {direction}_bytes, 0L)")
            yield F.sum(in_minute).alias(f"{direction}_minute_{each}")
        yield F.sum(F.expr(f"if(recovered, {direction}_bytes, 0L)")).alias(f"{direction}_recovered_bytes")
    yield from (F.max(name).alias(name) for name in LIMITS)
    yield F.sum(F.expr("if(begins and not recovered, 1L, 0L)")).alias("records")
    yield F.sum("part_ms").alias("expected_ms")
    yield F.sum(F.expr("if(recovered, 0L, part_ms)")).alias("covered_ms")


def _slot_columns() -> dict[str, Column]:
    columns = {name: F.col(name) for name in USAGE_5M.fieldNames()}
    columns["slot_start"] = F.timestamp_millis("slot_ms").alias("slot_start")
    columns["day"] = F.to_date(F.timestamp_millis("slot_ms")).alias("day")
    columns["stored_byte_ms"] = F.col("stored_byte_ms").cast(BIG).alias("stored_byte_ms")
    for direction in ("produce", "consume"):
        minutes = [f"{direction}_minute_{each}" for each in range(_MINUTES)]
        whole = f"({direction}_bytes - {' - '.join(minutes)}) div {_MINUTES}"
        peak = f"(greatest({', '.join(minutes)}) + {whole}) div {_MINUTE_MS // 1000}"
        columns[f"{direction}_peak_1m_bytes_per_s"] = F.expr(peak).alias(f"{direction}_peak_1m_bytes_per_s")
    estimated = "expected_ms > covered_ms or produce_recovered_bytes <> 0 or consume_recovered_bytes <> 0"
    columns["estimated"] = F.expr(estimated).alias("estimated")
    return columns

"""Made-up usage of any size for the benchmark: the same numbers each time."""

from datetime import date

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DataType, StringType

from contracts.billing import DAY_MS, SLOT_MS
from pipeline.schema.rollup import USAGE_5M
from pipeline.schema.usage_records import USAGE_RAW


def day_of_records(
    spark: SparkSession, day: date, *, instances: int, points: int, interval_ms: int = 60_000
) -> DataFrame:
    """`usage_raw` of one day: a row per point, instance and interval, in the order in which they come in."""
    pairs = instances * points
    rows = spark.range(DAY_MS // interval_ms * pairs)
    start_ms = F.unix_millis(F.lit(day).cast("timestamp")) + F.expr(f"id div {pairs} * {interval_ms}")
    instance = F.format_string("i%011d", F.expr(f"id % {instances} + 1"))
    boot = F.format_string("boot-%d", F.expr(f"id % {pairs} div {instances}"))
    size = F.pmod(F.xxhash64("id"), F.lit(10**9))
    known = {
        "id": F.concat_ws("/", boot, instance, start_ms.cast("string")),
        "point": boot,
        "boot_id": boot,
        "instance_id": instance,
        "interval_start_ms": start_ms,
        "interval_ms": F.lit(interval_ms),
        "produce_bytes": size,
        "consume_bytes": size * F.lit(2),
        "stored_byte_ms": size * F.lit(interval_ms),
        "interval_start": F.timestamp_millis(start_ms),
        "recovered": F.lit(False),
        "day": F.lit(day),
    }
    return rows.select(
        *(
            known.get(each.name, _nothing(each.dataType)).cast(each.dataType).alias(each.name)
            for each in USAGE_RAW
        )
    )


def month_of_slots(spark: SparkSession, first: date, *, instances: int, slots: int) -> DataFrame:
    """`usage_5m` of a month in which every slot has a row."""
    rows = spark.range(instances * slots)
    start = F.unix_millis(F.lit(first).cast("timestamp")) + F.expr(f"id % {slots} * {SLOT_MS}")
    size = F.pmod(F.xxhash64("id"), F.lit(10**12))
    known = {
        "instance_id": F.format_string("i%011d", F.expr(f"id div {slots} + 1")),
        "slot_start": F.timestamp_millis(start),
        "day": F.timestamp_millis(start).cast("date"),
        "produce_bytes": size,
        "consume_bytes": size * F.lit(2),
    }
    return rows.select(
        *(
            known.get(each.name, _nothing(each.dataType)).cast(each.dataType).alias(each.name)
            for each in USAGE_5M
        )
    )


def _nothing(of: DataType) -> Column:
    return F.lit("") if isinstance(of, StringType) else F.lit(0)

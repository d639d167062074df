"""What each instance used in a month, from `usage_5m`: pure transforms.

The 95th percentile is the value of nearest rank (`calendar.p95_rank`) among all slots of the calendar month.
Slots without a row are zeros: they sort first, so they need not be made, only counted.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from contracts.billing import SLOT_MS
from pipeline.metering.amounts.calendar import p95_rank
from pipeline.schema.rollup import BIG


def month_sums(slots: DataFrame) -> DataFrame:
    """One row per instance with rows in `slots`, which is `usage_5m` of one month."""
    limits = F.col("produce_limit_bytes_per_s") + F.col("consume_limit_bytes_per_s")
    return slots.groupBy("instance_id").agg(
        F.sum("produce_bytes").alias("produce_bytes"),
        F.sum("consume_bytes").alias("consume_bytes"),
        F.sum(F.col("produce_requests") + F.col("consume_requests")).alias("requests"),
        F.sum("stored_byte_ms").cast(BIG).alias("stored_byte_ms"),
        F.sum(limits.cast("decimal(20,0)") * F.lit(SLOT_MS // 1000)).cast(BIG).alias("provisioned_bytes"),
        F.sum("expected_ms").alias("expected_ms"),
        F.sum("covered_ms").alias("covered_ms"),
    )


def month_p95(slots: DataFrame, slots_in_month: int, *, with_total: bool = False) -> DataFrame:
    """One row per instance: produce_p95, consume_p95, and total_p95 if asked for, bytes in five minutes.

    Apart from the sums, as lists are collected in another, slower kind of aggregation.
    """
    values = {"produce": F.col("produce_bytes"), "consume": F.col("consume_bytes")}
    if with_total:
        values["total"] = F.col("produce_bytes") + F.col("consume_bytes")
    found = [p95(value, slots_in_month).alias(f"{name}_p95") for name, value in values.items()]
    return slots.groupBy("instance_id").agg(*found)


def p95(value: Column, slots_in_month: int) -> Column:
    """Aggregate: the 95th percentile of the values that are there and zeros for the slots that are not."""
    zeros = F.lit(slots_in_month) - F.count(value)
    rank = (F.lit(p95_rank(slots_in_month)) - zeros).cast("int")
    # Rank 0 and below lies among the zeros; element_at refuses 0, so both branches ask for at least 1.
    found = F.element_at(F.sort_array(F.collect_list(value)), F.greatest(rank, F.lit(1)))
    return F.when(rank >= 1, found).otherwise(F.lit(0)).cast("long")


def gap_hours(slots: DataFrame) -> DataFrame:
    """Hours of which reports are missing: instance_id, hour_start, missing_ms."""
    hours = slots.groupBy("instance_id", F.date_trunc("hour", F.col("slot_start")).alias("hour_start"))
    missing = hours.agg(F.sum(F.col("expected_ms") - F.col("covered_ms")).alias("missing_ms"))
    return missing.where(F.col("missing_ms") > 0)

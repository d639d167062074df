"""New usage records, each once, and whether what came before and after them fits. Pure.

One shuffle by boot id and instance and one sort serve both questions.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from pipeline.metering.gaps import PAIR

KNOWN_COLUMNS: Final = (
    *("boot_id", "instance_id", "interval_start_ms", "interval_ms", "produce_bytes", "consume_bytes"),
    *("produce_bytes_total", "consume_bytes_total", "stored_bytes", "partitions_led", "recovered"),
    *("kafka_partition", "kafka_offset"),
)
"""What must be read of rows that are in the table."""
IS_NEW: Final = "is_new"


def compared(new: DataFrame, known: DataFrame | None) -> DataFrame:
    """New records with `is_duplicate`, `has_gap` and `is_unsettled`.

    `known` has rows of the table around the same time. Of records with one id the one that is known stays,
    else the longest, else the one with the larger totals, else the first in Kafka.

    `has_gap`: the record before has another end or other totals than this one's beginning. `is_unsettled`:
    rows of the table may change for this record: it stands where others were recovered, or before a known
    one, or no record before it is at hand.
    """
    rows = new.withColumn(IS_NEW, F.lit(True))
    if known is not None:
        seen = known.select(*KNOWN_COLUMNS).withColumn(IS_NEW, F.lit(False))
        rows = rows.unionByName(seen, allowMissingColumns=True)
    order = Window.partitionBy(*PAIR).orderBy(
        F.asc("interval_start_ms"),
        F.asc("recovered"),
        F.asc(IS_NEW),
        F.desc("interval_ms"),
        F.desc("produce_bytes_total"),
        F.desc("consume_bytes_total"),
        F.asc("kafka_partition"),
        F.asc("kafka_offset"),
    )
    compared_rows = rows.select(
        *rows.columns,
        F.lag(F.struct(*_neighbour())).over(order).alias("_before"),
        F.lead(F.struct(*_neighbour())).over(order).alias("_after"),
    )
    flagged = compared_rows.select(
        *rows.columns,
        _is_duplicate().alias("is_duplicate"),
        _has_gap().alias("has_gap"),
        _is_unsettled().alias("is_unsettled"),
    )
    return flagged.where(F.col(IS_NEW)).drop(IS_NEW)


def _neighbour() -> list[Column]:
    return [
        F.col("interval_start_ms").alias("start_ms"),
        (F.col("interval_start_ms") + F.col("interval_ms")).alias("end_ms"),
        F.col("produce_bytes_total").alias("produce_end"),
        F.col("consume_bytes_total").alias("consume_end"),
        *_beginnings(),
        ((F.col("stored_bytes") > 0) | (F.col("partitions_led") > 0)).alias("is_held"),
        F.col("recovered").alias("recovered"),
        F.col(IS_NEW).alias("is_new"),
    ]


def _beginnings() -> list[Column]:
    return [
        (F.col("produce_bytes_total") - F.col("produce_bytes")).alias("produce_begin"),
        (F.col("consume_bytes_total") - F.col("consume_bytes")).alias("consume_begin"),
    ]


def _is_duplicate() -> Column:
    before = F.col("_before")
    is_same = (before["start_ms"] == F.col("interval_start_ms")) & ~before["recovered"]
    return F.coalesce(is_same, F.lit(False))


def _has_gap() -> Column:
    before = F.col("_before")
    produce, consume = _beginnings()
    is_gap = (
        (produce != before["produce_end"])
        | (consume != before["consume_end"])
        | (before["is_held"] & (F.col("interval_start_ms") > before["end_ms"]))
    )
    return ~_is_duplicate() & F.coalesce(is_gap, F.lit(False))


def _is_unsettled() -> Column:
    before, after = F.col("_before"), F.col("_after")
    produce, consume = _beginnings()
    is_without = before.isNull() & ((produce > 0) | (consume > 0))
    is_over_recovered = before["recovered"] & (before["end_ms"] > F.col("interval_start_ms"))
    is_under_recovered = after["recovered"] & (
        after["start_ms"] < F.col("interval_start_ms") + F.col("interval_ms")
    )
    is_before_known = ~after["is_new"] & (
        (after["produce_begin"] != F.col("produce_bytes_total"))
        | (after["consume_begin"] != F.col("consume_bytes_total"))
    )
    doubts = (is_over_recovered, is_under_recovered, is_before_known)
    unsettled = is_without
    for doubt in doubts:
        unsettled = unsettled | F.coalesce(doubt, F.lit(False))
    return ~_is_duplicate() & unsettled

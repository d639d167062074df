"""Forecasts and skew of many instances at once: DataFrames in, DataFrames out."""

import datetime
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from contracts.billing import HOUR_MS, PeriodState
from pipeline.advice.judging.hours import HISTORY_H, forecast_rows
from pipeline.advice.judging.windows import HISTORY_MS, WINDOW_MS, skew_rows
from pipeline.schema.advice import FORECAST, SKEW

_GROUPS_MIN: Final = 16
_INSTANCES_PER_GROUP: Final = 250
Rows = Callable[[pd.DataFrame], list[dict[str, Any]]]


def _undated(schema: pa.Schema) -> StructType:
    return StructType([each for each in from_arrow_schema(schema) if each.name != "run_date"])


FORECASTS: Final = _undated(FORECAST)
SKEWS: Final = _undated(SKEW).add("stored_bytes", "long").add("blocked_ms", "long")


def hours(usage_hour: DataFrame, now_ms: int) -> DataFrame:
    """The last 28 days, as `hours.forecast_rows` reads them, and whether the hour is complete."""
    first_ms = (now_ms // HOUR_MS - HISTORY_H) * HOUR_MS
    return (
        usage_hour.where(f.col("day") >= f.lit(_day(first_ms)))
        .select(
            "instance_id",
            f.unix_millis("hour_start").alias("hour_ms"),
            "produce_peak_5m_bytes_per_s",
            "consume_peak_5m_bytes_per_s",
            "produce_peak_1m_bytes_per_s",
            "consume_peak_1m_bytes_per_s",
            (f.col("stored_byte_ms") / f.lit(HOUR_MS)).cast("double").alias("stored_bytes"),
            (f.col("state") == f.lit(str(PeriodState.COMPLETE))).alias("is_complete"),
        )
        .where((f.col("hour_ms") >= first_ms) & (f.col("hour_ms") < now_ms))
    )


def hours_somebody_reported(found: DataFrame) -> DataFrame:
    """Hours from `hours`: start, and whether it is complete for anybody."""
    return found.groupBy("hour_ms").agg(f.bool_or("is_complete").alias("is_complete"))


def forecasts(found: DataFrame, reported: Sequence[int], capacities: Mapping[str, int]) -> DataFrame:
    """Forecasts from `hours`: three rows per instance."""

    def rows(usage: pd.DataFrame) -> list[dict[str, Any]]:
        return forecast_rows(usage, reported, capacities)

    return _per_instance(found, rows, FORECASTS, len(capacities))


def windows(usage_raw: DataFrame, now_ms: int) -> DataFrame:
    """The last 24 h in windows of 5 minutes, as `windows.skew_rows` reads them: a row per point."""
    first_ms = (now_ms - HISTORY_MS) // WINDOW_MS * WINDOW_MS
    start = f.col("interval_start_ms")
    sums = (
        *("produce_bytes", "consume_bytes", "produce_throttled_ms", "consume_throttled_ms"),
        "blocked_ms",
    )
    return (
        usage_raw.where(f.col("day") >= f.lit(_day(first_ms)))
        .where((start >= first_ms) & (start < now_ms))
        .groupBy("instance_id", "node_id", "point", (start - start % WINDOW_MS).alias("at_ms"))
        .agg(
            *(f.sum(name).alias(name) for name in sums),
            (f.max(start + f.col("interval_ms")) - f.min(start)).alias("covered_ms"),
            f.max_by("partitions_led", start).alias("partitions_led"),
            f.max_by("stored_bytes", start).alias("stored_bytes"),
        )
    )


def skews(found: DataFrame, instances: int) -> DataFrame:
    """Skew from `windows`: two rows per instance, of which there are about so many."""
    return _per_instance(found, skew_rows, SKEWS, instances)


def _per_instance(found: DataFrame, rows: Rows, schema: StructType, instances: int) -> DataFrame:
    """Many instances to a group: Spark hands over each group apart, which costs more than a forecast."""

    def of_many(usage: pd.DataFrame) -> pd.DataFrame:
        told = [row for _, of_one in usage.groupby("instance_id") for row in rows(of_one)]
        return pd.DataFrame(told, columns=schema.names, dtype=object)

    groups = max(_GROUPS_MIN, -(-instances // _INSTANCES_PER_GROUP))
    group = f.pmod(f.hash("instance_id"), f.lit(groups))
    return found.groupBy(group.alias("group")).applyInPandas(of_many, schema)


def _day(epoch_ms: int) -> datetime.date:
    return datetime.datetime.fromtimestamp(epoch_ms / 1000, datetime.UTC).date()

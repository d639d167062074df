"""Advice: what a whole run over many instances takes, the first of a session and later ones."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from contracts.billing import DAY_MS, HOUR_MS, USAGE_HOUR, PeriodState
from contracts.usage_records import USAGE_RAW
from ctl.bench.measure import Say, Spread, seconds_of
from pipeline.advice.frames import forecasts, hours, hours_somebody_reported
from pipeline.advice.job import advise
from pipeline.advice.judging.hours import HISTORY_H
from pipeline.advice.judging.judgement import Bought
from pipeline.layout import PipelineLayout
from pipeline.progress import Silent
from pipeline.schema import rollup, usage_records

_BROKERS: Final = 3
_MINUTES: Final = 24 * 60
_MINUTE_MS: Final = 60_000
_NOW_MS: Final = 20_000 * DAY_MS
"""Any midnight."""


def measure(spark: SparkSession, rounds: int, instances: int, say: Say) -> dict[str, object]:
    """Forecasts alone (four weeks of hours each), and runs with skew over a day of three brokers' minutes."""
    with tempfile.TemporaryDirectory(prefix="portico-bench-") as name:
        layout = PipelineLayout(Path(name))
        say(f"advice: usage of {instances} instances")
        bought = [Bought(f"i{number:011d}", 20_000_000, 40_000_000, 10**11) for number in range(instances)]
        _fill(spark, layout, instances)
        say("advice: forecasts, cold")
        cold_s = seconds_of(lambda: _forecasts(spark, layout))
        whole_s = []
        for turn in range(rounds + 1):
            say(f"advice: run {turn} of {rounds}")
            whole_s.append(seconds_of(lambda: _advise(spark, layout, bought)))
    label = f"{instances:,} instances"
    return {
        f"forecasts of {label} x {HISTORY_H} h, first of the session, s": cold_s,
        f"advise on {label}, first run, s": whole_s[0],
        f"advise on {label}, s": Spread.of(whole_s[1:]),
    }


def _forecasts(spark: SparkSession, layout: PipelineLayout) -> None:
    found = hours(spark.read.format("delta").load(str(layout.table(USAGE_HOUR))), _NOW_MS)
    reported = sorted(row.hour_ms for row in hours_somebody_reported(found).collect())
    forecasts(found, reported, {}).toArrow()


def _advise(spark: SparkSession, layout: PipelineLayout, bought: list[Bought]) -> None:
    advised = advise(spark, layout, Silent(), bought, now_ms=_NOW_MS, places=lambda _: {})
    short = [row for row in advised.advice if not row.is_enough_history]
    if len(advised.advice) != len(bought) or short:
        raise RuntimeError(f"{len(advised.advice)} instances were advised, {len(short)} without a forecast")


def _fill(spark: SparkSession, layout: PipelineLayout, instances: int) -> None:
    """A daily season with noise, every third instance growing; each broker busier than the one before."""
    number, step = f.col("id") % instances, (f.col("id") / instances).cast("long")
    key = f.concat(f.lit("i"), f.lpad(number.cast("string"), 11, "0"))
    hour_ms = f.lit(_NOW_MS - HISTORY_H * HOUR_MS) + step * HOUR_MS
    season = 1.2 + f.sin(step / 24 * 6.2832) + f.rand(1) / 10
    rate = (
        1_000_000 * (1 + number % 50) * season * f.when(number % 3 == 0, 1 + step / 1000).otherwise(1.0)
    ).cast("long")
    columns = dict.fromkeys((*rollup.PEAKS_5M, *rollup.LARGEST[:2]), rate)
    columns |= {
        "instance_id": key,
        "hour_start": f.timestamp_millis(hour_ms),
        "day": f.timestamp_millis(hour_ms).cast("date"),
        "stored_byte_ms": (f.lit(10**9) + number * step * 1_000_000) * HOUR_MS,
        "state": f.lit(str(PeriodState.COMPLETE)),
    }
    _write(spark.range(instances * HISTORY_H), columns, rollup.USAGE_HOUR, layout.table(USAGE_HOUR))

    broker = step % _BROKERS + 1
    minute_ms = f.lit(_NOW_MS - _MINUTES * _MINUTE_MS) + (step / _BROKERS).cast("long") * _MINUTE_MS
    columns = {
        "instance_id": key,
        "node_id": broker,
        "point": f.concat(f.lit("broker-"), broker.cast("string")),
        "interval_start_ms": minute_ms,
        "interval_ms": f.lit(_MINUTE_MS),
        "day": f.timestamp_millis(minute_ms).cast("date"),
        "produce_bytes": (f.rand(2) * 100_000_000).cast("long") * broker,
        "consume_bytes": (f.rand(3) * 100_000_000).cast("long"),
        "partitions_led": f.lit(2),
        "stored_bytes": f.lit(10**9),
    }
    rows = spark.range(instances * _BROKERS * _MINUTES)
    _write(rows, columns, usage_records.USAGE_RAW, layout.table(USAGE_RAW))


def _write(rows: DataFrame, columns: Mapping[str, Column], schema: pa.Schema, path: Path) -> None:
    """Columns that are not named are zero where they are numbers, else null."""
    numbers = {"bigint", "int", "decimal(38,0)"}
    filled = [
        columns.get(field.name, f.lit(0) if field.dataType.simpleString() in numbers else f.lit(None))
        .cast(field.dataType)
        .alias(field.name)
        for field in from_arrow_schema(schema)
    ]
    rows.select(*filled).write.format("delta").partitionBy("day").save(str(path))

"""Proof that tables agree, to the byte: records, slots, hours, days and bills, and points' own counters.

Every check computes one side anew from the table below and compares it row by row; nothing is written.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from pipeline.errors import PipelineError
from pipeline.layout import PipelineLayout
from pipeline.metering.amounts import calendar
from pipeline.metering.amounts.slots import to_days, to_hours, to_slots
from pipeline.metering.ledger import Ledger
from pipeline.metering.reconcile_bills import bill_differences
from pipeline.metering.rollup import RolledUp, UsageTables, rolled_up
from pipeline.progress import Progress, Silent
from pipeline.schema.rollup import USAGE_5M

_SHOWN: Final = 5
_BYTES: Final = ("produce_bytes", "consume_bytes")


@dataclass(frozen=True)
class Check:
    """One comparison."""

    name: str
    compared: int
    """Rows on either side."""
    differences: int
    examples: tuple[str, ...]
    """What differs, in words."""


def reconcile(
    spark: SparkSession, layout: PipelineLayout, progress: Progress | None = None, *, month: str | None = None
) -> list[Check]:
    """All checks, of one month or of all time. Raises: PipelineError when usage is not rolled up yet."""
    progress = progress or Silent()
    tables = UsageTables(layout)
    months = f" of {month}" if month else ""
    if not (tables.raw.exists() and tables.slots.exists()):
        raise PipelineError(f"there is no usage{months} yet: run `portico pipeline meter run` first")
    raw = tables.raw.read(spark)
    done = rolled_up(tables.days)
    newest = raw.agg(F.max("ingest_batch")).collect()[0][0]
    if newest is not None and newest > done.raw_batch:
        raise PipelineError(
            f"records up to batch {newest} are there and usage has those up to {done.raw_batch}: run "
            "`portico pipeline meter run` first"
        )
    steps: list[Callable[[], Check]] = [
        lambda: _counters(raw.where(_in_month("day", month))),
        lambda: _slots(spark, tables, raw, month),
        lambda: _hours(spark, tables, done, month),
        lambda: _days(spark, tables, done, month),
        lambda: _bills(spark, layout, tables, month),
    ]
    progress.planned(len(steps), "checks")
    checks = []
    for step in steps:
        checks.append(step())
        progress.done(len(checks))
    progress.figures(differences=sum(check.differences for check in checks))
    return checks


def _counters(raw: DataFrame) -> Check:
    """Per boot id and instance: records and recovered rows are the growth of the point's own counters.

    Between the first and the last record that are there; `boot_id` and `instance_id` name the chain.
    """
    chain = ["boot_id", "instance_id"]
    grown = [F.max(f"{name}_total") - F.min(F.col(f"{name}_total") - F.col(name)) for name in _BYTES]
    ends = raw.where(~F.col("recovered")).groupBy(chain)
    bounds = ends.agg(
        F.min("interval_start_ms").alias("first_ms"),
        F.max(F.col("interval_start_ms") + F.col("interval_ms")).alias("end_ms"),
        *(each.alias(f"{name}_expected") for name, each in zip(_BYTES, grown, strict=True)),
    )
    # A correction of the first record is about what was before it.
    is_before = (
        (F.col("interval_ms") == 0) & F.col("recovered") & (F.col("interval_start_ms") == F.col("first_ms"))
    )
    is_between = (F.col("interval_start_ms") >= F.col("first_ms")) & (
        F.col("interval_start_ms") + F.col("interval_ms") <= F.col("end_ms")
    )
    between = raw.select(*chain, "interval_start_ms", "interval_ms", "recovered", *_BYTES).join(
        F.broadcast(bounds), chain
    )
    sums = between.where(is_between & ~is_before).groupBy(chain)
    expected = bounds.select(*chain, *(F.col(f"{name}_expected").alias(name) for name in _BYTES))
    found = sums.agg(*(F.sum(name).alias(name) for name in _BYTES))
    return _compare("records = counters of the points", expected, found, chain)


def _slots(spark: SparkSession, tables: UsageTables, raw: DataFrame, month: str | None) -> Check:
    """Slots by instance and day: a difference shows in the day's sums, or in one of its hashes."""
    rows = raw
    if month is not None:
        # A record may begin in the last minutes of the month before.
        first = calendar.first_day(month)
        last = calendar.first_day(calendar.next_month(month))
        rows = raw.where(f"day >= date_sub('{first}', 1) and day < '{last}'")
    expected = _digest(to_slots(rows).where(_in_month("day", month)), USAGE_5M.fieldNames())
    found = _digest(tables.slots.read(spark).where(_in_month("day", month)), USAGE_5M.fieldNames())
    return _compare("records = usage_5m", expected, found, ["instance_id", "day"])


def _hours(spark: SparkSession, tables: UsageTables, done: RolledUp, month: str | None) -> Check:
    slots = tables.slots.read(spark).where(_in_month("day", month))
    found = tables.hours.read(spark).where(_in_month("day", month))
    expected = to_hours(slots, done.heard_until_ms)
    return _compare("usage_5m = usage_hour", expected, found, ["instance_id", "hour_start"])


def _days(spark: SparkSession, tables: UsageTables, done: RolledUp, month: str | None) -> Check:
    hours = tables.hours.read(spark).where(_in_month("day", month))
    found = tables.days.read(spark).where(_in_month("day", month))
    expected = to_days(hours, done.heard_until_ms)
    return _compare("usage_hour = usage_day", expected, found, ["instance_id", "day"])


def _bills(spark: SparkSession, layout: PipelineLayout, tables: UsageTables, month: str | None) -> Check:
    compared, found = bill_differences(spark, tables.slots, Ledger(layout), month)
    return Check("usage = bills and adjustments", compared, len(found), tuple(found[:_SHOWN]))


def _in_month(column: str, month: str | None) -> str:
    if month is None:
        return "true"
    first = calendar.first_day(month)
    return f"{column} >= '{first}' and {column} < '{calendar.first_day(calendar.next_month(month))}'"


def _digest(slots: DataFrame, names: Sequence[str]) -> DataFrame:
    """Sums of bytes, and of a hash of each whole row, by instance and day."""
    row_hash = F.xxhash64(*names).cast("decimal(20,0)")
    return slots.groupBy("instance_id", "day").agg(
        *(F.sum(name).alias(name) for name in _BYTES),
        F.sum("stored_byte_ms").alias("stored_byte_ms"),
        F.count("*").alias("slots"),
        F.sum(row_hash).alias("hash"),
    )


def _compare(name: str, expected: DataFrame, found: DataFrame, keys: list[str]) -> Check:
    columns = [each for each in expected.columns if each not in keys]
    left = expected.select(
        *keys, *(F.col(each).alias(f"{each}_expected") for each in columns), F.lit(1).alias("l")
    )
    right = found.select(
        *keys, *(F.col(each).alias(f"{each}_found") for each in columns), F.lit(1).alias("r")
    )
    differ = reduce(
        or_,
        [~F.col(f"{each}_expected").eqNullSafe(F.col(f"{each}_found")) for each in columns],
        F.col("l").isNull() | F.col("r").isNull(),
    )
    both = left.join(right, keys, "full_outer").withColumn("differ", differ)
    [counted] = both.agg(F.count("*").alias("rows"), F.count_if("differ").alias("differ")).collect()
    rows = both.where("differ").orderBy(*keys).limit(_SHOWN).collect() if counted.differ else []
    examples = tuple(_example(row.asDict(), keys, columns) for row in rows)
    return Check(name, counted.rows, counted.differ, examples)


def _example(row: dict[str, object], keys: Iterable[str], columns: Iterable[str]) -> str:
    where = " ".join(str(row[key]) for key in keys)
    if row["l"] is None or row["r"] is None:
        return f"{where}: {'missing' if row['r'] is None else 'nothing of it is in the table below'}"
    said = [
        f"{each} is {row[f'{each}_found']}, should be {row[f'{each}_expected']}"
        for each in columns
        if row[f"{each}_expected"] != row[f"{each}_found"]
    ]
    return f"{where}: {'; '.join(said)}"

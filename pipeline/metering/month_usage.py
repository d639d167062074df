"""What instances used in a month, read from one version of `usage_5m`."""

from collections import defaultdict
from typing import Any, Final

from pyspark.sql import SparkSession

from contracts.billing import HOUR_MS
from contracts.names import SYSTEM_INSTANCE_ID
from pipeline.metering.amounts import calendar
from pipeline.metering.amounts.bills import MonthUsage
from pipeline.metering.amounts.quantities import gap_hours, month_p95, month_sums
from pipeline.metering.versioned_tables import Table

_KEYS_IN_MEMORY: Final = "spark.sql.objectHashAggregate.sortBased.fallbackThreshold"
"""From so many instances on Spark sorts before it collects lists: much slower, and needless for thousands."""


def month_usage(
    spark: SparkSession,
    slots: Table,
    version: int,
    month: str,
    instance_id: str | None = None,
    *,
    with_total: bool = False,
) -> dict[str, MonthUsage]:
    """Usage by instance; those without usage in the month are left out. `with_total`: also `total_p95`.

    The system instance, which carries Portico's own topics, is nobody's to pay.
    """
    first, end = calendar.first_day(month), calendar.first_day(calendar.next_month(month))
    rows = slots.read(spark, version).where(f"day >= '{first}' and day < '{end}'")
    rows = rows.where(rows.instance_id != SYSTEM_INSTANCE_ID)
    if instance_id is not None:
        rows = rows.where(rows.instance_id == instance_id)
    spark.conf.set(_KEYS_IN_MEMORY, "100000")
    sums = {row.instance_id: row.asDict() for row in month_sums(rows).collect()}
    percentiles = month_p95(rows, calendar.slots_in(month), with_total=with_total)
    p95 = {row.instance_id: row.asDict() for row in percentiles.collect()}
    gaps: dict[str, list[tuple[int, int]]] = defaultdict(list)
    if any(row["expected_ms"] > row["covered_ms"] for row in sums.values()):
        for row in gap_hours(rows).collect():
            hour = int(row.hour_start.timestamp()) // (HOUR_MS // 1000) * HOUR_MS
            gaps[row.instance_id].append((hour, int(row.missing_ms)))
    return {
        instance: MonthUsage(instance, gaps=tuple(sorted(gaps[instance])), **_numbers(row | p95[instance]))
        for instance, row in sums.items()
    }


def _numbers(row: dict[str, Any]) -> dict[str, int]:
    return {name: int(value) for name, value in row.items() if name != "instance_id"}


def changed_months(slots: Table, after_version: int) -> set[str] | None:
    """Months in which usage was written after a version; None when the log does not say."""
    months: set[str] = set()
    for version, said in slots.said():
        if version <= after_version:
            return months
        if isinstance(said, dict) and "days" in said:
            months |= {str(day)[:7] for day in said["days"]}
        elif version > 0:  # version 0 made the table
            return None
    return months if after_version < 0 else None


def newest_batch(slots: Table, version: int) -> int:
    """The newest batch of records that is in a version of usage; -1: none, or the log does not say."""
    for each, said in slots.said():
        if each <= version and isinstance(said, dict) and "raw_batch" in said:
            return int(said["raw_batch"])
    return -1

"""What instances used in a month, read from one version of `usage_5m`."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pyarrow.compute as pc

from contracts.names import SYSTEM_INSTANCE_ID
from pipeline.metering.amounts import calendar
from pipeline.metering.amounts.bills import MonthUsage
from pipeline.metering.amounts.quantities import GAPS_READ, SUMS_READ, month_gaps, month_sums
from pipeline.metering.engine import small_engine
from pipeline.metering.versioned_tables import Table


def month_usage(
    slots: Table, version: int, month: str, instance_id: str | None = None
) -> dict[str, MonthUsage]:
    """Usage by instance; those without usage in the month are left out.

    The system instance, which carries Portico's own topics, is nobody's to pay.
    """
    first, end = calendar.first_day(month), calendar.first_day(calendar.next_month(month))
    where = (pc.field("day") >= first) & (pc.field("day") < end)
    where &= pc.field("instance_id") != SYSTEM_INSTANCE_ID
    if instance_id is not None:
        where &= pc.field("instance_id") == instance_id
    table = slots.dataset(version)
    with small_engine() as database:

        def found(query: str, columns: Sequence[str], only: pc.Expression) -> list[dict[str, Any]]:
            database.register("slots", table.scanner(columns=[*columns], filter=only).to_reader())
            rows = database.sql(query)
            return [dict(zip(rows.columns, row, strict=True)) for row in rows.fetchall()]

        gaps = defaultdict(list)
        missing = where & (pc.field("expected_ms") > pc.field("covered_ms"))
        for row in found(month_gaps("slots"), GAPS_READ, missing):
            gaps[row["instance_id"]].append((row["hour_ms"], row["missing_ms"]))
        used = found(month_sums("slots", calendar.slots_in(month)), SUMS_READ, where)
    return {row["instance_id"]: MonthUsage(**row, gaps=tuple(gaps[row["instance_id"]])) for row in used}


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

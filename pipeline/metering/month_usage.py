"""What instances used in a month, read from one version of `usage_5m`."""

from typing import Final

import pyarrow.compute as pc

from contracts.names import SYSTEM_INSTANCE_ID
from pipeline.metering.amounts import calendar
from pipeline.metering.amounts.bills import MonthUsage
from pipeline.metering.amounts.quantities import P95_READ, SUMS_READ, MonthSums, month_p95
from pipeline.metering.versioned_tables import Table

_INSTANCES_AT_ONCE: Final = 2_000
"""Their slots of a month are 300 MB, in two directions."""


def month_usage(
    slots: Table, version: int, month: str, instance_id: str | None = None, *, with_total: bool = False
) -> dict[str, MonthUsage]:
    """Usage by instance; those without usage in the month are left out. `with_total`: also `total_p95`.

    The system instance, which carries Portico's own topics, is nobody's to pay.
    """
    first, end = calendar.first_day(month), calendar.first_day(calendar.next_month(month))
    where = (pc.field("day") >= first) & (pc.field("day") < end)
    where &= pc.field("instance_id") != SYSTEM_INSTANCE_ID
    if instance_id is not None:
        where &= pc.field("instance_id") == instance_id
    table, sums = slots.dataset(version), MonthSums()
    for rows in table.to_batches(columns=[*SUMS_READ], filter=where):
        sums.add(rows)
    found = {}
    instances = sums.instances()
    for start in range(0, len(instances), _INSTANCES_AT_ONCE):
        some = instances[start : start + _INSTANCES_AT_ONCE]
        batches = table.to_batches(columns=[*P95_READ], filter=where & pc.field("instance_id").isin(some))
        count = calendar.slots_in(month)
        p95 = month_p95(batches, some, calendar.first_ms(month), count, with_total=with_total)
        for index, each in enumerate(some):
            highest = {name: values[index] for name, values in p95.items()}
            found[each] = MonthUsage(each, gaps=sums.gaps(each), **sums.of(each), **highest)
    return found


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

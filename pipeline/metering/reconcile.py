"""Proof that tables agree, to the byte: records, slots, hours, days and bills, and points' own counters.

Every check computes one side anew from the table below and compares it row by row; nothing is written.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import pyarrow.compute as pc
from duckdb import DuckDBPyConnection

from pipeline.errors import PipelineError
from pipeline.layout import PipelineLayout
from pipeline.metering.amounts import calendar
from pipeline.metering.amounts.slots import to_days, to_hours, to_slots
from pipeline.metering.engine import engine
from pipeline.metering.ledger import Ledger
from pipeline.metering.reconcile_bills import bill_differences
from pipeline.metering.rollup import UsageTables, day_of, rolled_up
from pipeline.metering.versioned_tables import Table, removed_before_ms
from pipeline.progress import Progress, Silent
from pipeline.schema.rollup import USAGE_5M, USAGE_DAY, USAGE_HOUR

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
    layout: PipelineLayout, progress: Progress | None = None, *, month: str | None = None
) -> list[Check]:
    """All checks, of one month or of all time; those against records where there still are some.

    Raises: PipelineError when usage is not rolled up yet.
    """
    progress = progress or Silent()
    tables = UsageTables(layout)
    months = f" of {month}" if month else ""
    if not (tables.raw.exists() and tables.slots.exists()):
        raise PipelineError(f"there is no usage{months} yet: run `portico pipeline meter run` first")
    done = rolled_up(tables.days)
    newest = pc.max(tables.raw.dataset().to_table(columns=["ingest_batch"])["ingest_batch"]).as_py()
    if newest is not None and newest > done.raw_batch:
        raise PipelineError(
            f"records up to batch {newest} are there and usage has those up to {done.raw_batch}: run "
            "`portico pipeline meter run` first"
        )
    with engine(layout) as database:
        # A record may begin in the last minutes of the month before.
        _show(database, "raw", tables.raw, month, earlier=timedelta(days=1))
        for name, table in {"slots": tables.slots, "hours": tables.hours, "days": tables.days}.items():
            _show(database, name, table, month)
        heard_until_ms = done.heard_until_ms
        in_month = f"{_in_month(month)} and day >= '{day_of(removed_before_ms(tables.raw))}'"
        slots = f"(select * from ({to_slots('raw')}) where {in_month})"
        steps: list[Callable[[], Check]] = [
            lambda: _counters(database, in_month),
            lambda: _compare(
                database,
                "records = usage_5m",
                _digest(slots),
                _digest(f"(from slots where {in_month})"),
                ["instance_id", "day"],
            ),
            lambda: _compare(
                database,
                "usage_5m = usage_hour",
                _plain(to_hours("slots", heard_until_ms), USAGE_HOUR.names),
                _plain("from hours", USAGE_HOUR.names),
                ["instance_id", "hour_start"],
            ),
            lambda: _compare(
                database,
                "usage_hour = usage_day",
                _plain(to_days("hours", heard_until_ms), USAGE_DAY.names),
                _plain("from days", USAGE_DAY.names),
                ["instance_id", "day"],
            ),
            lambda: _bills(layout, tables, month),
        ]
        progress.planned(len(steps), "checks")
        checks = []
        for step in steps:
            checks.append(step())
            progress.done(len(checks))
    progress.figures(differences=sum(check.differences for check in checks))
    return checks


def _show(
    database: DuckDBPyConnection,
    name: str,
    table: Table,
    month: str | None,
    *,
    earlier: timedelta = timedelta(),
) -> None:
    """Under a name, its rows of a month; how many of them there are does not matter."""
    rows = table.dataset()
    if month is not None:
        first, end = calendar.first_day(month), calendar.first_day(calendar.next_month(month))
        rows = rows.filter((pc.field("day") >= first - earlier) & (pc.field("day") < end))
    database.register(name, rows)


def _counters(database: DuckDBPyConnection, in_month: str) -> Check:
    """Per boot id and instance: records and recovered rows are the growth of the point's own counters.

    Between the first and the last record that are there; `boot_id` and `instance_id` name the chain.
    """
    grown = ", ".join(f"max({name}_total) - min({name}_total - {name}) as {name}" for name in _BYTES)
    bounds = f"""
        select boot_id, instance_id, min(interval_start_ms) as first_ms,
            max(interval_start_ms + interval_ms) as end_ms, {grown}
        from raw where not recovered and {in_month} group by all"""
    # A correction of the first record is about what was before it.
    found = f"""
        select boot_id, instance_id, {", ".join(f"sum(raw.{name})::bigint as {name}" for name in _BYTES)}
        from (from raw where {in_month}) raw join ({bounds}) bounds using (boot_id, instance_id)
        where interval_start_ms >= first_ms and interval_start_ms + interval_ms <= end_ms
            and not (interval_ms = 0 and recovered and interval_start_ms = first_ms)
        group by all"""
    expected = f"select * exclude (first_ms, end_ms) from ({bounds})"
    chain = ["boot_id", "instance_id"]
    return _compare(database, "records = counters of the points", expected, found, chain)


def _bills(layout: PipelineLayout, tables: UsageTables, month: str | None) -> Check:
    compared, found = bill_differences(tables.slots, Ledger(layout), month)
    return Check("usage = bills and adjustments", compared, len(found), tuple(found[:_SHOWN]))


def _in_month(month: str | None) -> str:
    if month is None:
        return "true"
    first = calendar.first_day(month)
    return f"day >= '{first}' and day < '{calendar.first_day(calendar.next_month(month))}'"


def _plain(rows: str, names: Sequence[str]) -> str:
    """With instants of one type: those of tables have a zone, which is UTC."""
    columns = (f"epoch_ms(epoch_ms({each})) as {each}" if each.endswith("_start") else each for each in names)
    return f"select {', '.join(columns)} from ({rows})"


def _digest(slots: str) -> str:
    """Sums of bytes, and of a hash of each whole row, by instance and day: a difference shows in one."""
    names = USAGE_5M.names
    return f"""
        select instance_id, day, sum(produce_bytes) as produce_bytes, sum(consume_bytes) as consume_bytes,
            sum(stored_byte_ms) as stored_byte_ms, count(*) as slots, sum(hash({", ".join(names)})) as hash
        from ({_plain(f"from {slots}", names)}) group by all"""


def _compare(database: DuckDBPyConnection, name: str, expected: str, found: str, keys: list[str]) -> Check:
    database.execute(f"create or replace temp table expected as {expected}")
    database.execute(f"create or replace temp table found as {found}")
    columns = [each for each in database.table("expected").columns if each not in keys]
    differ = " or ".join(f"expected.{each} is distinct from found.{each}" for each in columns)
    key = ", ".join(keys)
    shown = ", ".join(f"expected.{each} as {each}_expected, found.{each} as {each}_found" for each in columns)
    database.execute(
        f"""create or replace temp table compared as
        select {key}, {shown}, ({differ} or expected.here is null or found.here is null) as differ,
            expected.here is null as is_new, found.here is null as is_missing
        from (select *, 1 as here from expected) expected
        full join (select *, 1 as here from found) found using ({key})"""
    )
    [counted] = database.sql("select count(*), count(*) filter (differ) from compared").fetchall()
    rows = database.sql(f"from compared where differ order by {key} limit {_SHOWN}").to_arrow_table()
    examples = tuple(_example(row, keys, columns) for row in rows.to_pylist())
    return Check(name, counted[0], counted[1], examples)


def _example(row: dict[str, object], keys: Iterable[str], columns: Iterable[str]) -> str:
    where = " ".join(str(row[key]) for key in keys)
    if row["is_missing"] or row["is_new"]:
        return f"{where}: {'missing' if row['is_missing'] else 'nothing of it is in the table below'}"
    said = [
        f"{each} is {row[f'{each}_found']}, should be {row[f'{each}_expected']}"
        for each in columns
        if row[f"{each}_expected"] != row[f"{each}_found"]
    ]
    return f"{where}: {'; '.join(said)}"

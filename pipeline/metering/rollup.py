"""J7: usage of five minutes, hours and days, made again for every hour that new records touch.

`usage_raw` is the truth and every row of it counts. A run takes the hours touched by batches that no run has
taken yet, computes them from all rows and replaces them: running twice changes nothing, late records land in
their hour, and a run that was killed is made again by the next one. The last commit of a run, on `usage_day`,
says up to which batch it went.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from duckdb import DuckDBPyConnection

from contracts import billing
from contracts.billing import DAY_MS, HOUR_MS
from contracts.usage_records import USAGE_RAW
from pipeline.errors import PipelineError
from pipeline.layout import PipelineLayout
from pipeline.metering.amounts.slots import RAW_READ, SETTLE_MS, to_days, to_hours, to_slots
from pipeline.metering.engine import engine
from pipeline.metering.versioned_tables import Table, leases, removed_before_ms
from pipeline.progress import Progress, Silent
from pipeline.schema import rollup as schema
from pipeline.schema.usage_records import USAGE_RAW as RAW_SCHEMA
from pipeline.table_rows import read_rows

_ROWS_AT_ONCE: Final = 4_000_000
"""Rows of `usage_raw`: bounds what is in memory at a time, about a million slots."""
_SLOTS_HISTORY_DAYS: Final = 100
"""So long a bill can be made again from the version of `usage_5m` that it names."""


class RollupSaid(msgspec.Struct, frozen=True, kw_only=True):
    """What each commit of a run says of itself."""

    job: str = "rollup"
    days: tuple[str, ...]
    """Days of which it replaced hours."""
    raw_batch: int
    """The newest batch of `usage_raw` that was read."""
    heard_until_ms: int
    done: bool = False
    """Everything up to `raw_batch` is now in all three tables."""


@dataclass(frozen=True)
class RollupFigures:
    """What a run did."""

    raw_batch: int
    """Usage is complete up to this batch of records; -1 before the first."""
    hours: int
    slots: int
    """Rows of `usage_5m` that it wrote."""


@dataclass(frozen=True)
class RolledUp:
    """Where the newest finished run came to."""

    raw_batch: int = -1
    heard_until_ms: int = 0


class UsageTables:
    """The tables of usage."""

    def __init__(self, layout: PipelineLayout) -> None:
        self.raw = Table(layout.table(USAGE_RAW), RAW_SCHEMA, "day")
        self.slots = Table(layout.table(billing.USAGE_5M), schema.USAGE_5M, "day", _SLOTS_HISTORY_DAYS)
        self.hours = Table(layout.table(billing.USAGE_HOUR), schema.USAGE_HOUR, "day")
        self.days = Table(layout.table(billing.USAGE_DAY), schema.USAGE_DAY, "month")

    def ensure(self) -> None:
        """Make those that are missing."""
        for table in (self.slots, self.hours, self.days):
            table.ensure()


def roll_up(
    layout: PipelineLayout,
    progress: Progress | None = None,
    *,
    days: Sequence[date] | None = None,
) -> RollupFigures:
    """Take what is new in `usage_raw`; with `days` also make those days again, which changes nothing.

    Raises: PipelineError while another process writes these tables, and for days whose records are gone.
    """
    progress = progress or Silent()
    tables = UsageTables(layout)
    with leases([tables.slots], "the rollup"), engine(layout) as database:
        tables.ensure()
        if not tables.raw.exists():
            return RollupFigures(-1, 0, 0)
        before = rolled_up(tables.days)
        now, hours = _touched(database, tables.raw, before)
        hours |= {hour for day in days or () for hour in _hours_of(day)}
        removed_ms = removed_before_ms(tables.raw)
        if days and _hours_of(min(days))[0] < removed_ms:
            raise PipelineError(
                f"records before {day_of(removed_ms)} were tidied away, their bills are closed: "
                f"usage of {min(days)} stays as it is"
            )
        hours = {hour for hour in hours if hour >= removed_ms}
        progress.planned(len(hours), "hours")
        slots = 0
        chunks = list(_chunks(hours, tables.raw.rows_by_partition()))
        for index, chunk in enumerate(chunks):
            said = RollupSaid(
                days=tuple(sorted({day_of(hour).isoformat() for hour in chunk})),
                raw_batch=now.raw_batch,
                heard_until_ms=now.heard_until_ms,
                done=index == len(chunks) - 1,
            )
            slots += _replace(database, tables, chunk, said)
            progress.done(sum(len(each) for each in chunks[: index + 1]))
        if now.heard_until_ms // DAY_MS > before.heard_until_ms // DAY_MS:
            _tidy(tables, layout)
        progress.figures(hours=len(hours), rows=slots, raw_batch=now.raw_batch)
        return RollupFigures(now.raw_batch, len(hours), slots)


def hours_where(column: str, hours: Iterable[int]) -> str:
    """SQL for a timestamp column in one of these hours."""
    ranges = [f"({column} >= '{_iso(first)}' and {column} < '{_iso(end)}')" for first, end in _ranges(hours)]
    return f"({' or '.join(ranges)})"


def _replace(
    database: DuckDBPyConnection, tables: UsageTables, hours: Sequence[int], said: RollupSaid
) -> int:
    """Make these hours again in all three tables."""
    days = [date.fromisoformat(each) for each in said.days]
    steps = msgspec.structs.replace(said, done=False)
    in_hours = f"{_day_in(days)} and {hours_where('slot_start', hours)}"
    raw = tables.raw.dataset().to_batches(columns=[*RAW_READ], filter=_rows_touching(hours, days))
    database.register("raw", pa.RecordBatchReader.from_batches(_columns(tables.raw, RAW_READ), raw))
    made = f"select * from ({to_slots('raw')}) where {in_hours} order by day, instance_id, slot_start"
    slots = database.sql(made).to_arrow_table()
    tables.slots.replace(slots, in_hours, steps)
    database.register("slots", slots)
    hourly = f"{to_hours('slots', said.heard_until_ms)} order by day, instance_id, hour_start"
    where = f"{_day_in(days)} and {hours_where('hour_start', hours)}"
    tables.hours.replace(database.sql(hourly).to_arrow_table(), where, steps)
    database.register("hours", tables.hours.dataset().to_table(filter=pc.field("day").isin(days)))
    daily = f"{to_days('hours', said.heard_until_ms)} order by day, instance_id"
    months = ", ".join(sorted({f"'{each:%Y-%m}'" for each in days}))
    where = f"month in ({months}) and {_day_in(days)}"
    tables.days.replace(database.sql(daily).to_arrow_table(), where, said)
    return int(slots.num_rows)


def _columns(table: Table, names: Sequence[str]) -> pa.Schema:
    return pa.schema([table.schema.field(name) for name in names])


def _tidy(tables: UsageTables, layout: PipelineLayout) -> None:
    """Once a day: every run leaves the files of the day that it made again."""
    bills = str(layout.table(billing.BILL))
    named = []
    if DeltaTable.is_deltatable(bills):
        named = read_rows(DeltaTable(bills), ["usage_version"])["usage_version"].to_pylist()
    tables.slots.tidy(named)
    tables.hours.tidy()
    tables.days.tidy()


def _rows_touching(hours: Sequence[int], days: Sequence[date]) -> pc.Expression:
    """Rows whose interval has a part in one of the hours; they may begin in the hour before."""
    begins = pc.scalar(False)
    for first, end in _ranges(hours):
        start = pc.field("interval_start_ms")
        begins |= (start >= first - HOUR_MS) & (start < end)
    return pc.field("day").isin([*{*days, *(each - timedelta(days=1) for each in days)}]) & begins


def rolled_up(days: Table) -> RolledUp:
    """Sums and maxima as `usage_day` says."""
    for _, said in days.said():
        if isinstance(said, dict) and said.get("job") == "rollup" and said.get("done"):
            return RolledUp(said["raw_batch"], said["heard_until_ms"])
    return RolledUp()


def _touched(database: DuckDBPyConnection, raw: Table, before: RolledUp) -> tuple[RolledUp, set[int]]:
    """Where this run goes to, and the hours (epoch ms) it has to make."""
    names = ("ingest_batch", "interval_start_ms", "interval_ms", "recovered")
    new = raw.dataset().to_batches(columns=[*names], filter=pc.field("ingest_batch") > before.raw_batch)
    database.register("new", pa.RecordBatchReader.from_batches(_columns(raw, names), new))
    rows = database.sql(
        f"""select interval_start_ms // {HOUR_MS},
            greatest(interval_start_ms, interval_start_ms + interval_ms - 1) // {HOUR_MS},
            max(ingest_batch), max(case when recovered then 0 else interval_start_ms + interval_ms end)
        from new group by all"""
    ).fetchall()
    if not rows:
        return before, set()
    batch, heard_ms = max(row[2] for row in rows), max(row[3] for row in rows)
    now = RolledUp(batch, max(before.heard_until_ms, heard_ms))
    hours = {hour * HOUR_MS for first, last, *_ in rows for hour in range(first, last + 1)}
    return now, hours | _completed(before.heard_until_ms, now.heard_until_ms)


def _completed(heard_before_ms: int, heard_ms: int) -> set[int]:
    """Hours that no new record touches and that are over now: they, and their day, become complete."""
    if not heard_before_ms:
        return set()
    last = heard_before_ms - heard_before_ms % HOUR_MS
    candidates = (last - HOUR_MS, last)
    return {hour for hour in candidates if heard_before_ms < hour + HOUR_MS + SETTLE_MS <= heard_ms}


def _chunks(hours: Iterable[int], rows: Mapping[str, int]) -> Iterator[list[int]]:
    """Whole days of touched hours, as many at a time as have not too many rows."""
    chunk: list[int] = []
    size = 0
    for day, of_day in groupby(sorted(hours), key=day_of):
        more = rows.get(day.isoformat(), 0)
        if chunk and size + more > _ROWS_AT_ONCE:
            yield chunk
            chunk, size = [], 0
        chunk, size = [*chunk, *of_day], size + more
    if chunk:
        yield chunk


def _ranges(hours: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Runs of hours that follow one another: (first, end)."""
    first = end = None
    for hour in sorted(hours):
        if first is None or hour != end:
            if first is not None and end is not None:
                yield first, end
            first = hour
        end = hour + HOUR_MS
    if first is not None and end is not None:
        yield first, end


def _hours_of(day: date) -> range:
    start = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1000
    return range(start, start + DAY_MS, HOUR_MS)


def day_of(hour_ms: int) -> date:
    return datetime.fromtimestamp(hour_ms / 1000, UTC).date()


def _day_in(days: Iterable[date]) -> str:
    dates = ", ".join(f"'{each}'" for each in sorted(days))
    return f"day in ({dates})"


def _iso(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"

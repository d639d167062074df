"""What `usage_raw` does not need any more: rows of months that are billed and closed long ago, small files.

Rows go by what is there, never by what is missing: all bills of their month, and of all months before, are
closed, each instance that was used has one, and no record waits to be added up. Of every counter (a boot id
and instance) its last record before that time stays, so that a later one goes on from its totals. What is
older than the mark that the table keeps of this is never made again from records.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final

import pyarrow.compute as pc

from contracts.billing import DAY_MS, Bill, BillState
from contracts.names import SYSTEM_INSTANCE_ID
from contracts.usage_records import USAGE_RAW
from pipeline.errors import PipelineError
from pipeline.ingest.commits import BatchDocument, IngestTable, TableSpec
from pipeline.ingest.ranges import PartitionRange
from pipeline.ingest.staging import StagedFile, staging_area
from pipeline.layout import PipelineLayout
from pipeline.metering import KEEP_DAYS, KEEP_DAYS_MIN
from pipeline.metering.amounts import calendar
from pipeline.metering.batch import DAY_FOLDERS, stage_rows
from pipeline.metering.engine import engine
from pipeline.metering.ledger import Ledger
from pipeline.metering.rollup import UsageTables, day_of, rolled_up
from pipeline.metering.settle import COLUMNS
from pipeline.metering.versioned_tables import REMOVED_APP, leases, removed_before_ms
from pipeline.progress import Progress
from pipeline.schema.usage_records import USAGE_RAW as SCHEMA

_SETTLED_DAYS: Final = 2
"""Files of younger days are about to get company."""
_FILES_MIN: Final = 8
_ROWS_AT_ONCE: Final = 4_000_000


@dataclass(frozen=True)
class TidyFigures:
    """What a run did."""

    removed_before: date
    removed_rows: int = 0
    joined_days: int = 0
    files_before: int = 0
    files_after: int = 0
    deleted_files: int = 0
    """Of versions that nobody reads any more."""


def removable(
    bills: Iterable[Bill], used: Mapping[str, set[str]], *, now_ms: int, keep_days: int
) -> str | None:
    """The month up to whose beginning nothing is needed; `used`: who was used in each month. None: unknown.

    A month counts when bills of all that were used in it closed so long ago.
    """
    states = {(bill.month, bill.instance_id): bill for bill in bills}
    month, until_ms = None, now_ms - keep_days * DAY_MS
    for each in sorted(used):
        found = [states.get((each, instance)) for instance in used[each] - {SYSTEM_INSTANCE_ID}]
        if calendar.end_ms(each) > until_ms or any(
            bill is None or bill.state is not BillState.CLOSED or bill.closed_at_ms > until_ms
            for bill in found
        ):
            break
        month = calendar.next_month(each)
    return month


def tidy(
    layout: PipelineLayout, progress: Progress, *, now_ms: int, keep_days: int = KEEP_DAYS
) -> TidyFigures:
    """Remove and join. Raises: PipelineError, also while another process writes usage."""
    assert keep_days >= KEEP_DAYS_MIN, keep_days
    tables = UsageTables(layout)
    if not tables.raw.exists():
        return TidyFigures(date.min)
    with leases([tables.raw, tables.slots], "the tidying of usage"):
        raw = IngestTable.open(tables.raw.path, TableSpec(SCHEMA, ("day",)))
        before_ms = removed_before_ms(tables.raw)
        until_ms = max(before_ms, _removable_ms(layout, tables, now_ms, keep_days))
        rows, files = tables.raw.rows_by_partition(), tables.raw.files_by_partition()
        last = day_of(until_ms - DAY_MS).isoformat()
        old = [day for day in rows if day < last] if until_ms > before_ms else []
        many = [
            day
            for day, count in files.items()
            if count >= _FILES_MIN and last <= day < day_of(now_ms - _SETTLED_DAYS * DAY_MS).isoformat()
        ]
        progress.planned(len(old) + len(many), "days")
        removed = done = 0
        for days in _chunks(sorted({*old, *many}), rows):
            removed += _rewrite(layout, raw, days, PartitionRange(0, before_ms, until_ms))
            before_ms = until_ms  # said by the first commit: one that is killed has removed no unmarked row
            done += len(days)
            progress.done(done)
        progress.figures(rows_removed=removed, days=done)
        after = tables.raw.files_by_partition()
        return TidyFigures(
            day_of(until_ms),
            removed,
            len(many),
            sum(files.values()),
            sum(after.values()),
            tables.raw.tidy(),
        )


def _removable_ms(layout: PipelineLayout, tables: UsageTables, now_ms: int, keep_days: int) -> int:
    """0 where something is not settled: not added up, or not billed."""
    if not tables.days.exists():
        return 0
    newest = pc.max(tables.raw.dataset().to_table(columns=["ingest_batch"])["ingest_batch"]).as_py()
    ledger = Ledger(layout)
    is_settled = rolled_up(tables.days).raw_batch >= (newest or 0)
    if not is_settled or ledger.billed_usage_version() < tables.slots.version():
        return 0
    used: dict[str, set[str]] = {}
    for row in tables.days.dataset().to_table(columns=["month", "instance_id"]).to_pylist():
        used.setdefault(row["month"], set()).add(row["instance_id"])
    month = removable(ledger.all_bills(), used, now_ms=now_ms, keep_days=keep_days)
    return 0 if month is None else calendar.first_ms(month)


def _rewrite(layout: PipelineLayout, raw: IngestTable, days: Sequence[str], mark: PartitionRange) -> int:
    """One file for each of these days, without rows that nobody needs before the mark's end; how many went.

    An interval may go on beyond midnight: what begins in the mark's last day stays.
    """
    dates = [date.fromisoformat(day) for day in days]
    horizon_ms = mark.end - DAY_MS
    with staging_area(layout.staging) as area, engine(layout) as database:
        whole = raw.dataset()
        seen = whole.scanner(
            columns=["boot_id", "instance_id", "interval_start_ms"],
            filter=(pc.field("interval_start_ms") < horizon_ms) & ~pc.field("recovered"),
        )
        database.register("seen", seen.to_reader())
        database.execute(
            """create temp table cuts as select boot_id, instance_id, max(interval_start_ms) as cut_ms
            from seen group by all"""
        )
        database.register("stored", whole.scanner(filter=pc.field("day").isin(dates)).to_reader())
        database.execute(
            """create temp table kept as select stored.* replace
                (make_timestamp_ms(interval_start_ms) as interval_start),
                coalesce(interval_start_ms < cut_ms or (recovered and interval_start_ms = cut_ms), false)
                    as is_gone
            from stored left join cuts using (boot_id, instance_id)"""
        )
        [(rows, gone)] = database.sql("select count(*), count(*) filter (is_gone) from kept").fetchall()
        files = stage_rows(
            database,
            f"select {COLUMNS} from kept where not is_gone order by day, instance_id, interval_start_ms",
            SCHEMA,
            area,
            DAY_FOLDERS,
        )
        _must_be_whole(files, rows - gone)
        document = BatchDocument(
            app=REMOVED_APP,
            batch=raw.batch(REMOVED_APP) + 1,
            job="meter tidy",
            job_version="1",
            ranges=(mark,),
            figures={"rows_removed": gone, "days": len(days)},
        )
        raw.append(files, document, replace_partitions=[("day", "in", [*days])])
    return int(gone)


def _must_be_whole(files: Iterable[StagedFile], rows: int) -> None:
    found = sum(file.rows for file in files)
    if found != rows:
        raise PipelineError(f"table {USAGE_RAW}: {rows} rows became {found}: nothing was changed")


def _chunks(days: Iterable[str], rows: Mapping[str, int]) -> Iterator[list[str]]:
    """As many days at a time as have not too many rows."""
    chunk: list[str] = []
    for day in days:
        if chunk and sum(rows.get(each, 0) for each in [*chunk, day]) > _ROWS_AT_ONCE:
            yield chunk
            chunk = []
        chunk.append(day)
    if chunk:
        yield chunk

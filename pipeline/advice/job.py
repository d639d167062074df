"""Reads usage, decides, and writes the day's `advice`, `skew`, `forecast` and `moves`."""

import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

from contracts.advice import (
    ADVICE_TABLE,
    FORECAST_TABLE,
    MOVES_TABLE,
    SKEW_TABLE,
    AdviceRow,
    ForecastRow,
    MoveRow,
    SkewRow,
)
from contracts.billing import HOUR_MS, USAGE_HOUR, PeriodState
from contracts.usage_records import USAGE_RAW
from pipeline.advice.counterfactual import this_month
from pipeline.advice.judging import hours, skew
from pipeline.advice.judging.judgement import Bought
from pipeline.advice.judging.moves import Moves, Placement, advise_moves, is_skewed
from pipeline.advice.rows import Seen, advice_row, with_moves
from pipeline.errors import PipelineError
from pipeline.layout import PipelineLayout
from pipeline.metering.amounts.calendar import day_at
from pipeline.metering.engine import engine
from pipeline.progress import Progress
from pipeline.schema.columns import columns_of
from pipeline.table_rows import dataset

Places = Callable[[Sequence[str]], Mapping[str, Placement]]
"""Where the partitions of some instances are; those that nobody can say are left out."""
DAYS_KEPT: Final = 35
_INSTANCES_AT_ONCE: Final = 500
_CONFIGURATION: Final = {"delta.enableDeletionVectors": "false", "delta.checkpointInterval": "20"}
_BROKER_WINDOWS: Final = f"""
    select instance_id, node_id, at_ms, max(point) as point, max(partitions_led) as partitions_led,
        max(stored_bytes) as stored_bytes, max(covered_ms) as covered_ms, max(blocked_ms) as blocked_ms,
        max(produce_throttled_ms) as produce_throttled_ms, max(consume_throttled_ms) as consume_throttled_ms,
        sum(produce_bytes)::bigint as produce_bytes, sum(consume_bytes)::bigint as consume_bytes
    from (
        select instance_id, node_id, point, interval_start_ms // {skew.WINDOW_MS} * {skew.WINDOW_MS} as at_ms,
            max(interval_start_ms + interval_ms) - min(interval_start_ms) as covered_ms,
            max_by(partitions_led, interval_start_ms) as partitions_led,
            max_by(stored_bytes, interval_start_ms) as stored_bytes,
            sum(produce_throttled_ms)::bigint as produce_throttled_ms,
            sum(consume_throttled_ms)::bigint as consume_throttled_ms,
            sum(blocked_ms)::bigint as blocked_ms, sum(produce_bytes) as produce_bytes,
            sum(consume_bytes) as consume_bytes
        from raw group by all
    ) group by all order by instance_id, at_ms"""
"""Several gateways may count for one broker: what they carried adds up, of the rest the most counts."""
_RAW_READ: Final = (
    *("instance_id", "node_id", "point", "interval_start_ms", "interval_ms", "partitions_led"),
    *("stored_bytes", "produce_bytes", "consume_bytes", "produce_throttled_ms", "consume_throttled_ms"),
    "blocked_ms",
)


class Advised(NamedTuple):
    """What a run wrote."""

    advice: list[AdviceRow]
    moves: list[MoveRow]
    forecast: pa.Table
    """Rows of `ForecastRow`."""
    skew: pa.Table
    """Rows of `SkewRow`."""


def advise(
    layout: PipelineLayout,
    progress: Progress,
    bought: Sequence[Bought],
    *,
    now_ms: int,
    places: Places,
    only_one: bool = False,
) -> Advised:
    """Advice for instances from what was metered until now, in place of what this UTC day has.

    `only_one`: there is one, and the rows of others stay. Raises: PipelineError without usage tables.
    """
    assert not only_one or len(bought) == 1
    run_date = day_at(now_ms)
    usage = _Usage(layout, now_ms, run_date)
    progress.planned(len(bought), "instances")
    bills = this_month(layout, now_ms)
    advice: list[AdviceRow] = []
    hot: dict[str, tuple[Bought, tuple[SkewRow, ...]]] = {}
    tables: list[tuple[pa.Table, pa.Table]] = []
    for first in range(0, len(bought), _INSTANCES_AT_ONCE):
        forecasts: list[ForecastRow] = []
        skews: list[SkewRow] = []
        for one, seen in usage.of(bought[first : first + _INSTANCES_AT_ONCE]):
            forecasts += seen.forecasts.rows
            skews += seen.balance.rows
            advice.append(advice_row(one, seen, bills.get(one.instance_id), run_date, now_ms))
            if any(map(is_skewed, seen.balance.rows)):
                hot[one.instance_id] = one, seen.balance.rows
        # Kept as columns: rows of ten thousand instances with all hours and windows would be a GB.
        tables.append((as_table(forecasts, ForecastRow), as_table(skews, SkewRow)))
        progress.done(len(advice))
    at = places(sorted(hot)) if hot else {}
    moves = {
        instance_id: advise_moves(rows, one, at.get(instance_id), run_date)
        for instance_id, (one, rows) in sorted(hot.items())
    }
    advised = Advised(
        [with_moves(row, moves.get(row.instance_id, Moves())) for row in advice],
        [row for found in moves.values() for row in found.rows],
        *(pa.concat_tables(each) for each in zip(*tables, strict=True)),
    )
    _write(layout, advised, run_date, bought[0].instance_id if only_one else None)
    progress.figures(instances=len(advice), moves=len(advised.moves))
    return advised


def as_table(rows: Sequence[msgspec.Struct], of: type[msgspec.Struct]) -> pa.Table:
    """Rows of a contract as a table."""
    plain = [msgspec.to_builtins(row, builtin_types=(datetime.date,)) for row in rows]
    return pa.Table.from_pylist(plain, schema=columns_of(of))


class _Usage:
    """What was metered, of four weeks and of the last day."""

    def __init__(self, layout: PipelineLayout, now_ms: int, run_date: datetime.date) -> None:
        self._layout, self._now_ms, self._run_date = layout, now_ms, run_date
        self._hours, self._raw = (_table(layout, name) for name in (USAGE_HOUR, USAGE_RAW))
        first_ms = (now_ms // HOUR_MS - hours.HISTORY_H) * HOUR_MS
        self._since = pc.field("day") >= day_at(first_ms)
        self._span_ms = (first_ms, now_ms)
        reported = self._hours.to_table(columns=["hour_start", "state"], filter=self._since)
        with engine(layout) as database:
            database.register("hours", reported)
            found = database.sql(
                f"""select epoch_ms(hour_start) as hour_ms, bool_or(state = '{PeriodState.COMPLETE}')
                from hours where hour_ms >= {first_ms} and hour_ms < {now_ms} group by all"""
            ).fetchall()
        self._reported = hours.reported_hours(found, now_ms)

    def of(self, bought: Sequence[Bought]) -> Iterator[tuple[Bought, Seen]]:
        """Each of these instances with what it used, and will."""
        wanted = pc.field("instance_id").isin([one.instance_id for one in bought])
        with engine(self._layout) as database:
            database.register("hours", self._hours.to_table(filter=self._since & wanted))
            first_ms, now_ms = self._span_ms
            by_hour = database.sql(
                f"""select instance_id, epoch_ms(hour_start) as hour_ms,
                    stored_byte_ms::double / {HOUR_MS} as stored_bytes, {", ".join(hours.COLUMNS[2:])}
                from hours where hour_ms >= {first_ms} and hour_ms < {now_ms} order by instance_id, hour_ms"""
            ).to_arrow_table()
            since_ms = (self._now_ms - skew.HISTORY_MS) // skew.WINDOW_MS * skew.WINDOW_MS
            start = pc.field("interval_start_ms")
            where = (pc.field("day") >= day_at(since_ms)) & (start >= since_ms) & (start < now_ms) & wanted
            database.register("raw", self._raw.scanner(columns=[*_RAW_READ], filter=where).to_reader())
            by_window = database.sql(_BROKER_WINDOWS).to_arrow_table()
        of_hours, of_windows = _by_instance(by_hour), _by_instance(by_window)
        for one in bought:
            balance, forecasts = skew.Balance(), hours.Forecasts()
            if windows := of_windows.get(one.instance_id):
                balance = skew.balance(windows, one.instance_id, self._run_date)
            if used := of_hours.get(one.instance_id):
                forecasts = hours.forecasts(
                    used,
                    self._reported,
                    one.capacity_bytes,
                    balance.stored_bytes,
                    one.instance_id,
                    self._run_date,
                )
            yield one, Seen(forecasts, balance)


def _table(layout: PipelineLayout, name: str) -> Any:
    path = str(layout.table(name))
    if not DeltaTable.is_deltatable(path):
        raise PipelineError("no usage was metered yet: run `portico pipeline meter run` first")
    return dataset(DeltaTable(path))


def _by_instance(rows: pa.Table) -> dict[str, skew.Columns]:
    return {
        str(instance_id): {name: of[name].to_numpy() for name in of.columns}
        for instance_id, of in rows.to_pandas().groupby("instance_id", sort=False)
    }


def _write(
    layout: PipelineLayout, advised: Advised, run_date: datetime.date, instance_id: str | None
) -> None:
    written = (
        (FORECAST_TABLE, advised.forecast),
        (SKEW_TABLE, advised.skew),
        (MOVES_TABLE, as_table(advised.moves, MoveRow)),
        (ADVICE_TABLE, as_table(advised.advice, AdviceRow)),  # last: who sees it finds the others
    )
    for name, rows in written:
        _replace_day(layout.table(name), rows, run_date, instance_id)


def _replace_day(path: Path, rows: pa.Table, run_date: datetime.date, instance_id: str | None) -> None:
    """Write the rows of a day, of all instances or one, in one commit. Older days than are kept go."""
    where = f"run_date = '{run_date.isoformat()}'"
    if instance_id is not None:
        assert instance_id.isalnum(), instance_id
        where += f" AND instance_id = '{instance_id}'"
    try:
        if not DeltaTable.is_deltatable(str(path)):
            DeltaTable.create(str(path), rows.schema, partition_by=["run_date"], configuration=_CONFIGURATION)
        write_deltalake(str(path), rows, mode="overwrite", predicate=where)
        table, oldest = DeltaTable(str(path)), (run_date - datetime.timedelta(days=DAYS_KEPT)).isoformat()
        if any(partition["run_date"] < oldest for partition in table.partitions()):
            table.delete(f"run_date < '{oldest}'")
            table.vacuum(dry_run=False)
    except CommitFailedError as error:
        raise PipelineError(
            f"table {path.name} was written by another run at the same time: run advise again"
        ) from error

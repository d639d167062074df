"""Reads usage, decides, and writes the day's `advice`, `skew`, `forecast` and `moves`."""

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from contracts.advice import (
    ADVICE_TABLE,
    FORECAST_TABLE,
    MOVES_TABLE,
    SKEW_TABLE,
    AdviceRow,
    ForecastRow,
    Metric,
    MoveRow,
    SkewRow,
)
from contracts.billing import USAGE_HOUR
from contracts.quota import Direction
from contracts.usage_records import USAGE_RAW
from pipeline.advice import frames
from pipeline.advice.advice_days import as_table, replace_day
from pipeline.advice.counterfactual import Billed, this_month
from pipeline.advice.judging.hours import reported_hours
from pipeline.advice.judging.judgement import Bought
from pipeline.advice.judging.skewed import Moves, Placement, advise_moves, is_skewed
from pipeline.advice.rows import Seen, advice_row
from pipeline.errors import PipelineError
from pipeline.layout import PipelineLayout
from pipeline.progress import Progress
from pipeline.schema.advice import ADVICE, FORECAST, MOVES, SKEW

Places = Callable[[Sequence[str]], Mapping[str, Placement]]
"""Where the partitions of some instances are; those that nobody can say are left out."""
_FORECAST_LISTS: Final = ("expected", "low", "high")
_SKEW_LISTS: Final = ("at_ms", "rate_bytes_per_s", "p_ratio", "usable_share_history", "throttled_ms")


class Advised(NamedTuple):
    """What a run wrote."""

    advice: list[AdviceRow]
    moves: list[MoveRow]
    skew: pa.Table
    forecast: pa.Table


def advise(
    spark: SparkSession,
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
    run_date = datetime.datetime.fromtimestamp(now_ms / 1000, datetime.UTC).date()
    progress.planned(4, "tables")
    forecast = _forecasts(spark, layout, bought, now_ms, run_date)
    progress.done(1)
    skew = _skews(spark, layout, bought, now_ms, run_date)
    progress.done(2)
    moves = _moves(skew, bought, places, run_date)
    advice = _advice(forecast, skew, moves, this_month(layout, now_ms), bought, run_date, now_ms)
    advised = Advised(
        advice,
        [row for found in moves.values() for row in found.rows],
        skew.drop_columns(["stored_bytes", "blocked_ms"]),
        forecast,
    )
    _write(layout, advised, run_date, bought[0].instance_id if only_one else None)
    progress.done(4)
    progress.figures(instances=len(advice), moves=len(advised.moves))
    return advised


def forecast_rows(table: pa.Table) -> list[ForecastRow]:
    """A table of forecasts as rows."""
    return msgspec.convert(table.to_pylist(), list[ForecastRow])


def skew_rows(table: pa.Table) -> list[SkewRow]:
    """A table of skew as rows."""
    return msgspec.convert(table.to_pylist(), list[SkewRow])


def _forecasts(
    spark: SparkSession,
    layout: PipelineLayout,
    bought: Sequence[Bought],
    now_ms: int,
    run_date: datetime.date,
) -> pa.Table:
    hours = frames.hours(_usage(spark, layout, USAGE_HOUR), now_ms)
    found = frames.hours_somebody_reported(hours).collect()
    reported = reported_hours([(row.hour_ms, row.is_complete) for row in found], now_ms)
    capacities = {one.instance_id: one.capacity_bytes for one in bought}
    rows = frames.forecasts(_of(hours, bought), reported, capacities)
    return _dated(rows, run_date, FORECAST.names)


def _skews(
    spark: SparkSession,
    layout: PipelineLayout,
    bought: Sequence[Bought],
    now_ms: int,
    run_date: datetime.date,
) -> pa.Table:
    windows = frames.windows(_of(_usage(spark, layout, USAGE_RAW), bought), now_ms)
    names = [*SKEW.names, *frames.SKEWS.names[-2:]]
    return _dated(frames.skews(windows, len(bought)), run_date, names)


def _usage(spark: SparkSession, layout: PipelineLayout, name: str) -> DataFrame:
    path = str(layout.table(name))
    if not DeltaTable.is_deltatable(path):
        raise PipelineError("no usage was metered yet: run `portico pipeline meter run` first")
    return spark.read.format("delta").load(path)


def _of(usage: DataFrame, bought: Iterable[Bought]) -> DataFrame:
    return usage.where(f.col("instance_id").isin([one.instance_id for one in bought]))


def _dated(rows: DataFrame, run_date: datetime.date, names: Sequence[str]) -> pa.Table:
    return rows.withColumn("run_date", f.lit(run_date)).select(*names).toArrow()


def _advice(
    forecast: pa.Table,
    skew: pa.Table,
    moves: Mapping[str, Moves],
    bills: Mapping[str, Billed],
    bought: Sequence[Bought],
    run_date: datetime.date,
    now_ms: int,
) -> list[AdviceRow]:
    seen = _seen(forecast, skew)
    nothing = Seen({}, {}, {})
    return [
        advice_row(
            one,
            seen.get(one.instance_id, nothing),
            moves.get(one.instance_id, Moves()),
            bills.get(one.instance_id),
            run_date,
            now_ms,
        )
        for one in bought
    ]


def _write(
    layout: PipelineLayout, advised: Advised, run_date: datetime.date, instance_id: str | None
) -> None:
    written = (
        (FORECAST_TABLE, advised.forecast),
        (SKEW_TABLE, advised.skew),
        (MOVES_TABLE, as_table(advised.moves, MOVES)),
        (ADVICE_TABLE, as_table(advised.advice, ADVICE)),  # last: who sees it finds the others
    )
    for name, rows in written:
        replace_day(layout.table(name), rows, run_date, instance_id)


def _seen(forecast: pa.Table, skew: pa.Table) -> dict[str, Seen]:
    """What rows of advice need of both tables, by instance."""
    found: dict[str, Seen] = {}

    def of(instance_id: str) -> Seen:
        return found.setdefault(instance_id, Seen({}, {}, {}))

    for row in forecast.drop_columns(list(_FORECAST_LISTS)).to_pylist():
        of(row["instance_id"]).forecasts[Metric(row["metric"])] = row
    for row in skew.drop_columns([*_SKEW_LISTS, "points"]).to_pylist():
        one = of(row["instance_id"])
        one.skews[Direction(row["direction"])] = row
        one.beside.update(stored_bytes=row["stored_bytes"], blocked_ms=row["blocked_ms"])
    return found


def _moves(
    skew: pa.Table, bought: Sequence[Bought], places: Places, run_date: datetime.date
) -> dict[str, Moves]:
    """Moves for the instances whose traffic is so uneven that moves are worth a look."""
    plain = skew.drop_columns([*_SKEW_LISTS, "points"]).to_pylist()
    hot = sorted(
        {row["instance_id"] for row in plain if is_skewed(row["usable_share"], row["throttled_total_ms"])}
    )
    if not hot:
        return {}
    chosen = skew.filter(pc.is_in(skew["instance_id"], pa.array(hot)))
    rows: dict[str, list[SkewRow]] = {}
    for row in skew_rows(chosen):
        rows.setdefault(row.instance_id, []).append(row)
    at = places(hot)
    by_id: Mapping[str, Any] = {one.instance_id: one for one in bought}
    return {
        instance_id: advise_moves(rows[instance_id], by_id[instance_id], at.get(instance_id), run_date)
        for instance_id in hot
    }

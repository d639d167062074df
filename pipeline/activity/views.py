"""Page views: counts by page and minute, what came too late for them, sessions, and rankings."""

from datetime import timedelta
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from pipeline.activity.events import PAGE_VIEW, Lane
from pipeline.activity.intake import Fold, Job, Output
from pipeline.activity.ranges import MINUTE, at, between, floor, us_of
from pipeline.activity.result_tables import Reach

SESSION_GAP: Final = timedelta(minutes=30)
RANKING_WINDOW: Final = timedelta(hours=1)
RANKED: Final = 10
VIEWS_MINUTE: Final = "views_minute"
VIEWS_LATE: Final = "views_late"
VIEWS_SESSIONS: Final = "views_sessions"
VIEWS_TOP: Final = "views_top"


def views_per_minute(events: DataFrame) -> DataFrame:
    """minute, page, views."""
    minute = F.date_trunc("minute", F.col("ts")).alias("minute")
    return events.groupBy(minute, "page").agg(F.count("*").alias("views"))


def added(*counts: DataFrame) -> DataFrame:
    """Counts by minute and page of several parts together."""
    first, *others = counts
    for other in others:
        first = first.unionByName(other)
    return first.groupBy("minute", "page").agg(F.sum("views").alias("views"))


def late_views(late: DataFrame, known: DataFrame) -> DataFrame:
    """Late events that were not there before: neither in time nor late."""
    return late.join(known.select("ts", "event"), ["ts", "event"], "left_anti")


def sessions(visits: DataFrame, gap: timedelta = SESSION_GAP) -> DataFrame:
    """Visits (user, started, ended, views) that lie no more than `gap` apart become one."""
    by_start = Window.partitionBy("user").orderBy("started", "ended")
    before = F.max("ended").over(by_start.rowsBetween(Window.unboundedPreceding, -1))
    apart = F.coalesce(F.col("started") > before + F.lit(gap), F.lit(True))
    numbered = visits.withColumn("session", F.sum(apart.cast("int")).over(by_start))
    return (
        numbered.groupBy("user", "session")
        .agg(F.min("started").alias("started"), F.max("ended").alias("ended"), F.sum("views").alias("views"))
        .drop("session")
    )


def visits(events: DataFrame) -> DataFrame:
    """Every view as a visit of its own."""
    return events.select(
        "user", F.col("ts").alias("started"), F.col("ts").alias("ended"), F.lit(1).cast("long").alias("views")
    )


def ranking(minutes: DataFrame, window: timedelta = RANKING_WINDOW, ranked: int = RANKED) -> DataFrame:
    """The most viewed pages of each window: window_start, rank, page, views; equal ones by name."""
    start = F.window("minute", _interval(window)).start.alias("window_start")
    totals = minutes.groupBy(start, "page").agg(F.sum("views").alias("views"))
    order = Window.partitionBy("window_start").orderBy(F.desc("views"), "page")
    return totals.withColumn("rank", F.row_number().over(order)).where(F.col("rank") <= ranked)


def _interval(length: timedelta) -> str:
    return f"{int(length.total_seconds())} seconds"


def _fold_minutes(step: Fold, table: str) -> None:
    _add_counts(step, table, step.fresh(), step.reach())


def _fold_late(step: Fold, table: str) -> None:
    reach = step.reach(Lane.LATE)
    if reach is None:
        return
    older = (F.col("lane") == Lane.ON_TIME.value) | (F.col("batch") <= step.since)
    known = step.events.where(older).where(between("ts", reach.first_us, reach.last_us))
    late = step.fresh(Lane.LATE).dropDuplicates(["ts", "event"])
    _add_counts(step, table, late_views(late, known), reach)


def _add_counts(step: Fold, table: str, events: DataFrame, reach: Reach | None) -> None:
    if reach is None:
        return
    where = between("minute", *(floor(moment, MINUTE) for moment in (reach.first_us, reach.last_us)))
    known = step.tables.read(table)
    parts = [views_per_minute(events)] + ([] if known is None else [known.where(where)])
    step.tables.replace(table, added(*parts), table, step.upto, where)


def _fold_sessions(step: Fold, table: str) -> None:
    reach = step.reach()
    if reach is None:
        return
    gap = us_of(SESSION_GAP)
    where = f"ended >= {at(reach.first_us - gap)} and started <= {at(reach.last_us + gap)}"
    new, known = visits(step.fresh()), step.tables.read(table)
    everything = new if known is None else new.unionByName(known.where(where))
    step.tables.replace(table, sessions(everything), table, step.upto, where)


def _fold_top(step: Fold, table: str) -> None:
    reach, minutes = step.reach(), step.tables.read(VIEWS_MINUTE)
    if reach is None or minutes is None:
        return
    first, last = (floor(moment, RANKING_WINDOW) for moment in (reach.first_us, reach.last_us))
    of_windows = minutes.where(f"minute >= {at(first)} and minute < {at(last + us_of(RANKING_WINDOW))}")
    step.tables.replace(table, ranking(of_windows), table, step.upto, between("window_start", first, last))


JOB: Final = Job(
    name="views",
    kinds=(PAGE_VIEW,),
    waits_for=timedelta(minutes=10),
    outputs=(
        Output(VIEWS_MINUTE, _fold_minutes),
        Output(VIEWS_LATE, _fold_late),
        Output(VIEWS_SESSIONS, _fold_sessions),
        Output(VIEWS_TOP, _fold_top),
    ),
    every_s=2.0,
    fold_every_s=10.0,
)

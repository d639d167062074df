"""Page views: counts by page and minute, what came too late for them, sessions, and rankings."""

from datetime import timedelta
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from pipeline.activity.events import PAGE_VIEW, Lane
from pipeline.activity.intake import Fold, Job, Output
from pipeline.activity.tables import at, us_of

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


def too_late(events: DataFrame) -> DataFrame:
    """Each late event that was not there in time, once."""
    late = events.where(F.col("lane") == Lane.LATE.value).dropDuplicates(["ts", "event"])
    in_time = events.where(F.col("lane") == Lane.ON_TIME.value).select("ts", "event")
    return late.join(in_time, ["ts", "event"], "left_anti")


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
    start = F.window("minute", f"{window.total_seconds():.0f} seconds").start.alias("window_start")
    totals = minutes.groupBy(start, "page").agg(F.sum("views").alias("views"))
    order = Window.partitionBy("window_start").orderBy(F.desc("views"), "page")
    return totals.withColumn("rank", F.row_number().over(order)).where(F.col("rank") <= ranked)


def _fold_minutes(step: Fold) -> None:
    if touched := step.touched():
        step.replace(views_per_minute(step.on_time(touched)), touched.of("minute"))


def _fold_late(step: Fold) -> None:
    if touched := step.touched(Lane.LATE):
        late = too_late(step.events.where(touched.of("ts")))
        step.replace(views_per_minute(late), touched.of("minute"))


def _fold_sessions(step: Fold) -> None:
    if touched := step.touched():
        gap = us_of(SESSION_GAP)
        where = f"ended >= {at(touched.first_us - gap)} and started <= {at(touched.until_us + gap)}"
        new, known = visits(step.fresh()), step.known()
        step.replace(sessions(new if known is None else new.unionByName(known.where(where))), where)


def _fold_top(step: Fold) -> None:
    touched, minutes = step.touched(), step.tables.read(VIEWS_MINUTE)
    if touched is not None and minutes is not None:
        windows = touched.widened(RANKING_WINDOW)
        step.replace(ranking(minutes.where(windows.of("minute"))), windows.of("window_start"))


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

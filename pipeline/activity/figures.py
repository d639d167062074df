"""What the daily report says, read from the tables of results: small frames and totals."""

from dataclasses import dataclass, field
from typing import Final

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from pipeline.activity import abuse, ops, views
from pipeline.activity.feed import FEED
from pipeline.activity.ranges import MINUTE, MINUTE_US, at, bounds, floor
from pipeline.activity.result_tables import ActivityTables
from pipeline.errors import PipelineError

DAY_US: Final = 24 * 60 * MINUTE_US
PAGES: Final = 12
JOBS: Final = ("views", "feed", "abuse", "ops")
_TABLES: Final = ((views.VIEWS_MINUTE, "minute"), (ops.OPS_MINUTE, "minute"), ("abuse_events", "ts"))


@dataclass
class Figures:
    """One day of an instance's activity. Times are in UTC; a frame of a job that never ran is empty."""

    start_us: int
    totals: dict[str, int] = field(default_factory=dict)
    views: pd.DataFrame = field(default_factory=pd.DataFrame)
    """minute, views."""
    pages: pd.DataFrame = field(default_factory=pd.DataFrame)
    """page, views: the most viewed ones."""
    alerts: pd.DataFrame = field(default_factory=pd.DataFrame)
    """rule, source, window_start, attempts, threshold."""
    minutes: pd.DataFrame = field(default_factory=pd.DataFrame)
    """service, minute, requests, errors, error_rate, p50_ms, p99_ms."""
    incidents: pd.DataFrame = field(default_factory=pd.DataFrame)
    """rule, service, opened_at, resolved_at, worst, limit."""
    errors: pd.DataFrame = field(default_factory=pd.DataFrame)
    """topic, error, records: of all days, as they have no time of their own."""

    @property
    def end_us(self) -> int:
        """The end of the day."""
        return self.start_us + DAY_US


def read_figures(tables: ActivityTables, start_us: int | None = None) -> Figures:
    """The day from `start_us` on, by default the last 24 hours of activity. Raises: PipelineError."""
    found = Figures(_last_day(tables) if start_us is None else start_us)
    _read_views(tables, found)
    _read_feed(tables, found)
    _read_abuse(tables, found)
    _read_ops(tables, found)
    dead = [rows for job in JOBS if (rows := tables.read(f"{job}_dead_letters")) is not None]
    if dead:
        every = dead[0]
        for other in dead[1:]:
            every = every.unionByName(other)
        counted = every.groupBy("topic", "error").agg(F.count("*").alias("records"))
        found.errors = counted.orderBy(F.desc("records"), "topic", "error").toPandas()
        found.totals["dead letters"] = int(found.errors["records"].sum())
    return found


def _last_day(tables: ActivityTables) -> int:
    ends = [
        reach[1]
        for name, column in _TABLES
        if (rows := tables.read(name)) is not None and (reach := bounds(rows, column)) is not None
    ]
    if not ends:
        raise PipelineError("there is no activity to report: start with `portico pipeline activity run`")
    return floor(max(ends), MINUTE) + MINUTE_US - DAY_US


def _of_day(rows: DataFrame, column: str, found: Figures) -> DataFrame:
    return rows.where(f"{column} >= {at(found.start_us)} and {column} < {at(found.end_us)}")


def _read_views(tables: ActivityTables, found: Figures) -> None:
    minutes, sessions = tables.read(views.VIEWS_MINUTE), tables.read(views.VIEWS_SESSIONS)
    if minutes is None:
        return
    of_day = _of_day(minutes, "minute", found)
    found.views = of_day.groupBy("minute").agg(F.sum("views").alias("views")).orderBy("minute").toPandas()
    by_page = of_day.groupBy("page").agg(F.sum("views").alias("views"))
    found.pages = by_page.orderBy(F.desc("views"), "page").limit(PAGES).toPandas()
    found.totals["page views"] = int(found.views["views"].sum())
    late = tables.read(views.VIEWS_LATE)
    if late is not None:
        [row] = _of_day(late, "minute", found).agg(F.sum("views").alias("views")).collect()
        found.totals["page views that came too late"] = row.views or 0
    if sessions is not None:
        of_day = _of_day(sessions, "started", found)
        length = F.unix_millis("ended") - F.unix_millis("started")
        [row] = of_day.agg(
            F.count("*").alias("sessions"),
            F.countDistinct("user").alias("users"),
            F.round(F.avg(length) / 1000).cast("long").alias("length"),
        ).collect()
        found.totals |= {"sessions": row.sessions, "visitors": row.users}
        found.totals["mean session (s)"] = row.length or 0


def _read_feed(tables: ActivityTables, found: Figures) -> None:
    feed = tables.read(FEED)
    if feed is not None:
        [row] = feed.agg(F.countDistinct("user").alias("users"), F.count("*").alias("entries")).collect()
        found.totals |= {"users with a feed": row.users, "feed entries": row.entries}


def _read_abuse(tables: ActivityTables, found: Figures) -> None:
    logins, alerts = tables.read("abuse_events"), tables.read(abuse.TABLE)
    if logins is not None:
        of_day = _of_day(logins, "ts", found)
        [row] = of_day.agg(F.count("*").alias("logins"), F.count_if(~F.col("ok")).alias("failed")).collect()
        found.totals |= {"log-ins tried": row.logins, "log-ins failed": row.failed}
    if alerts is not None:
        found.alerts = (
            _of_day(alerts, "window_start", found).orderBy("window_start", "rule", "source").toPandas()
        )
        found.totals["abuse alerts"] = len(found.alerts)


def _read_ops(tables: ActivityTables, found: Figures) -> None:
    minutes, incidents = tables.read(ops.OPS_MINUTE), tables.read(ops.OPS_INCIDENTS)
    if minutes is not None:
        found.minutes = _of_day(minutes, "minute", found).orderBy("service", "minute").toPandas()
        found.totals["requests to services"] = int(found.minutes["requests"].sum())
    if incidents is not None:
        found.incidents = _of_day(incidents, "opened_at", found).orderBy("opened_at", "rule").toPandas()
        found.totals["incidents"] = len(found.incidents)

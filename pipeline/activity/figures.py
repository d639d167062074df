"""What the daily report says, read from the tables of results without Spark: small frames and totals."""

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

import duckdb
import pandas as pd
from deltalake import DeltaTable

from pipeline.activity.tables import DAY, MINUTE, Span, us_of
from pipeline.errors import PipelineError
from pipeline.layout import PipelineLayout
from pipeline.metering.engine import engine
from pipeline.table_rows import dataset

_PAGES: Final = 12
_DEAD: Final = tuple(f"{job}_dead_letters" for job in ("views", "feed", "abuse", "ops"))
_TIMES: Final = {
    "views_minute": "minute",
    "views_late": "minute",
    "views_sessions": "started",
    "abuse_events": "ts",
    "abuse_alerts": "window_start",
    "ops_minute": "minute",
    "ops_alerts": "opened_at",
}
"""The column that says to which day a row belongs; feeds and dead letters are of no day."""


class _Asked(NamedTuple):
    name: str
    table: str
    sql: str
    """Over `day`, the table's rows of the day; of a total the value alone."""


_TOTALS: Final = (
    _Asked("page views", "views_minute", "sum(views)"),
    _Asked("page views that came too late", "views_late", "sum(views)"),
    _Asked("sessions", "views_sessions", "count(*)"),
    _Asked("visitors", "views_sessions", 'count(DISTINCT "user")'),
    _Asked("mean session (s)", "views_sessions", "round(avg(epoch_ms(ended) - epoch_ms(started)) / 1000)"),
    _Asked("users with a feed", "feed", 'count(DISTINCT "user")'),
    _Asked("feed entries", "feed", "count(*)"),
    _Asked("log-ins tried", "abuse_events", "count(*)"),
    _Asked("log-ins failed", "abuse_events", "count_if(NOT ok)"),
    _Asked("abuse alerts", "abuse_alerts", "count(*)"),
    _Asked("requests to services", "ops_minute", "sum(requests)"),
    _Asked("incidents", "ops_alerts", "count(*)"),
    *(_Asked("dead letters", table, "count(*)") for table in _DEAD),
)
_FRAMES: Final = (
    _Asked(
        "views",
        "views_minute",
        "SELECT minute, sum(views)::BIGINT AS views FROM day GROUP BY minute ORDER BY minute",
    ),
    _Asked(
        "ranking",
        "views_minute",
        "SELECT row_number() OVER (ORDER BY sum(views) DESC, page) AS rank, page, "
        f"sum(views)::BIGINT AS views FROM day GROUP BY page ORDER BY rank LIMIT {_PAGES}",
    ),
    _Asked("alerts", "abuse_alerts", "FROM day ORDER BY window_start, rule, source"),
    _Asked(
        "abusers",
        "abuse_alerts",
        'SELECT rule, source, count(*) AS windows, max(attempts) AS "most attempts", '
        'min(window_start) AS "from", max(window_end) AS "to" FROM day GROUP BY ALL '
        'ORDER BY "most attempts" DESC, rule, source',
    ),
    _Asked("minutes", "ops_minute", "FROM day ORDER BY service, minute"),
    _Asked("incidents", "ops_alerts", "FROM day ORDER BY opened_at, rule"),
)


class Figures(NamedTuple):
    """One day of an instance's activity. Times are in UTC."""

    start_us: int
    end_us: int
    totals: Mapping[str, int]
    frames: Mapping[str, pd.DataFrame]
    """Those that have rows; `errors` are of all days, as they have no time of their own."""


def read_figures(layout: PipelineLayout, instance_id: str, start_us: int | None = None) -> Figures:
    """The day from `start_us` on, by default the last 24 hours of activity. Raises: PipelineError."""
    root = layout.activity(instance_id)
    tables = [name for name in (*_TIMES, "feed", *_DEAD) if DeltaTable.is_deltatable(str(root / name))]
    totals: Counter[str] = Counter()
    with engine(layout) as database:
        for name in tables:
            database.register(name, dataset(DeltaTable(str(root / name))))
        first_us = _last_day_us(database, tables) if start_us is None else start_us
        day = Span(first_us, first_us + us_of(DAY))
        for name, table, sql in _TOTALS:
            if table in tables:
                [number] = _day(database, f"SELECT {sql} FROM day", table, day).iloc[0]
                totals[name] += 0 if pd.isna(number) else int(number)
        frames = {name: _day(database, sql, table, day) for name, table, sql in _FRAMES if table in tables}
        if dead := [f"SELECT topic, error FROM {table}" for table in _DEAD if table in tables]:
            frames["errors"] = database.execute(
                f"SELECT topic, error, count(*) AS records FROM ({' UNION ALL '.join(dead)}) "
                "GROUP BY ALL ORDER BY records DESC, topic, error"
            ).df()
    return Figures(*day, totals, {name: frame for name, frame in frames.items() if len(frame)})


def _last_day_us(database: duckdb.DuckDBPyConnection, tables: Collection[str]) -> int:
    told = [
        f"SELECT max(epoch_us({_TIMES[table]})) AS moment FROM {table}"
        for table in ("views_minute", "ops_minute", "abuse_events")
        if table in tables
    ]
    row = (
        database.execute(f"SELECT max(moment) FROM ({' UNION ALL '.join(told)})").fetchone() if told else None
    )
    if row is None or row[0] is None:
        raise PipelineError("there is no activity to report: start with `portico pipeline activity run`")
    return Span(row[0], row[0] + 1).widened(MINUTE).until_us - us_of(DAY)


def _day(database: duckdb.DuckDBPyConnection, sql: str, table: str, day: Span) -> pd.DataFrame:
    where = ""
    if column := _TIMES.get(table):
        first, until = (f"make_timestamptz({moment_us})" for moment_us in day)
        where = f"WHERE {column} >= {first} AND {column} < {until}"
    found = database.execute(f"WITH day AS (FROM {table} {where}) {sql}").df()
    for column in found.select_dtypes("datetimetz"):
        found[column] = found[column].dt.tz_convert(None)
    return found

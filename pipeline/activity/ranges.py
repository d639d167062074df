"""Ranges of time as SQL, in microseconds since 1970: what Spark holds, and free of anybody's time zone."""

from datetime import timedelta
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

SECOND_US: Final = 1_000_000
MINUTE_US: Final = 60 * SECOND_US
MINUTE: Final = timedelta(minutes=1)


def us_of(length: timedelta) -> int:
    """A length of time."""
    return length // timedelta(microseconds=1)


def at(moment_us: int) -> str:
    """A moment as SQL."""
    return f"timestamp_micros({moment_us})"


def between(column: str, first_us: int, last_us: int) -> str:
    """That a column lies in a range, both ends included."""
    return f"{column} >= {at(first_us)} and {column} <= {at(last_us)}"


def bounds(rows: DataFrame, column: str) -> tuple[int, int] | None:
    """The first and last moment in a column; None without rows."""
    moment = F.unix_micros(column)
    [row] = rows.agg(F.min(moment).alias("first"), F.max(moment).alias("last")).collect()
    return None if row.first is None else (row.first, row.last)


def floor(moment_us: int, length: timedelta) -> int:
    """Start of the window of that length in which a moment lies."""
    return moment_us - moment_us % us_of(length)

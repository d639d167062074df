"""From hours of usage to forecasts: one instance at a time, numbers in and rows out. Pure."""

import datetime
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from contracts.advice import ForecastRow, Metric, Model
from contracts.billing import HOUR_MS
from pipeline.advice.judging.forecast import (
    DaysToFull,
    Filling,
    LastWeek,
    Series,
    filling,
    forecast,
    last_week,
    trend_per_hour,
    trimmed,
    without_clean_ups,
)
from pipeline.advice.judging.skew import Columns

HISTORY_H: Final = 28 * 24
COLUMNS: Final = (
    *("hour_ms", "stored_bytes", "produce_peak_5m_bytes_per_s", "consume_peak_5m_bytes_per_s"),
    *("produce_peak_1m_bytes_per_s", "consume_peak_1m_bytes_per_s"),
)
"""What `forecasts` reads: a row per hour."""
_DAY_H: Final = 24


class Forecasts(NamedTuple):
    """Of one instance."""

    rows: tuple[ForecastRow, ...] = ()
    """One per metric."""
    stored_bytes: int = 0
    """What it reported last, else what was stored in the last hour."""
    filling: Filling | None = None
    last_week: LastWeek | None = None


def reported_hours(found: Sequence[tuple[int, bool]], now_ms: int) -> tuple[int, ...]:
    """Starts of the hours that are over and that somebody reported, of (start, is complete).

    The last hour that was reported may have been rolled up while it went on: it is left out unless complete.
    """
    over = sorted((start, complete) for start, complete in found if start + HOUR_MS <= now_ms)
    if over and not over[-1][1] and over[-1][0] == max(found)[0]:
        over.pop()
    return tuple(start for start, _ in over)


def forecasts(
    usage: Columns,
    reported: Sequence[int],
    capacity_bytes: int,
    stored_bytes: int | None,
    instance_id: str,
    run_date: datetime.date,
) -> Forecasts:
    """Of one instance's hours; `stored_bytes` is what it reported last, if anything in the last hours."""
    starts = usage["hour_ms"]
    start_ms = (reported[-1] if reported else int(starts.max())) + HOUR_MS
    rows, fills, before = [], None, None
    stored = stored_bytes or 0
    for metric in Metric:
        is_stored = metric is Metric.STORED
        column = "stored_bytes" if is_stored else f"{metric}_peak_5m_bytes_per_s"
        series = on_grid(starts, usage[column].astype(np.float64), reported)
        found, full = forecast(series), DaysToFull()
        if is_stored:
            kept = trimmed(without_clean_ups(series))
            found = found._replace(trend_per_h=trend_per_hour(kept))
            if stored_bytes is None and len(kept):
                stored = round(float(kept[~np.isnan(kept)][-1]))
            if found.model is not Model.NONE:
                fills, before = filling(kept), last_week(series)
                found = found._replace(trend_per_h=fills.growth_per_h)
                full = fills.days_to_full(stored, capacity_bytes)
        rows.append(
            ForecastRow(
                run_date=run_date,
                instance_id=instance_id,
                metric=metric,
                model=found.model,
                history_hours=found.history_h,
                known_hours=found.known_h,
                start_ms=start_ms,
                expected=_whole(found.expected),
                low=_whole(found.low),
                high=_whole(found.high),
                p995=None if found.p995 is None else round(found.p995),
                trend_per_day=None if found.trend_per_h is None else round(found.trend_per_h * _DAY_H),
                mae=found.mae,
                mae_seasonal_naive=found.mae_seasonal_naive,
                peak=int(usage[column.replace("_5m_", "_1m_")].max()),
                days_to_full=full.expected,
                days_to_full_low=full.low,
                days_to_full_high=full.high,
            )
        )
    return Forecasts(tuple(rows), stored, fills, before)


def on_grid(starts: npt.NDArray[np.int64], values: Series, reported: Sequence[int]) -> Series:
    """One number per hour from the first row to the last reported hour.

    An hour without a row is one of zeros: the instance had no partitions. Where nobody reported, it is
    unknown.
    """
    if not reported or not len(starts) or starts.min() > reported[-1]:
        return np.empty(0)
    first = int(starts.min())
    series = np.full((reported[-1] - first) // HOUR_MS + 1, np.nan)
    known = np.array([start for start in reported if start >= first], dtype=np.int64)
    series[(known - first) // HOUR_MS] = 0.0
    inside = np.isin(starts, known)
    series[(starts[inside] - first) // HOUR_MS] = values[inside]
    return series


def _whole(path: Series) -> list[int]:
    return np.rint(path).astype(np.int64).tolist()  # type: ignore[no-any-return]

"""From rows of `usage_hour` to forecasts: one instance at a time, numbers in and rows out. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from contracts.advice import Metric, Model
from contracts.billing import HOUR_MS
from pipeline.advice.judging.forecast import (
    DaysToFull,
    Forecast,
    Series,
    days_to_full,
    forecast,
    trend_per_hour,
    trimmed,
    without_clean_ups,
)

HISTORY_H: Final = 28 * 24
_DAY_H: Final = 24
_NEVER: Final = DaysToFull(None, None, None)


def reported_hours(found: Sequence[tuple[int, bool]], now_ms: int) -> tuple[int, ...]:
    """Starts of the hours that are over and that somebody reported, of (start, is complete).

    The last hour that was reported may have been rolled up while it went on: it is left out unless complete.
    """
    over = sorted((start, complete) for start, complete in found if start + HOUR_MS <= now_ms)
    if over and not over[-1][1] and over[-1][0] == max(found)[0]:
        over.pop()
    return tuple(start for start, _ in over)


def forecast_rows(
    usage: pd.DataFrame, reported: Sequence[int], capacities: Mapping[str, int]
) -> list[dict[str, Any]]:
    """Rows of `contracts.advice.ForecastRow`, without the run date, of one instance's hours."""
    instance_id = str(usage["instance_id"].iloc[0])
    peaks = {
        Metric.PRODUCE: int(usage["produce_peak_1m_bytes_per_s"].max()),
        Metric.CONSUME: int(usage["consume_peak_1m_bytes_per_s"].max()),
        Metric.STORED: int(usage["stored_bytes"].max()),
    }
    columns = {
        Metric.PRODUCE: "produce_peak_5m_bytes_per_s",
        Metric.CONSUME: "consume_peak_5m_bytes_per_s",
        Metric.STORED: "stored_bytes",
    }
    starts = usage["hour_ms"].to_numpy(dtype=np.int64)
    rows = []
    for metric, column in columns.items():
        series = on_grid(starts, usage[column].to_numpy(dtype=np.float64), reported)
        found = forecast(series)
        full = _NEVER
        if metric is Metric.STORED:
            kept = without_clean_ups(series)
            found = found._replace(trend_per_h=trend_per_hour(trimmed(kept)))
            if found.model is not Model.NONE and instance_id in capacities:
                full = days_to_full(kept, float(capacities[instance_id]))
        start_ms = (reported[-1] if reported else int(starts.max())) + HOUR_MS
        rows.append(_row(instance_id, metric, found, start_ms, peaks[metric], full))
    return rows


def on_grid(starts: Any, values: Series, reported: Sequence[int]) -> Series:
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


def _row(
    instance_id: str, metric: Metric, found: Forecast, start_ms: int, peak: int, full: DaysToFull
) -> dict[str, Any]:
    return {
        "instance_id": instance_id,
        "metric": str(metric),
        "model": str(found.model),
        "history_hours": found.history_h,
        "known_hours": found.known_h,
        "start_ms": start_ms,
        "expected": _whole(found.expected),
        "low": _whole(found.low),
        "high": _whole(found.high),
        "p995": None if found.p995 is None else round(found.p995),
        "trend_per_day": None if found.trend_per_h is None else round(found.trend_per_h * _DAY_H),
        "mae": found.mae,
        "mae_seasonal_naive": found.mae_seasonal_naive,
        "peak": peak,
        "days_to_full": full.expected,
        "days_to_full_low": full.low,
        "days_to_full_high": full.high,
    }


def _whole(path: Series) -> list[int]:
    return np.rint(path).astype(np.int64).tolist()  # type: ignore[no-any-return]

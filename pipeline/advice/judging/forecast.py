"""Forecasts of hourly series: as a week before, with a robust trend where the past proves it better.

A series is an array of one number per hour, oldest first, NaN for hours nobody reported. Its end is the last
complete hour. Pure: numbers in, numbers out.
"""

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from contracts.advice import ENOUGH_HISTORY_HOURS, Model

Series = npt.NDArray[np.float64]

WEEK_H: Final = 168
HORIZON_H: Final = WEEK_H
_DAY_H: Final = 24
_ORIGINS: Final = (WEEK_H, 2 * WEEK_H)
"""Back-tests forecast the weeks that begin this many hours before the end."""
_PAIRS_MIN: Final = 24
"""With fewer slopes a median of them is no trend."""
_BETTER_THAN_NAIVE: Final = 0.9
_KNOWN_SHARE_MIN: Final = 0.5
_LOW: Final = 0.05
_HIGH: Final = 0.95
_TAIL: Final = 0.995
_ERROR_GRID: Final = np.linspace(0.0, 1.0, 101)
_FULL_WITHIN_H: Final = 2 * 365 * _DAY_H
_NOTHING: Final = np.empty(0)
_CLEAN_UP_SHARE: Final = 0.1
_JITTER_H: Final = 2
"""What recurs each week need not come in the very same hour."""


class Forecast(NamedTuple):
    """The forecast of one series; empty arrays where there is not enough of it."""

    model: Model
    history_h: int
    known_h: int
    expected: Series
    low: Series
    high: Series
    p995: float | None
    trend_per_h: float | None
    mae: float | None
    mae_seasonal_naive: float | None


class DaysToFull(NamedTuple):
    """From the end of the series; None: never, or not within two years."""

    expected: float | None
    low: float | None
    high: float | None


def trimmed(series: Series) -> Series:
    """Without the unknown hours before the first known one."""
    known = np.flatnonzero(~np.isnan(series))
    return series[known[0] :] if len(known) else series[:0]


def is_enough(series: Series) -> bool:
    """Whether a trimmed series carries a forecast: two weeks, and most of their hours known."""
    return len(series) >= ENOUGH_HISTORY_HOURS and bool(
        np.count_nonzero(~np.isnan(series)) >= _KNOWN_SHARE_MIN * len(series)
    )


def forecast(series: Series) -> Forecast:
    """The week after the end of a series."""
    series = trimmed(series)
    known_h = int(np.count_nonzero(~np.isnan(series)))
    slope = trend_per_hour(series)
    if not is_enough(series):
        empty = (_NOTHING, _NOTHING, _NOTHING)
        return Forecast(Model.NONE, len(series), known_h, *empty, None, slope, None, None)
    errors = {model: _backtest(series, model) for model in (Model.SEASONAL_NAIVE, Model.SEASONAL_TREND)}
    maes = {model: float(np.mean(np.abs(error))) for model, error in errors.items()}
    naive = maes[Model.SEASONAL_NAIVE]
    model = Model.SEASONAL_NAIVE
    if maes[Model.SEASONAL_TREND] < _BETTER_THAN_NAIVE * naive:
        model = Model.SEASONAL_TREND
    path = _path(series, model)
    grid = np.quantile(errors[model], _ERROR_GRID)
    # A step that took the forecast by surprise is in the path by now: its error must not lift it once more.
    bound = max(float(np.nanmax(series)), float(np.max(path)))
    spread = np.clip(path[:, None] + grid[None, :], 0.0, bound)
    low, high = np.quantile(errors[model], (_LOW, _HIGH))
    return Forecast(
        model,
        len(series),
        known_h,
        expected=path,
        low=np.maximum(path + min(low, 0.0), 0.0),
        high=path + max(high, 0.0),
        p995=float(np.quantile(spread, _TAIL)),
        trend_per_h=slope,
        mae=maes[model],
        mae_seasonal_naive=naive,
    )


def trend_per_hour(series: Series) -> float | None:
    """The Theil-Sen slope of a trimmed series, seasons taken out; None with less than a day.

    The median of the slopes between hours that are whole seasons apart: a week where there are two, else a
    day where there are two, else an hour. Source: Hirsch, Slack & Smith 1982 (the seasonal Kendall slope).
    """
    if len(series) < _DAY_H:
        return None
    season = 1
    if len(series) >= ENOUGH_HISTORY_HOURS:
        season = WEEK_H
    elif len(series) >= 2 * _DAY_H:
        season = _DAY_H
    slopes = season_slopes(series, season)
    return float(np.median(slopes)) if len(slopes) >= _PAIRS_MIN else None


def season_slopes(series: Series, season: int) -> Series:
    """Slopes per hour between all pairs of known hours that are one or more whole seasons apart."""
    table = _by_season(series, season)
    found = []
    for apart in range(1, len(table)):
        rise = (table[apart:] - table[:-apart]) / (apart * season)
        found.append(rise[~np.isnan(rise)])
    return np.concatenate(found) if found else _NOTHING


def without_clean_ups(stored: Series) -> Series:
    """The hours before a clean-up brought down to the level after it: growth and swings as without it.

    A clean-up is a fall by more than a tenth of what was stored, in one hour or some that follow each other,
    which no other week has at that time: what retention takes each night or each Sunday is none.
    """
    rebased = stored.copy()
    known = np.flatnonzero(~np.isnan(stored))
    for first, last in _falls(stored[known]):
        start, end = int(known[first]), int(known[last])
        fall = stored[start] - stored[end]
        if fall > _CLEAN_UP_SHARE * stored[start] and not _recurs(stored, start, end, fall):
            rebased[: start + 1] -= max(fall - _usual_fall(stored, start, end), 0.0)
            inside = rebased[start + 1 : end]
            inside[~np.isnan(inside)] = stored[end]
    return rebased


def _falls(values: Series) -> list[tuple[int, int]]:
    """From the hour before each run of falling hours to its last one."""
    is_falling = np.concatenate([[False], np.diff(values) < 0, [False]])
    edges = np.flatnonzero(is_falling[1:] != is_falling[:-1])
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def _usual_fall(stored: Series, start: int, end: int) -> float:
    """Between the same hours of the other weeks, in the median; negative where they rise."""
    other = [(start + shift, end + shift) for shift in _other_weeks(stored)]
    falls = np.array([stored[a] - stored[b] for a, b in other if a >= 0 and b < len(stored)])
    falls = falls[~np.isnan(falls)]
    return float(np.median(falls)) if len(falls) else 0.0


def _recurs(stored: Series, start: int, end: int, fall: float) -> bool:
    """Whether another week has half of the fall at about that time."""
    for shift in _other_weeks(stored):
        around = stored[max(start + shift - _JITTER_H, 0) : max(end + shift + _JITTER_H + 1, 0)]
        around = around[~np.isnan(around)]
        if len(around) and np.max(np.maximum.accumulate(around) - around) >= fall / 2:
            return True
    return False


def _other_weeks(stored: Series) -> list[int]:
    weeks = len(stored) // WEEK_H + 1
    return [WEEK_H * week for week in range(-weeks, weeks + 1) if week]


def days_to_full(stored: Series, capacity_bytes: float) -> DaysToFull:
    """When stored bytes reach the capacity: at the trend, and at the slopes of fast and slow weeks."""
    stored = trimmed(stored)
    assert is_enough(stored), len(stored)
    weekly = season_slopes(stored[-ENOUGH_HISTORY_HOURS - WEEK_H :], WEEK_H)
    slope = trend_per_hour(stored) or 0.0
    slow, fast = np.quantile(weekly, (_LOW, _HIGH)) if len(weekly) else (slope, slope)
    return DaysToFull(
        _days_until(stored, capacity_bytes, slope),
        _days_until(stored, capacity_bytes, max(slope, float(fast))),
        _days_until(stored, capacity_bytes, min(slope, float(slow))),
    )


def _days_until(stored: Series, capacity_bytes: float, slope: float) -> float | None:
    """The first hour in which the last week, moved along a slope, reaches the capacity; in days."""
    last, weeks_ago = _last_week(stored)
    if last[-1] >= capacity_bytes:
        return 0.0
    level = last + slope * WEEK_H * (weeks_ago - 1)
    growth = slope * WEEK_H
    if growth <= 0:
        reached = np.flatnonzero(level + growth >= capacity_bytes)
        return (int(reached[0]) + 1) / _DAY_H if len(reached) else None
    weeks = np.maximum(np.ceil((capacity_bytes - level) / growth), 1)
    hours = float(np.min(np.arange(1, WEEK_H + 1) + (weeks - 1) * WEEK_H))
    return hours / _DAY_H if hours <= _FULL_WITHIN_H else None


def _path(series: Series, model: Model) -> Series:
    last, weeks_ago = _last_week(series)
    if model is Model.SEASONAL_TREND:
        last = last + (trend_per_week(series) or 0.0) * weeks_ago
    return np.maximum(last, 0.0)


def trend_per_week(series: Series) -> float | None:
    """The rise between hours a week apart, where enough such hours are known."""
    slopes = season_slopes(series, WEEK_H)
    return float(np.median(slopes)) * WEEK_H if len(slopes) >= _PAIRS_MIN else None


def _backtest(series: Series, model: Model) -> Series:
    """What really came less what would have been forecast, over the known hours of the last weeks."""
    errors: list[Any] = []
    for before_end in _ORIGINS:
        past = trimmed(series[:-before_end])
        if len(past) < WEEK_H:
            break
        came = series[len(series) - before_end :][:HORIZON_H]
        errors.append(came - _path(past, model))
    found = np.concatenate(errors)
    found = found[~np.isnan(found)]
    return found if len(found) else np.zeros(1)


def _last_week(series: Series) -> tuple[Series, Series]:
    """Per hour of the week to come: what was known last at that hour of the week, and how many weeks ago.

    Hours of the week that were never known have the median of all.
    """
    table = _by_season(series, WEEK_H)[::-1]
    known = ~np.isnan(table)
    weeks_ago = np.argmax(known, axis=0)
    last = table[weeks_ago, np.arange(WEEK_H)]
    never = ~known.any(axis=0)
    return np.where(never, np.nanmedian(series), last), np.where(never, 1, weeks_ago + 1).astype(np.float64)


def _by_season(series: Series, season: int) -> Series:
    """One row per season, the last one complete; the first is filled up with NaN in front."""
    missing = -len(series) % season
    return np.concatenate([np.full(missing, np.nan), series]).reshape(-1, season)

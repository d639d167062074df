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
_STOPPED_BELOW: Final = 0.5
"""Of a young history: recent growth below this part of the whole one's is what goes on: retention set in."""
_YOUNG_H: Final = 3 * WEEK_H
_SURE_SHARE: Final = 0.2
"""Growth that is less than this part of what slow and fast weeks lie apart is the waves of retention."""
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
    """From now; None: never, or not within two years."""

    expected: float | None = None
    low: float | None = None
    high: float | None = None


class Filling(NamedTuple):
    """How what is stored grows, in bytes per hour and bytes: what days to full are made of."""

    growth_per_h: float
    fast_per_h: float
    """In faster weeks."""
    slow_per_h: float
    swing: float
    """How much more than at the end is stored in the fullest hour of a week."""

    def days_to_full(self, stored: float, capacity: float) -> DaysToFull:
        """(capacity - stored - swing) / growth, at each of the three."""
        room = 0.0 if stored >= capacity else capacity - stored - self.swing
        slopes = (self.growth_per_h, self.fast_per_h, self.slow_per_h)
        return DaysToFull(*(_days(room, slope) for slope in slopes))


def _days(room: float, slope: float) -> float | None:
    if room <= 0:
        return 0.0
    hours = room / slope if slope > 0 else _FULL_WITHIN_H + 1
    return hours / _DAY_H if hours <= _FULL_WITHIN_H else None


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
    which no other week has at that time: what retention takes each night or each Sunday is none. Nor are
    falls that come more often than once a week in the mean: that is retention, by a beat of its own.
    """
    rebased, clean_ups = stored.copy(), []
    known = np.flatnonzero(~np.isnan(stored))
    for first, last in _falls(stored[known]):
        start, end = int(known[first]), int(known[last])
        fall = stored[start] - stored[end]
        if fall > _CLEAN_UP_SHARE * stored[start] and not _recurs(stored, start, end, fall):
            clean_ups.append((start, end, fall))
    if len(clean_ups) * WEEK_H > len(known):
        return rebased
    for start, end, fall in clean_ups:
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


def filling(stored: Series) -> Filling:
    """How it grows, of a series with enough history and without clean-ups."""
    stored = trimmed(stored)
    assert is_enough(stored), len(stored)
    weekly = season_slopes(stored[-ENOUGH_HISTORY_HOURS - WEEK_H :], WEEK_H)
    slope = trend_per_hour(stored) or 0.0
    if len(stored) < _YOUNG_H:
        lately = _lately(stored)
        slope = lately if lately < slope * _STOPPED_BELOW else slope
    slow, fast = np.quantile(weekly, (_LOW, _HIGH)) if len(weekly) else (slope, slope)
    fast, slow = max(slope, float(fast)), min(slope, float(slow))
    if slope < _SURE_SHARE * (fast - slow):
        slope = min(slope, 0.0)
    last, weeks_ago = _last_week(stored)
    hours_ago = weeks_ago * WEEK_H - 1 - np.arange(WEEK_H)
    at_end = stored[~np.isnan(stored)][-1]
    swing = max(float(np.max(last + slope * hours_ago)) - float(at_end), 0.0)
    return Filling(slope, fast, min(slope, slow), swing)


def _lately(stored: Series) -> float:
    """Growth by the days of the last week, or by its last two days and those a week before, if less."""
    two_days_h = 2 * _DAY_H
    of_days = season_slopes(stored[-WEEK_H:], _DAY_H)
    of_weeks = (stored[-two_days_h:] - stored[-WEEK_H - two_days_h : -WEEK_H]) / WEEK_H
    medians = [float(np.median(known)) for each in (of_days, of_weeks) if len(known := each[~np.isnan(each)])]
    return max(min(medians, default=0.0), 0.0)


class LastWeek(NamedTuple):
    """How much more was to be stored in the last week by what was known before it, and how much came."""

    expected_per_h: float
    came_per_h: float


def last_week(stored: Series) -> LastWeek | None:
    """Of what is stored: the same arithmetic a week ago. None with less than three weeks of history."""
    past = trimmed(without_clean_ups(stored[:-WEEK_H]))
    kept = without_clean_ups(stored)
    rises = (kept[-WEEK_H:] - kept[-2 * WEEK_H : -WEEK_H]) / WEEK_H if is_enough(past) else _NOTHING
    rises = rises[~np.isnan(rises)]
    if len(rises) < _PAIRS_MIN:
        return None
    return LastWeek(trend_per_hour(past) or 0.0, float(np.median(rises)))


def _path(series: Series, model: Model) -> Series:
    last, weeks_ago = _last_week(series)
    if model is Model.SEASONAL_TREND and len(slopes := season_slopes(series, WEEK_H)) >= _PAIRS_MIN:
        last = last + np.median(slopes) * WEEK_H * weeks_ago
    return np.maximum(last, 0.0)


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

"""Forecasts of series whose right answer is known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from contracts.advice import Model
from pipeline.advice.judging.forecast import (
    WEEK_H,
    DaysToFull,
    Series,
    filling,
    forecast,
    is_enough,
    last_week,
    season_slopes,
    trend_per_hour,
    trimmed,
    without_clean_ups,
)

MB = 1e6
HOURS = np.arange(4 * WEEK_H, dtype=np.float64)


def days_to_full(stored: Series, capacity: float) -> DaysToFull:
    return filling(stored).days_to_full(float(stored[~np.isnan(stored)][-1]), capacity)


def week_of(hours: Series) -> Series:
    """Busy on working days, quiet at night and on Sundays."""
    day = np.sin(hours % 24 / 24 * 2 * np.pi) + 1.2
    return 10 * MB * day * np.where(hours // 24 % 7 == 6, 0.2, 1.0)


def test_a_steady_series_goes_on() -> None:
    found = forecast(np.full(700, 5 * MB))
    assert found.model is Model.SEASONAL_NAIVE
    assert np.all(found.expected == 5 * MB) and np.all(found.low == 5 * MB) and np.all(found.high == 5 * MB)
    assert found.p995 == 5 * MB
    assert found.trend_per_h == 0 and found.mae == 0


def test_nothing_at_all_stays_nothing() -> None:
    found = forecast(np.zeros(700))
    assert found.model is Model.SEASONAL_NAIVE
    assert found.p995 == 0 and not found.high.any() and found.trend_per_h == 0


def test_a_weekly_season_is_repeated_and_is_no_trend() -> None:
    found = forecast(week_of(HOURS))
    assert found.model is Model.SEASONAL_NAIVE
    assert np.allclose(found.expected, week_of(HOURS[-1] + 1 + np.arange(WEEK_H)))
    assert found.trend_per_h == pytest.approx(0)
    assert found.p995 is not None and found.p995 <= week_of(HOURS).max()
    assert found.p995 > 0.98 * week_of(HOURS).max()


def test_growth_beats_the_week_before_and_is_followed() -> None:
    growing = week_of(HOURS) + 10_000 * HOURS
    found = forecast(growing)
    ahead = HOURS[-1] + 1 + np.arange(WEEK_H)
    assert found.model is Model.SEASONAL_TREND
    assert found.trend_per_h == pytest.approx(10_000)
    assert np.allclose(found.expected, week_of(ahead) + 10_000 * ahead)
    assert found.mae == pytest.approx(0, abs=1e-3)
    assert found.mae_seasonal_naive == pytest.approx(10_000 * WEEK_H)


def test_noise_without_growth_is_not_taken_for_growth() -> None:
    generator = np.random.default_rng(7)
    noisy = week_of(HOURS) + generator.normal(0, MB, len(HOURS))
    found = forecast(noisy)
    assert found.model is Model.SEASONAL_NAIVE
    assert found.trend_per_h == pytest.approx(0, abs=MB / 100)
    came = week_of(HOURS[-1] + 1 + np.arange(WEEK_H)) + generator.normal(0, MB, WEEK_H)
    assert np.mean((came >= found.low) & (came <= found.high)) > 0.85


def test_spikes_do_not_bend_the_trend_but_count_for_the_tail() -> None:
    spiky = np.full(4 * WEEK_H, 2 * MB)
    spiky[50::WEEK_H] = 80 * MB
    found = forecast(spiky)
    assert found.trend_per_h == 0
    assert found.p995 is not None and found.p995 > 50 * MB


def test_after_a_step_the_new_level_counts_within_hours() -> None:
    stepped = np.where(np.arange(4 * WEEK_H) < 4 * WEEK_H - 48, 4 * MB, 40 * MB)
    found = forecast(stepped)
    assert found.p995 == 40 * MB, "and not the surprise of the step on top of the step"


def test_a_step_down_two_weeks_ago_is_over() -> None:
    stepped = np.where(np.arange(4 * WEEK_H) < 2 * WEEK_H, 40 * MB, 4 * MB)
    found = forecast(stepped)
    assert np.all(found.expected == 4 * MB) or found.model is Model.SEASONAL_TREND
    assert found.p995 is not None and found.p995 <= 40 * MB


def test_gaps_are_filled_from_the_weeks_before() -> None:
    holes = week_of(HOURS)
    holes[-30:-5] = np.nan
    holes[100:110] = np.nan
    found = forecast(holes)
    assert np.allclose(found.expected, week_of(HOURS[-1] + 1 + np.arange(WEEK_H)))
    assert found.known_h == 4 * WEEK_H - 35


def test_hours_before_the_first_known_one_are_no_history() -> None:
    late = np.concatenate([np.full(400, np.nan), np.full(300, MB)])
    assert forecast(late).history_h == 300
    assert forecast(late).model is Model.NONE


@pytest.mark.parametrize(("hours", "enough"), [(0, False), (335, False), (336, True)])
def test_two_weeks_are_enough(hours: int, enough: bool) -> None:
    found = forecast(np.full(hours, MB))
    assert (found.model is not Model.NONE) == enough
    assert len(found.expected) == (WEEK_H if enough else 0)
    assert (found.p995 is not None) == enough


def test_two_weeks_that_were_mostly_not_reported_are_not() -> None:
    sparse = np.full(700, np.nan)
    sparse[::3] = MB
    assert not is_enough(trimmed(sparse))


def test_growth_is_told_after_a_day() -> None:
    assert trend_per_hour(np.arange(23.0)) is None
    assert trend_per_hour(3 * np.arange(24.0)) == pytest.approx(3)
    daily = np.sin(np.arange(96) / 24 * 2 * np.pi) * 50
    assert trend_per_hour(daily + 3 * np.arange(96)) == pytest.approx(3)


@given(arrays(np.float64, st.integers(2, 40), elements=st.integers(-1000, 1000).map(float)))
def test_without_a_season_it_is_theil_sen(values: Series) -> None:
    assert np.median(season_slopes(values, 1)) == pytest.approx(stats.theilslopes(values)[0])


@given(arrays(np.float64, (4, 5), elements=st.integers(-1000, 1000).map(float)))
def test_with_a_season_it_is_hirsch_slack_and_smiths(values: Series) -> None:
    [inter] = np.atleast_1d(stats.mstats.sen_seasonal_slopes(values).inter_slope)
    assert np.median(season_slopes(values.ravel(), 5)) * 5 == pytest.approx(inter)


@given(
    arrays(
        np.float64,
        st.integers(0, 3 * WEEK_H),
        elements=st.one_of(st.just(float("nan")), st.integers(0, 10**15).map(float)),
    )
)
def test_any_series_has_a_sane_forecast(values: Series) -> None:
    found = forecast(values)
    if found.model is Model.NONE:
        assert found.p995 is None and len(found.expected) == 0
        return
    for path in (found.expected, found.low, found.high):
        assert len(path) == WEEK_H and np.all(np.isfinite(path)) and np.all(path >= 0)
    assert np.all(found.low <= found.expected) and np.all(found.expected <= found.high)
    assert found.p995 is not None and np.isfinite(found.p995) and found.p995 >= 0
    assert found.mae is not None and found.mae_seasonal_naive is not None
    assert found.mae <= found.mae_seasonal_naive
    full = days_to_full(values, 10**14)
    none_last = [float("inf") if days is None else days for days in (full.low, full.expected, full.high)]
    assert none_last == sorted(none_last) and none_last[0] >= 0


@pytest.mark.parametrize("days", [0.5, 3, 20, 200])
def test_it_fills_up_on_the_day_it_fills_up(days: float) -> None:
    stored = 1e9 + 1e6 * HOURS
    full = days_to_full(stored, stored[-1] + 1e6 * 24 * days)
    assert full.expected == pytest.approx(days)
    assert full.low == pytest.approx(days) and full.high == pytest.approx(days)


def test_uneven_growth_has_a_band_around_the_day() -> None:
    generator = np.random.default_rng(3)
    stored = np.cumsum(generator.gamma(2, 5e5, len(HOURS)))
    full = days_to_full(stored, stored[-1] + 1e6 * 24 * 30)
    assert full.low is not None and full.expected is not None and full.high is not None
    assert full.low < full.expected < full.high
    assert full.expected == pytest.approx(30, rel=0.15)


@pytest.mark.parametrize("growth", [0.0, -1e6])
def test_what_does_not_grow_does_not_fill(growth: float) -> None:
    assert days_to_full(1e9 + growth * HOURS, 2e9).expected is None


def test_growth_that_takes_longer_than_two_years_is_never() -> None:
    assert days_to_full(1e9 + 1.0 * HOURS, 1e12).expected is None


def test_what_is_full_is_full_now() -> None:
    full = days_to_full(np.full(700, 2e9), 2e9)
    assert full == (0.0, 0.0, 0.0)


def test_what_the_fullest_hour_of_a_week_needs_is_kept_free() -> None:
    """A person divides by growth what is free beside it; which hour of the week that is changes nothing."""
    stored = np.full(4 * WEEK_H, 1e9) + 1e6 * HOURS
    stored[40::WEEK_H] += 5e8
    found = filling(stored)
    assert found.swing == pytest.approx(5e8) and found.growth_per_h == pytest.approx(1e6)
    full = days_to_full(stored, stored[-1] + 5e8 + 1e6 * WEEK_H)
    assert full.expected == pytest.approx(7)
    assert days_to_full(stored, stored[-1] + 2e8).expected == 0, "it is reached within the week"


def test_a_young_history_that_retention_has_levelled_is_not_taken_to_go_on() -> None:
    """Two weeks: the first filled it, in the second as much went as came."""
    stored = np.minimum(np.arange(1, 2 * WEEK_H + 1), WEEK_H) * MB
    assert trend_per_hour(stored) == pytest.approx(MB / 2, rel=0.01)
    assert days_to_full(stored, stored[-1] * 2).expected is None


def test_growth_that_is_lost_in_the_waves_of_retention_is_none() -> None:
    waves = 1e9 + 5 * MB * (HOURS % 47)
    slope = trend_per_hour(waves)
    assert slope is not None and slope > 0
    found = filling(waves)
    assert found.growth_per_h == 0 and found.fast_per_h > 5e5
    full = days_to_full(waves, 2e9)
    assert full.expected is None and full.low is not None


def test_what_was_expected_of_the_last_week_is_beside_what_came() -> None:
    told = last_week(1e9 + MB * np.minimum(HOURS, 3 * WEEK_H) + 2 * MB * np.maximum(HOURS - 3 * WEEK_H, 0))
    assert told is not None and told.expected_per_h == pytest.approx(MB)
    assert MB < told.came_per_h <= 2 * MB
    assert last_week(1e9 + MB * HOURS[: 3 * WEEK_H - 1]) is None, "two weeks before it are needed"


def cleaned_up(stored: Series, *, hours_ago: int, left: float, takes_h: int = 1) -> Series:
    """So many hours ago all but `left` was removed, hour by hour."""
    end = len(stored) - hours_ago
    removed = stored[end - 1] - left
    share = np.clip((np.arange(len(stored)) - (end - 1 - takes_h)) / takes_h, 0.0, 1.0)
    return stored - share * removed


def test_after_a_clean_up_what_is_free_lasts_as_long_as_growth_says() -> None:
    """The sentence that contradicted itself: 3.6 MB of 2 GB stored, 33 MB a day more, full in 15 days."""
    stored = cleaned_up(1e9 + 33.3 * MB / 24 * HOURS, hours_ago=30, left=MB)
    kept = without_clean_ups(stored)
    slope = trend_per_hour(kept)
    assert slope is not None and slope * 24 == pytest.approx(33.3 * MB, rel=0.01)
    full = days_to_full(kept, 2e9)
    assert full.expected == pytest.approx((2e9 - stored[-1]) / (33.3 * MB), rel=0.01)
    assert full.expected == pytest.approx(58.7, rel=0.01)


@pytest.mark.parametrize("seed", range(8))
def test_days_to_full_of_histories_with_clean_ups_seasons_and_noise(seed: int) -> None:
    """Back-tested: the error is a few percent, whenever who cleaned up."""
    generator = np.random.default_rng(seed)
    growth = generator.uniform(20, 200) * MB / 24
    swing = growth * 24 * np.sin(HOURS % 24 / 24 * 2 * np.pi)
    stored = 40 * growth * 24 + growth * HOURS + swing + generator.normal(0, growth, len(HOURS))
    for hours_ago in sorted(generator.integers(1, 500, 2), reverse=True):
        left = stored[-hours_ago] * generator.uniform(0.0, 0.4)
        stored = cleaned_up(
            stored, hours_ago=int(hours_ago), left=left, takes_h=int(generator.integers(1, 4))
        )
    days = generator.uniform(20, 200)
    full = days_to_full(without_clean_ups(stored), stored[-1] + growth * 24 * days)
    assert full.expected == pytest.approx(days, rel=0.1)


def test_a_saw_tooth_of_any_beat_is_no_clean_up() -> None:
    """Segments of two days and two hours go at once: at another hour of each week."""
    stored = 1e9 + 2e7 * (HOURS % 50)
    assert np.array_equal(without_clean_ups(stored), stored)


def test_what_falls_each_week_is_no_clean_up() -> None:
    """A peak that retention takes away again, each week an hour earlier or later, fills it as it did."""
    stored = np.full(4 * WEEK_H, 1e9) + 1e6 * HOURS
    for week, late in enumerate((0, 1, -1, 0)):
        stored[week * WEEK_H + 40 + late] += 5e8
    assert np.array_equal(without_clean_ups(stored), stored)
    night = 1e9 + 4e8 * np.sin(HOURS % 24 / 24 * 2 * np.pi)
    assert np.array_equal(without_clean_ups(night), night)


@given(
    arrays(
        np.float64,
        st.integers(0, 3 * WEEK_H),
        elements=st.one_of(st.just(float("nan")), st.integers(0, 10**15).map(float)),
    )
)
def test_a_series_without_its_clean_ups_ends_as_it_does(values: Series) -> None:
    kept, known = without_clean_ups(values), ~np.isnan(values)
    assert np.array_equal(np.isnan(kept), ~known)
    assert np.all(kept[known] <= values[known])
    assert np.array_equal(kept[known][-1:], values[known][-1:])

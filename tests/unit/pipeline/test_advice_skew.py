"""Pmin/Pmax, usable share, and what of it lasts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.advice.judging.skew import Floats, since_last_move, skew, usable_share

NAN = float("nan")


def led_evenly(carried: Floats) -> Floats:
    return np.where(np.isnan(carried), np.nan, 1.0)


def test_an_even_split_is_wholly_usable() -> None:
    found = skew(np.full((3, 3), 30.0), np.zeros((3, 3)), np.ones((3, 3)))
    assert found.p_ratio.tolist() == [1, 1, 1] and found.usable_share.tolist() == [1, 1, 1]
    assert (found.p_ratio_min, found.share_of_time_uneven, found.lasting_usable_share) == (1, 0, 1)


def test_a_hot_broker() -> None:
    carried = np.array([[60.0, 20.0, 10.0], [30.0, 30.0, 30.0]])
    found = skew(carried, np.zeros((2, 3)), np.ones((2, 3)))
    assert found.p_ratio.tolist() == pytest.approx([1 / 6, 1])
    assert found.usable_share.tolist() == [0.5, 1]
    assert found.p_ratio_min == pytest.approx(1 / 6)
    assert found.share_of_time_uneven == 0.5
    assert found.lasting_usable_share == pytest.approx((90 + 50 + 40) / 3 / 90)


def test_only_windows_in_which_clients_were_held_back_count_where_there_are_any() -> None:
    carried = np.array([[60.0, 20.0, 10.0], [30.0, 30.0, 30.0]])
    found = skew(carried, np.array([[100.0, 0, 0], [0, 0, 0]]), np.ones((2, 3)))
    assert found.lasting.tolist() == [True, False]
    assert found.lasting_usable_share == 0.5


def test_a_silent_broker_that_leads_is_a_zero_and_one_that_leads_nothing_is_not() -> None:
    silent = skew(np.array([[60.0, 0.0]]), np.zeros((1, 2)), np.array([[1.0, 1.0]]))
    assert silent.p_ratio.tolist() == [0] and silent.lasting_usable_share == 0.5
    alone = skew(np.array([[60.0, NAN]]), np.zeros((1, 2)), np.array([[1.0, 0.0]]))
    assert alone.p_ratio.tolist() == [1] and alone.lasting_usable_share == 1


def test_a_hot_spot_that_wanders_is_uneven_but_does_not_last() -> None:
    carried = np.array([[90.0, 0.0, 0.0], [0.0, 90.0, 0.0], [0.0, 0.0, 90.0]])
    found = skew(carried, np.full((3, 3), 50.0), np.ones((3, 3)))
    assert found.share_of_time_uneven == 1 and found.lasting_usable_share == 1


def test_windows_without_traffic_say_nothing() -> None:
    found = skew(np.array([[0.0, 0.0], [10.0, 10.0]]), np.zeros((2, 2)), np.ones((2, 2)))
    assert np.isnan(found.p_ratio[0]) and found.p_ratio[1] == 1
    assert found.share_of_time_uneven == 0


def test_no_traffic_and_no_windows() -> None:
    for windows in (0, 2):
        found = skew(np.zeros((windows, 2)), np.zeros((windows, 2)), np.ones((windows, 2)))
        assert found.p_ratio_min is None and found.share_of_time_uneven is None
        assert found.lasting_usable_share is None
    nobody = skew(np.zeros((0, 0)), np.zeros((0, 0)), np.zeros((0, 0)))
    assert nobody.lasting_usable_share is None


def test_what_was_before_leaders_moved_does_not_count() -> None:
    led = np.array([[3.0, 0.0], [3.0, 0.0], [2.0, 1.0], [2.0, 1.0]])
    assert since_last_move(led).tolist() == [False, False, True, True]
    carried = np.array([[90.0, NAN], [90.0, NAN], [50.0, 40.0], [50.0, 40.0]])
    found = skew(carried, np.zeros((4, 2)), led)
    assert found.lasting_usable_share == pytest.approx(0.9)


def test_a_window_without_a_report_is_no_move() -> None:
    led = np.array([[1.0, 2.0], [NAN, 2.0], [1.0, 2.0]])
    assert since_last_move(led).all()


def test_a_broker_that_is_gone_leads_nothing() -> None:
    led = np.array([[1.0, 2.0], *[[NAN, 3.0]] * 5])
    assert since_last_move(led).tolist() == [False, *[True] * 5]
    carried = np.array([[50.0, 50.0], *[[NAN, 70.0]] * 5])
    assert skew(carried, np.zeros((6, 2)), led).lasting_usable_share == 1


@given(
    st.integers(1, 6).flatmap(
        lambda points: st.lists(
            st.lists(st.integers(0, 10**12).map(float), min_size=points, max_size=points),
            min_size=1,
            max_size=20,
        )
    )
)
def test_against_plain_python(rows: list[list[float]]) -> None:
    carried = np.array(rows)
    found = skew(carried, np.zeros_like(carried), np.ones_like(carried))
    for position, row in enumerate(rows):
        if sum(row) == 0:
            assert np.isnan(found.p_ratio[position]) and np.isnan(found.usable_share[position])
        else:
            assert found.p_ratio[position] == pytest.approx(min(row) / max(row))
            assert found.usable_share[position] == pytest.approx(sum(row) / len(row) / max(row))
    per_point = [sum(column) for column in zip(*rows, strict=True)]
    assert found.lasting_usable_share == (
        None if max(per_point) == 0 else pytest.approx(sum(per_point) / len(per_point) / max(per_point))
    )


@given(st.lists(st.floats(0, 1e12), min_size=1, max_size=12))
def test_usable_share_is_between_an_even_part_and_all(loads: list[float]) -> None:
    share = usable_share(loads)
    assert share is None or 1 / len(loads) - 1e-9 <= share <= 1 + 1e-9

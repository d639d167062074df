"""Steps of sizes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.advice.judging.ladder import capacity_for, rate_for, with_headroom

MB = 10**6


@pytest.mark.parametrize(
    ("need", "rate"),
    [
        (0, 100_000),
        (76_923, 100_000),
        (76_924, 200_000),
        (7 * MB, 10 * MB),
        (10 * MB, 20 * MB),
        (16 * MB, 40 * MB),
        (1_230 * MB, 1_600 * MB),
        (1_231 * MB, 1_800 * MB),
        (1_400 * MB, 2_000 * MB),
    ],
)
def test_rates(need: int, rate: int) -> None:
    assert rate_for(need) == rate


@pytest.mark.parametrize(
    ("need", "capacity"),
    [(0, 10**9), (10**9, 2 * 10**9), (70 * 10**9, 100 * 10**9), (800 * 10**9, 1_500 * 10**9)],
)
def test_capacities(need: int, capacity: int) -> None:
    assert capacity_for(need) == capacity


@given(st.integers(0, 10**13))
def test_a_step_holds_the_need_with_headroom_and_is_no_larger_for_a_smaller_need(need: int) -> None:
    assert 10 * with_headroom(need) >= 13 * need > 10 * (with_headroom(need) - 1)
    for step in (rate_for, capacity_for):
        assert step(need) >= with_headroom(need)
        assert step(need // 2) <= step(need)

"""Policy `fair`: what is wanted, the water level, and rises that wait for falls."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.quota_view import Rule
from master.quota.demand import WANTED_MAX, Demand, Sample, expected, waited_ms
from master.quota.fair import fair, water_level

T = 90_000_000


def demand(
    wanted: int | None,
    applied: int = 30_000_000,
    rate: int | None = None,
    *,
    age_ms: int = 0,
    waited: int = 0,
    partitions: int = 1,
) -> Demand:
    """`wanted` None: held back all the time."""
    carried = min(applied, wanted if wanted is not None else applied)
    return Demand(
        weight=partitions,
        rate_per_s=carried if rate is None else rate,
        wanted_per_s=WANTED_MAX if wanted is None else wanted,
        applied_per_s=applied,
        age_ms=age_ms,
        window_ms=1_000,
        waited_ms=waited,
    )


def idle(applied: int = 30_000_000, age_ms: int = 0) -> Demand:
    return demand(0, applied, age_ms=age_ms)


@pytest.mark.parametrize(
    ("total", "wants", "level"),
    [
        (90, [200, 20, 20], 50),
        (90, [200, 200, 10], 40),
        (90, [30, 30, 30], 30),
        (90, [10, 20, 30], 30),
        (90, [0, 0, 0], 0),
        (90, [90, 90, 90], 30),
        (1, [5, 5], 0),
    ],
)
def test_water_level(total: int, wants: list[int], level: int) -> None:
    assert water_level(total, wants) == level


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 10**9), st.lists(st.integers(0, 10**9), min_size=1, max_size=24))
def test_water_level_shares_out_all_there_is(total: int, wants: list[int]) -> None:
    shared = sum(min(want, water_level(total, wants)) for want in wants)
    assert shared <= total
    assert shared > total - len(wants) or shared == sum(wants)


def test_nobody_wants_much_is_the_static_share() -> None:
    result = fair(T, [demand(23_000_000), idle(), idle()])
    assert (result.rule, result.rates) == (Rule.BELOW_GATE, result.shares)


def test_one_that_waits_gets_at_once_what_the_others_reported_they_do_not_use() -> None:
    result = fair(T, [demand(None, waited=700), idle(age_ms=300), idle(age_ms=600)])
    assert result.rule is Rule.LEVEL
    assert result.rates[0] == T


def test_of_one_not_heard_of_since_half_of_what_it_may_use_is_kept() -> None:
    result = fair(T, [demand(None, waited=200), idle(age_ms=300), idle(age_ms=600)])
    # T + headroom - half of 30 twice + three quarters of what that is above the others' targets, as the room
    assert 60_000_000 < result.rates[0] < T


def test_what_was_carried_for_half_a_window_is_expected_twice() -> None:
    half = demand(10_000_000, age_ms=500)
    full = demand(10_000_000, age_ms=0)
    more, less = (fair(T, [demand(None, waited=1_000), other, idle()]).rates[0] for other in (full, half))
    assert more > less


def test_a_rise_waits_for_a_fall_but_for_a_part_of_it() -> None:
    hot, waking = demand(None, T, waited=60_000), demand(None, 4_000_000, waited=900)
    result = fair(T, [hot, waking, idle(4_000_000, age_ms=100)])
    assert result.rates[0] == T // 2, "the fall is at once"
    assert 4_000_000 < result.rates[1] < T // 2, "the rise has to wait for it"
    fallen = fair(T, [hot._replace(applied_per_s=T // 2), waking, idle(4_000_000, age_ms=100)])
    assert fallen.rates[1] == T // 2


def test_those_below_the_level_may_grow_by_a_twentieth() -> None:
    result = fair(T, [demand(None, 60_000_000, waited=9_000), demand(15_000_000), demand(15_000_000)])
    assert result.rates == (60_000_000, 19_500_000, 19_500_000)


def test_what_is_left_goes_in_proportion() -> None:
    result = fair(T, [demand(60_000_000, 80_000_000), demand(15_000_000), idle()])
    assert result.rule is Rule.ROOM
    assert result.rates == (76_500_000, 22_500_000, 4_500_000)


demands = st.lists(
    st.builds(
        Demand,
        weight=st.integers(1, 300),
        rate_per_s=st.integers(0, 10**9),
        wanted_per_s=st.integers(0, 10**9) | st.just(WANTED_MAX),
        applied_per_s=st.integers(0, 10**9),
        age_ms=st.integers(0, 3_000),
        window_ms=st.integers(100, 10_000),
        waited_ms=st.integers(0, 60_000),
    ),
    min_size=1,
    max_size=24,
)


@settings(max_examples=300, deadline=None)
@given(st.integers(100_000, 10**9), demands)
def test_bounds(purchased: int, given_demands: list[Demand]) -> None:
    result = fair(purchased, given_demands)
    for rate, each in zip(result.rates, given_demands, strict=True):
        assert 0 <= rate <= max(purchased, each.applied_per_s)
    settled = given_demands
    for _ in range(30):
        rates = fair(purchased, settled).rates
        settled = [each._replace(applied_per_s=q) for each, q in zip(settled, rates, strict=True)]
    headrooms = sum(min(purchased // 20, share) for share in result.shares)
    assert sum(fair(purchased, settled).rates) <= purchased + headrooms, "once all that may use it have it"


def sample(rate: int, throttled_ms: int = 0, window_ms: int = 1_000) -> Sample:
    return Sample(rate, throttled_ms, window_ms)


@pytest.mark.parametrize(
    ("recent", "wanted"),
    [
        ((), 0),
        ((sample(10),), 10),
        ((sample(10, 500),), 20),
        ((sample(10, 5_000, 10_000),), 20),
        ((sample(10, 1_000),), WANTED_MAX),
        ((sample(90), sample(100), sample(110)), 100),
        ((sample(10), sample(100), sample(110)), 110),
        ((sample(100), sample(100), sample(100, 200)), 125),
        ((sample(80), sample(0), sample(80), sample(0)), 80),
        ((sample(0), sample(80), sample(0)), 0),
        ((sample(80), sample(80), sample(0), sample(0)), 0),
    ],
)
def test_expected(recent: tuple[Sample, ...], wanted: int) -> None:
    assert expected(recent) == wanted


def test_waiting_adds_up_over_windows_without_a_break() -> None:
    assert waited_ms(()) == 0
    assert waited_ms((sample(1, 0), sample(1, 300))) == 300
    assert waited_ms((sample(1, 0), sample(1, 300), sample(1, 950), sample(1, 1_000))) == 2_250
    assert waited_ms((sample(1, 1_000), sample(1, 0))) == 0

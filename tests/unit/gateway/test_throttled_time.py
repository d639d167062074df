"""For how long a connection was told to wait: each moment once, and none before it came."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.session.throttled_time import ThrottledTime


def test_waits_that_overlap_count_once_and_what_is_to_come_does_not_yet() -> None:
    time = ThrottledTime()
    time.told(1_000, 10_000)
    assert time.total_ms(10_400) == 400
    time.told(1_000, 10_400)  # the answer behind it says nearly the same
    assert time.total_ms(11_400) == 1_400
    time.told(100, 20_000)
    assert [time.total_ms(at_ms) for at_ms in (20_000, 20_050, 30_000)] == [1_400, 1_450, 1_500]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 80)), max_size=30))
def test_it_is_the_moments_in_which_some_wait_ran(told: list[tuple[int, int]]) -> None:
    time, now_ms, moments = ThrottledTime(), 1_000_000, set[int]()
    for pause_ms, throttle_ms in told:
        now_ms += pause_ms
        time.told(throttle_ms, now_ms)
        moments |= set(range(now_ms, now_ms + throttle_ms))
        assert time.total_ms(now_ms) == sum(at_ms < now_ms for at_ms in moments)
    assert time.total_ms(now_ms + 100) == len(moments)

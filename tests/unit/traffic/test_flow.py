"""Meter and bucket: exact arithmetic, debts, tickets."""

from hypothesis import given, settings
from hypothesis import strategies as st

from traffic.flow import BURST_MS, REPORTED_THROTTLE_MS_MAX, Flow


def flow_at(rate: int, now_ms: int = 0) -> Flow:
    flow = Flow()
    flow.set_rate(rate, now_ms)
    return flow


def test_starts_with_a_full_burst() -> None:
    flow = flow_at(1_000_000)
    assert flow.charge(250_000, 0) == 0
    assert flow.charge(1, 0) == 1, "one byte beyond the burst costs a millisecond, rounded up"


def test_throttle_is_the_time_until_the_debt_is_paid() -> None:
    flow = flow_at(5_000_000)
    assert flow.charge(1_250_000 + 1_000_000, 0) == 200
    assert flow.unmute_at_ms(0) == 200
    assert flow.unmute_at_ms(199) == 200
    assert flow.unmute_at_ms(200) == 200
    assert flow.unmute_at_ms(500) == 500


def test_reported_throttle_is_capped_but_the_debt_is_not() -> None:
    flow = flow_at(1_000)
    assert flow.charge(1_000_250, 0) == REPORTED_THROTTLE_MS_MAX
    assert flow.unmute_at_ms(30_000) == 1_000_000


def test_new_rate_moves_the_end_of_the_debt_and_keeps_the_debt() -> None:
    flow = flow_at(1_000_000)
    flow.charge(2_250_000, 0)
    assert flow.unmute_at_ms(0) == 2_000
    assert flow.set_rate(2_000_000, 1_000)
    assert flow.unmute_at_ms(1_000) == 1_500
    assert flow.set_rate(500_000, 1_000)
    assert flow.unmute_at_ms(1_000) == 3_000
    assert not flow.set_rate(500_000, 1_100)


def test_lower_rate_shrinks_a_saved_up_burst() -> None:
    flow = flow_at(1_000_000)
    flow.set_rate(100_000, 0)
    assert flow.charge(25_000, 0) == 0
    assert flow.charge(1_000, 0) == 10


def test_unlimited_only_counts() -> None:
    flow = Flow()
    assert flow.charge(10**9, 0) == 0
    assert flow.used == 10**9 and flow.requests == 1
    assert flow.unmute_at_ms(7) == 7


def test_throttled_time_is_the_time_in_debt_not_the_sum_of_throttles() -> None:
    flow = flow_at(1_000_000)
    for _ in range(10):
        flow.charge(125_000, 0)
    flow.settle(600)
    assert flow.throttled_ms == 600
    flow.settle(5_000)
    assert flow.throttled_ms == 1_000
    flow.charge(350_000, 10_000)
    flow.settle(10_050)
    assert flow.throttled_ms == 1_050


def test_clock_that_steps_back_earns_nothing_twice() -> None:
    flow = flow_at(1_000_000, 1_000)
    flow.charge(1_250_000, 1_000)
    flow.settle(1_500)
    flow.settle(500)
    flow.settle(1_500)
    assert flow.unmute_at_ms(1_500) == 2_000


def test_tickets_are_due_in_the_order_of_their_charges() -> None:
    flow = flow_at(1_000_000)
    flow.charge(250_000, 0)
    tickets = []
    for _ in range(3):
        flow.charge(100_000, 0)
        tickets.append(flow.ticket)
    assert [flow.unmute_at_ms(0, ticket) for ticket in tickets] == [100, 200, 300]
    flow.charge(100_000, 100)
    assert [flow.unmute_at_ms(100, ticket) for ticket in tickets] == [100, 200, 300]
    assert flow.unmute_at_ms(100) == 400


def test_debt_of_the_run_before_is_resumed() -> None:
    flow = flow_at(1_000_000)
    flow.resume(500_000)
    assert flow.unmute_at_ms(0) == 500
    assert flow.debt == 500_000


steps = st.lists(
    st.tuples(st.integers(0, 2_000), st.integers(1, 3_000_000), st.integers(1, 10_000_000) | st.none()),
    max_size=40,
)


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 10_000_000), steps)
def test_nobody_who_obeys_gets_more_than_rate_and_burst(
    rate: int, plan: list[tuple[int, int, int | None]]
) -> None:
    """One connection that waits until it may go on: bytes <= earned + burst + one request."""
    flow = flow_at(rate)
    now, earned, largest_burst, largest = 0, 0, rate * BURST_MS, 0
    for wait_ms, size, new_rate in plan:
        then = max(now + wait_ms, flow.unmute_at_ms(now))
        earned += (then - now) * rate
        now = then
        if new_rate is not None:
            flow.set_rate(new_rate, now)
            rate = new_rate
            largest_burst = max(largest_burst, rate * BURST_MS)
        assert flow.unmute_at_ms(now) == now
        throttle = flow.charge(size, now)
        largest = max(largest, size)
        assert 0 <= throttle <= REPORTED_THROTTLE_MS_MAX
        assert flow.used * 1000 <= earned + largest_burst + largest * 1000
        assert flow.throttled_ms <= now

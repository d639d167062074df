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
    flow.resume(-500_000)
    assert flow.unmute_at_ms(0) == 500
    assert flow.debt == 500_000


def test_a_restart_earns_no_burst() -> None:
    flow = flow_at(1_000_000)
    flow.resume(0)
    assert flow.charge(1_000, 0) == 1
    assert flow.charge(0, 250) == 0, "it fills as time passes"


def test_a_small_rate_has_a_burst_all_the_same_where_one_is_given() -> None:
    flow = Flow(1_000, 50_000)
    flow.set_rate(1_000, 0)
    assert flow.charge(50_000, 0) == 0
    assert flow.charge(1_000, 0) == 1_000
    assert flow.charge(0, 60_000) == 0 and flow.balance == 50_000, "and no more than that"
    flow.set_rate(200_000, 60_000)
    assert flow.charge(0, 70_000) == 0 and flow.balance == 200_000


def test_a_restart_goes_on_with_what_was_saved_up() -> None:
    flow = flow_at(1_000_000)
    flow.resume(100_000)
    assert flow.balance == 100_000 and flow.debt == 0
    flow.resume(10**9)
    assert flow.balance == 250_000


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


def test_frames_reserved_at_one_moment_are_carried_one_after_the_other() -> None:
    flow = flow_at(100_000)
    flow.charge(25_000, 0)
    tickets = [flow.reserve(50_000, 0) for _ in range(500)]
    assert [flow.unmute_at_ms(0, ticket) for ticket in tickets] == [500 * number for number in range(500)]
    assert flow.used == 25_000, "what is reserved is not carried yet"


def test_a_carried_reservation_is_due_when_it_is_paid_itself() -> None:
    flow = flow_at(100_000)
    flow.charge(25_000, 0)
    first, second = flow.reserve(50_000, 0), flow.reserve(50_000, 0)
    assert first is not None and second is not None
    paid = flow.carry(first, 50_000, 50_000, 0)
    assert (flow.used, flow.requests) == (75_000, 2)
    assert flow.unmute_at_ms(0, paid) == flow.unmute_at_ms(0, second) == 500


def test_a_withdrawn_reservation_lets_nobody_through() -> None:
    """Else a request could be followed by a reservation without a frame, and its debt were gone."""
    flow = flow_at(100_000)
    flow.charge(125_000, 0)
    ticket = flow.ticket
    assert flow.reserve(10_000_000, 0) == ticket
    flow.release(10_000_000, 0)
    assert flow.unmute_at_ms(0, ticket) == flow.unmute_at_ms(0) == 1_000


def test_a_larger_answer_than_was_reserved_is_charged_in_full() -> None:
    flow = flow_at(100_000)
    flow.charge(25_000, 0)
    ticket = flow.reserve(10_000, 0)
    assert ticket is not None
    assert flow.unmute_at_ms(0, flow.carry(ticket, 10_000, 60_000, 0)) == 600
    assert flow.unmute_at_ms(0) == 600


def test_overhead_is_owed_but_not_billed() -> None:
    flow = flow_at(100_000)
    assert flow.spend(125_000, 0) == 1_000
    assert (flow.used, flow.overhead, flow.requests) == (0, 125_000, 0)


def test_nothing_is_reserved_without_a_limit() -> None:
    assert Flow().reserve(10**9, 0) is None


@given(
    st.lists(st.tuples(st.integers(1, 200_000), st.booleans(), st.integers(0, 50)), min_size=20, max_size=80)
)
@settings(max_examples=200)
def test_reservations_let_through_what_the_rate_allows(frames: list[tuple[int, bool, int]]) -> None:
    """Frames of any sizes, some withdrawn while they wait, each carried when its ticket is due."""
    rate, now_ms, carried = 100_000, 0, 0
    flow = flow_at(rate)
    waiting: list[tuple[int, int, bool]] = []
    for size, withdrawn, pause_ms in frames:
        ticket = flow.reserve(size, now_ms)
        assert ticket is not None
        waiting.append((ticket, size, withdrawn))
        now_ms += pause_ms
        for each in list(waiting):
            if each[2]:
                flow.release(each[1], now_ms)
                waiting.remove(each)
            elif flow.unmute_at_ms(now_ms, each[0]) <= now_ms:
                assert carried <= rate * (now_ms + BURST_MS) // 1000
                flow.carry(each[0], each[1], each[1], now_ms)
                carried += each[1]
                waiting.remove(each)

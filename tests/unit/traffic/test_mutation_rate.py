"""A bucket of partition mutations that is one number: the time at which it is full."""

from hypothesis import given
from hypothesis import strategies as st

from traffic.mutation_rate import WINDOWS, MutationRate

S = 1_000_000
TEN = MutationRate(10)


def test_a_full_bucket_holds_eleven_seconds_of_the_rate() -> None:
    full_at = TEN.charged(0, 10 * WINDOWS, 5 * S)
    assert TEN.wait_us(full_at, 5 * S) == 0
    assert TEN.wait_us(TEN.charged(full_at, 1, 5 * S), 5 * S) == S // 10


def test_what_is_larger_than_the_bucket_is_paid_for_afterwards() -> None:
    full_at = TEN.charged(0, 1_000, 0)
    assert TEN.wait_us(full_at, 0) == 100 * S - 11 * S
    assert TEN.wait_us(full_at, 89 * S) == 0


def test_a_bucket_gains_nothing_beyond_full() -> None:
    assert TEN.charged(3 * S, 10, 1_000 * S) == 1_001 * S


def test_what_came_to_nothing_is_given_back() -> None:
    full_at = TEN.charged(0, 500, 0)
    assert TEN.given_back(TEN.charged(full_at, 70, 2 * S), 70) == full_at


def test_machines_have_the_rate_in_parts_and_a_whole_burst_each() -> None:
    half = MutationRate(10, workers_here=2, workers=4)
    full_at = half.charged(0, 110, 0)
    assert half.wait_us(full_at, 0) == 0
    assert half.wait_us(half.charged(full_at, 10, 0), 0) == 2 * S


@given(
    st.integers(1, 10_000),
    st.lists(st.tuples(st.integers(1, 300), st.integers(0, 2 * S)), min_size=1, max_size=60),
)
def test_who_asks_only_out_of_debt_gets_the_rate_and_one_burst(
    rate: int, asked: list[tuple[int, int]]
) -> None:
    """As a strict client does: no more than the rate, a burst, and the one request that went into debt."""
    bucket, full_at, now, had = MutationRate(rate), 0, 0, 0
    for partitions, later in asked:
        now += later
        if bucket.wait_us(full_at, now) == 0:
            full_at = bucket.charged(full_at, partitions, now)
            had += partitions
    largest = max(partitions for partitions, _ in asked)
    rounding = len(asked) * rate // S + 1  # each charge is cut to whole microseconds
    assert had <= rate * now // S + 1 + bucket.burst + largest + rounding

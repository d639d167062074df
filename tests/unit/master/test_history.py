"""The last hour: resolutions, flat stretches, brokers that come and go."""

from collections.abc import Sequence

from master.quota.history import COARSE_SPAN_MS, FINE_SPAN_MS, InstanceHistory, Row

START_MS = 1_700_000_000_000


def row(*rates: int, stored: int = 0, blocked: bool = False, first_node: int = 1) -> Row:
    brokers: dict[int, Sequence[int]] = {
        node_id: (rate, 1, 2, 3, 4, rate + 1, 5, 6, 7, 8)
        for node_id, rate in enumerate(rates, start=first_node)
    }
    return Row(stored, blocked, brokers)


def test_columns_come_back_as_they_went_in() -> None:
    history = InstanceHistory()
    history.record(START_MS, row(10, stored=2**40, blocked=True))
    view = history.view(0)
    assert view.at_ms == [START_MS] and view.stored_bytes == [2**40] and view.blocked == [True]
    (broker,) = view.brokers
    assert broker.produce.rate_per_s == [10] and broker.consume.rate_per_s == [11]
    assert broker.produce.throttled_ms_per_s == [4] and broker.consume.allocated_per_s == [7]


def test_flat_stretches_keep_their_two_ends() -> None:
    history = InstanceHistory()
    for second in range(300):
        history.record(START_MS + second * 1_000, row(5))
    history.record(START_MS + 300_000, row(6))
    view = history.view(START_MS)
    assert view.at_ms == [START_MS, START_MS + 299_000, START_MS + 300_000]
    assert view.brokers[0].produce.rate_per_s == [5, 5, 6]
    flat = history.view(START_MS + 100_000)
    assert flat.at_ms[0] == START_MS + 100_000, "what held at the start of the window is shown"


def test_a_broker_that_was_not_there_is_none() -> None:
    history = InstanceHistory()
    history.record(START_MS, row(1))
    history.record(START_MS + 1_000, row(2, 3))
    history.record(START_MS + 2_000, row(4, first_node=2))
    view = history.view(0)
    assert [broker.produce.rate_per_s for broker in view.brokers] == [[1, 2, None], [None, 3, 4]]


def test_an_hour_in_bounded_memory_fine_then_coarse() -> None:
    history = InstanceHistory()
    seconds = 2 * COARSE_SPAN_MS // 1_000
    for second in range(seconds):
        history.record(START_MS + second * 1_000, row(second))
    end_ms = START_MS + (seconds - 1) * 1_000
    view = history.view(end_ms - COARSE_SPAN_MS)
    assert view.at_ms == sorted(set(view.at_ms))
    assert view.at_ms[0] <= end_ms - COARSE_SPAN_MS + 10_000
    fine = [at for at in view.at_ms if at >= end_ms - FINE_SPAN_MS]
    assert len(fine) == FINE_SPAN_MS // 1_000 + 1
    assert len(view.at_ms) < 1_100
    rates = view.brokers[0].produce.rate_per_s
    assert len(rates) == len(view.at_ms) and rates == sorted(rate for rate in rates if rate is not None)


def test_values_beyond_a_column_are_shown_as_its_largest() -> None:
    history = InstanceHistory()
    history.record(START_MS, row(10**12))
    assert history.view(0).brokers[0].produce.rate_per_s == [2**32 - 2]


def test_wall_clock_set_back_starts_anew() -> None:
    history = InstanceHistory()
    history.record(START_MS, row(1))
    history.record(START_MS - 60_000, row(2))
    assert history.view(0).at_ms == [START_MS - 60_000]

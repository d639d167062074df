"""One instance's flood of InitProducerId takes no ids from others."""

from broker.coordinators.producer_id_rates import IDS_AT_ONCE, IDS_PER_S, ProducerIdRates

MINE, OTHERS = "iaaaaaaaaaaa", "ibbbbbbbbbbb"


def test_a_fleet_may_start_at_once_and_a_flood_gets_its_rate() -> None:
    rates = ProducerIdRates()
    assert sum(rates.allow(MINE, 0) for _ in range(10 * IDS_AT_ONCE)) == IDS_AT_ONCE
    assert rates.refused == 9 * IDS_AT_ONCE
    assert rates.allow(OTHERS, 0)
    drawn = sum(rates.allow(MINE, now_ms) for now_ms in range(1, 10_001))
    assert drawn == 10 * IDS_PER_S
    assert sum(rates.allow(MINE, 3_600_000) for _ in range(2 * IDS_AT_ONCE)) == IDS_AT_ONCE


def test_who_asks_for_nobody_in_particular_is_not_bounded() -> None:
    rates = ProducerIdRates()
    assert all(rates.allow(None, 0) for _ in range(2 * IDS_AT_ONCE))
    assert len(rates) == 0


def test_instances_that_rest_are_forgotten() -> None:
    rates = ProducerIdRates()
    for number in range(5_000):
        assert rates.allow(f"i{number:011}", 1_000 * number)
    assert len(rates) <= 1_000

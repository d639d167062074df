"""Costs of the month that goes on, worked by hand."""

import datetime as dt
from decimal import Decimal

import msgspec

from contracts.billing import DAY_MS, HOUR_MS, Dimension
from contracts.prices import Prices, parse_prices
from tenants.rules.costs import RECENT_MS, Costs, Lived, Why, costs, first_asked_ms, limits_minor, month_of
from tenants.rules.counted_usage import CountedHour, Measured, hour_of

GB = 10**9
HEAD = 'currency = "USD"\nminor_unit_digits = 2\neffective_from = 1970-01-01\n'
PRICES = parse_prices(
    f"{HEAD}[produce]\ntiers = [{{ up_to = 100, price = 1 }}, {{ price = 0.5 }}]\n[storage]\nprice = 1\n"
    "[bandwidth_p95]\nprice = 2\n[provisioned]\nprice = 0.01"
)


def ms(text: str) -> int:
    return round(dt.datetime.fromisoformat(text).timestamp() * 1000)


NOVEMBER = month_of(ms("2026-11-27T10:30:00Z"))


def hours(begin: str, gigabytes: list[int]) -> list[Measured]:
    """One after the other, with as many GB produced and twice as many stored."""
    found = []
    for number, each in enumerate(gigabytes):
        hour = CountedHour(produce_bytes=each * GB, stored_byte_s=2 * each * GB * 3600)
        found.append(hour_of(ms(begin) + number * HOUR_MS, hour, NOVEMBER.end_ms))
    return found


def told(
    found: list[Measured],
    now: str,
    *,
    prices: Prices = PRICES,
    created: str = "2026-01-01T00:00:00Z",
    goes_on: bool = True,
) -> Costs:
    lived = Lived(ms(created), goes_on, 2**20)
    return costs(prices, found, NOVEMBER, lived, ms(now))


def by_dimension(found: Costs) -> dict[Dimension, tuple[str, str | None]]:
    return {
        line.so_far.dimension: (
            f"{line.so_far.quantity:f}",
            None if line.projected is None else f"{line.projected.quantity:f}",
        )
        for line in found.lines
    }


def test_months_of_utc() -> None:
    assert (ms("2026-11-01T00:00:00Z"), ms("2026-12-01T00:00:00Z")) == NOVEMBER
    assert month_of(ms("2026-12-31T23:59:59Z")).end_ms == ms("2027-01-01T00:00:00Z")
    assert first_asked_ms(NOVEMBER, ms("2026-11-03T10:30:00Z")) == ms("2026-10-27T10:00:00Z")
    assert first_asked_ms(NOVEMBER, ms("2026-11-27T10:30:00Z")) == NOVEMBER.begin_ms


def test_the_month_goes_on_like_the_last_seven_days() -> None:
    """Five days to go of 24 GB each, by the tier that they reach; what was before the week is so far only."""
    week = [0] * (18 * 24) + [1] * (7 * 24)
    found = told(hours("2026-11-01T00:00:00Z", week), "2026-11-26T00:00:00Z")
    assert by_dimension(found)[Dimension.PRODUCE] == ("168.000000", "288.000000")
    assert by_dimension(found)[Dimension.STORAGE] == ("336.000000", "576.000000")
    assert by_dimension(found)[Dimension.PROVISIONED] == ("600.000000", "720.000000")
    produce = found.lines[0]
    assert produce.projected is not None
    assert (produce.so_far.amount_minor, produce.projected.amount_minor) == (13_400, 19_400)
    assert found.so_far_minor == 13_400 + 33_600 + 600
    assert found.projected_minor == 19_400 + 57_600 + 720


def test_at_a_months_begin_the_days_before_tell_what_is_to_come() -> None:
    found = told(hours("2026-10-25T01:00:00Z", [1] * (7 * 24)), "2026-11-01T01:00:00Z")
    assert by_dimension(found)[Dimension.PRODUCE] == ("1.000000", "720.000000")


def test_an_instance_counts_from_its_creation() -> None:
    """Ten hours old, of which one was used: a tenth of an hour each."""
    found = told(
        hours("2026-11-26T00:00:00Z", [10] + [0] * 9),
        "2026-11-26T10:00:00Z",
        created="2026-11-26T00:00:00Z",
    )
    assert by_dimension(found)[Dimension.PRODUCE] == ("10.000000", "120.000000")
    assert by_dimension(found)[Dimension.PROVISIONED] == ("10.000000", "120.000000")


def test_less_than_an_hour_projects_nothing() -> None:
    found = told(hours("2026-11-26T10:00:00Z", [10]), "2026-11-26T10:40:00Z", created="2026-11-26T10:01:00Z")
    assert by_dimension(found)[Dimension.PRODUCE] == ("10.000000", None)
    assert (found.so_far_minor > 0, found.projected_minor) == (True, None)


def test_a_deleted_instance_ends_where_it_is() -> None:
    found = told(hours("2026-11-20T00:00:00Z", [1] * 24), "2026-11-26T10:00:00Z", goes_on=False)
    assert found.known_until_ms == ms("2026-11-21T00:00:00Z")
    assert found.projected_minor == found.so_far_minor


def test_nothing_of_this_month_yet() -> None:
    found = told(hours("2026-10-31T20:00:00Z", [1] * 4), "2026-11-01T00:00:30Z")
    assert found.known_until_ms == NOVEMBER.begin_ms
    so_far, projected = by_dimension(found)[Dimension.PRODUCE]
    assert so_far == "0.000000"
    assert projected == f"{Decimal(4 * 30 * DAY_MS) / RECENT_MS:.6f}"


def test_what_is_left_out_is_said() -> None:
    found = told(hours("2026-11-20T00:00:00Z", [1]), "2026-11-20T01:00:00Z")
    assert found.left_out == ((Dimension.BANDWIDTH_P95, Why.FIVE_MINUTES),)
    free = parse_prices(f"{HEAD}[bandwidth_p95]\nprice = 0\n[produce]\nprice = 1")
    found = told(hours("2026-11-20T00:00:00Z", [1]), "2026-11-20T01:00:00Z", prices=free)
    assert set(found.left_out) == {
        (Dimension.STORAGE, Why.NO_PRICE),
        (Dimension.PROVISIONED, Why.NO_PRICE),
    }


def test_negative_corrections_of_two_masters_cost_nothing() -> None:
    [one] = hours("2026-11-20T00:00:00Z", [1])
    less = one._replace(period=msgspec.structs.replace(one.period, produce_bytes=-GB))
    found = told([less], "2026-11-20T01:00:00Z")
    assert by_dimension(found)[Dimension.PRODUCE] == ("0.000000", "0.000000")


def test_limits_cost_by_the_whole_month_whatever_is_used() -> None:
    """720 hours of 3 MiB/s at 0.01."""
    assert limits_minor(PRICES, NOVEMBER, 3 * 2**20) == 2160
    assert limits_minor(parse_prices(f"{HEAD}[provisioned]\nprice = 0"), NOVEMBER, 2**20) == 0
    assert limits_minor(parse_prices(f"{HEAD}[produce]\nprice = 1"), NOVEMBER, 2**20) is None

"""Sizes, urgency, and the sentence."""

from datetime import date
from decimal import Decimal

import pytest

from contracts.advice import Action, Model, Urgency
from contracts.billing import BillLine, Dimension
from contracts.prices import parse_prices
from pipeline.advice.counterfactual import Billed, with_rates
from pipeline.advice.judging.forecast import Filling, LastWeek
from pipeline.advice.judging.judgement import Bought, Judgement, Kept, Rated, duration, judge

MB, GB = 10**6, 10**9
BOUGHT = Bought("iaaaaaaaaaaa", 20 * MB, 40 * MB, 100 * GB)
CALM = Rated(Model.SEASONAL_NAIVE, 14 * MB, 15 * MB, 0, 0)
STORED = Kept(Model.SEASONAL_NAIVE, 60 * GB, 60 * GB, 61 * GB, 0)


def growing(per_day: float, fast: float = 0, slow: float = 0, swing: float = 0) -> Kept:
    filling = Filling(per_day / 24, (fast or per_day) / 24, (slow or per_day) / 24, swing)
    return STORED._replace(growth_bytes_per_day=round(per_day), filling=filling)


def of(
    produce: Rated = CALM, consume: Rated = CALM, kept: Kept = STORED, bought: Bought = BOUGHT
) -> Judgement:
    return judge(bought, 672, produce, consume, kept)


def test_what_fits_is_kept() -> None:
    found = of()
    assert (found.produce, found.consume, found.capacity) == (Action.KEEP, Action.SHRINK, Action.KEEP)
    assert found.produce_rate_bytes_per_s == 20 * MB and found.capacity_bytes == 100 * GB
    assert "produce needs 14 MB/s (p99.5 of the week to come) x 1.3 = 18.2 MB/s: 20 MB/s fit" in found.reason


def test_headroom_is_what_makes_a_size_too_small() -> None:
    found = of(produce=CALM._replace(p995=16 * MB))
    assert found.produce is Action.GROW and found.produce_rate_bytes_per_s == 40 * MB
    assert found.urgency is Urgency.SOON
    assert "40 MB/s instead of 20 MB/s leaves 30 % of headroom" in found.reason


def test_clients_that_are_held_back_for_long_are_urgent_and_for_short_are_not() -> None:
    long = of(produce=CALM._replace(p995=20 * MB, throttled_ms=3_600_000))
    assert long.urgency is Urgency.NOW and "held back for 60 min in the last 24 h" in long.reason
    short = of(produce=CALM._replace(throttled_ms=2_000))
    assert short.produce is Action.KEEP and "held back for 2 s" in short.reason
    assert "in bursts, 20 MB/s are enough on the whole" in short.reason


def test_what_was_held_back_or_refused_is_not_shrunk() -> None:
    assert of(consume=CALM._replace(p995=1, throttled_ms=1)).consume is Action.KEEP
    refused = of(kept=STORED._replace(p995=1, stored_bytes=1, blocked_ms=1))
    assert refused.capacity is Action.KEEP and refused.urgency is Urgency.NOW


def test_little_history_grows_but_does_not_shrink() -> None:
    young = Rated(Model.NONE, None, 100 * MB, 0, None)
    kept = Kept(Model.NONE, None, 1, 1, 0)
    found = judge(BOUGHT, 5, young, young._replace(peak=1), kept)
    assert (found.produce, found.consume, found.capacity) == (Action.GROW, Action.KEEP, Action.KEEP)
    assert found.reason.startswith("not enough data for a forecast (5 h of 336 h needed); produce needs")
    assert "its busiest minute so far" in found.reason


@pytest.mark.parametrize(
    ("days", "urgency"),
    [(2.9, Urgency.NOW), (13.0, Urgency.SOON), (15.0, Urgency.SAVING), (None, Urgency.SAVING)],
)
def test_days_to_full(days: float | None, urgency: Urgency) -> None:
    found = of(kept=growing(40 * GB / days) if days else STORED)
    assert found.urgency is urgency
    assert ("full in" in found.reason) == (days is not None)


def test_the_band_is_told() -> None:
    def told(fast: float, slow: float) -> str:
        return of(kept=growing(40 * GB / 12.2, fast, slow)).reason

    assert "full in 12 days (9.1 to 16) =" in told(40 * GB / 9.1, 40 * GB / 16)
    assert "full in 12 days (9.1 at the earliest) =" in told(40 * GB / 9.1, -1.0)
    assert "full in 12 days =" in told(0, 0)


def test_the_arithmetic_stands_beside_the_sentence_and_makes_it() -> None:
    """What contradicted itself: 3.64 MB stored, 33.3 MB a day more, full in 15 days, of 2 GB."""
    kept = growing(33.3 * MB, swing=51 * MB)._replace(
        stored_bytes=3_640_000,
        days=(date(2026, 10, 31), date(2026, 11, 28)),
        last_week=LastWeek(32.9 * MB / 24, 33.3 * MB / 24),
    )
    bought = BOUGHT._replace(capacity_bytes=2 * GB)
    assert (
        "3.64 MB are stored, 33.3 MB more each day (in the median, 2026-10-31 to 2026-11-28; of the last "
        "week 32.9 MB a day were expected, 33.3 MB came): full in 58 days = (2 GB - 3.64 MB stored - 51 MB "
        "more in a week's fullest hour) / 33.3 MB a day; of 60 GB x 1.3 = 78 GB: 100 GB instead of 2 GB"
    ) in of(kept=kept, bought=bought).reason
    assert kept.days_to_full(2 * GB).expected == pytest.approx((2 * GB - 3.64 * MB - 51 * MB) / (33.3 * MB))


def test_a_full_instance_is_urgent() -> None:
    found = of(kept=STORED._replace(stored_bytes=100 * GB))
    assert found.urgency is Urgency.NOW and "the capacity is full" in found.reason
    assert found.capacity_bytes == 200 * GB and found.capacity is Action.GROW


@pytest.mark.parametrize(
    ("ms", "text"),
    [(400, "0 s"), (89_000, "89 s"), (120_000, "2 min"), (5_340_000, "89 min"), (7_200_000, "2.0 h")],
)
def test_durations(ms: int, text: str) -> None:
    assert duration(ms) == text


BOOK = """
currency = "USD"
effective_from = 2026-01-01
[produce]
price = 1
[provisioned]
price = 0.01
"""


def line(dimension: Dimension, base: int, amount: int) -> BillLine:
    return BillLine(
        instance_id=BOUGHT.instance_id,
        month="2026-11",
        dimension=dimension,
        price_version=1,
        usage_version=1,
        base_quantity=Decimal(base),
        quantity=Decimal(0),
        unit="",
        amount_minor=amount,
        currency="USD",
        detail="",
    )


def test_only_what_the_rates_cost_changes_with_them() -> None:
    mib_hours = 2**20 * 3600
    lines = [line(Dimension.PRODUCE, 10**9, 100), line(Dimension.PROVISIONED, 6000 * mib_hours, 6000)]
    bills = with_rates(Billed(lines, parse_prices(BOOK)), BOUGHT, 10 * MB, 20 * MB)
    assert bills is not None
    assert (bills.now_minor, bills.advised_minor, bills.currency) == (6100, 3100, "USD")
    assert bills.amount(3100) == "31.00 USD"
    assert with_rates(Billed([], parse_prices(BOOK)), BOUGHT, 1, 1) is None

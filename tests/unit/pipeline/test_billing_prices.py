"""Prices are exact: against fractions, tier by tier and step by step."""

from datetime import date
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.billing import Dimension
from contracts.prices import (
    DEFAULT_PRICES,
    UNITS,
    PriceBookError,
    Quantities,
    Rate,
    Tier,
    TierMode,
    amount_minor,
    in_units,
    parse_prices,
    price_month,
    unpriced,
)
from pipeline.errors import PipelineError
from pipeline.metering.amounts import calendar

NOTHING = Quantities(0, 0, 0, 0, 0, 0)
decimals = st.decimals(min_value=0, max_value=10**6, places=6)
steps = st.decimals(min_value=Decimal("0.000001"), max_value=10**4, places=6)


def half_even(exact: Fraction) -> int:
    """Nearest whole number; of two equally near ones the even one."""
    low = exact.numerator // exact.denominator
    rest = exact - low
    return low + (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and low % 2))


@given(st.integers(-(10**30), 10**30), st.sampled_from(Dimension))
def test_a_quantity_is_rounded_once_to_six_places(base: int, dimension: Dimension) -> None:
    exact = Fraction(base * 10**6, UNITS[dimension].base_per_unit)
    assert Fraction(in_units(dimension, base)) == Fraction(half_even(exact), 10**6)


@pytest.mark.parametrize(
    ("dimension", "base", "quantity"),
    [
        (Dimension.PRODUCE, 1_000_000_000, "1"),
        (Dimension.CONSUME, 1_073_741_824, "1.073742"),
        (Dimension.STORAGE, 10 * 1_000_000_000 * 3_600_000, "10"),
        (Dimension.BANDWIDTH_P95, 300 * 1_048_576, "1"),
        (Dimension.PROVISIONED, 1_048_576 * 3600, "1"),
    ],
)
def test_a_gb_is_ten_to_the_ninth_and_a_mib_two_to_the_twentieth(
    dimension: Dimension, base: int, quantity: str
) -> None:
    assert in_units(dimension, base) == Decimal(quantity)


@given(decimals, st.lists(st.tuples(steps, decimals), max_size=4), decimals, st.integers(0, 4))
def test_an_amount_is_the_sum_of_its_tiers_rounded_once(
    quantity: Decimal, bounded: list[tuple[Decimal, Decimal]], last_price: Decimal, digits: int
) -> None:
    bound = Decimal(0)
    tiers = []
    expected = Fraction(0)
    for width, price in bounded:
        inside = max(Fraction(0), min(Fraction(quantity), Fraction(bound + width)) - Fraction(bound))
        expected += inside * Fraction(price)
        bound += width
        tiers.append(Tier(bound, price))
    expected += max(Fraction(0), Fraction(quantity) - Fraction(bound)) * Fraction(last_price)
    rate = Rate((*tiers, Tier(None, last_price)))
    assert amount_minor(rate, quantity, digits) == half_even(expected * 10**digits)


@given(decimals, st.lists(st.tuples(steps, decimals), max_size=4), decimals)
def test_by_volume_all_has_the_price_of_the_tier_it_reaches(
    quantity: Decimal, bounded: list[tuple[Decimal, Decimal]], last_price: Decimal
) -> None:
    bound = Decimal(0)
    tiers = []
    reached = None
    for width, price in bounded:
        bound += width
        tiers.append(Tier(bound, price))
        if reached is None and quantity <= bound:
            reached = price
    rate = Rate((*tiers, Tier(None, last_price)), TierMode.VOLUME)
    price = last_price if reached is None else reached
    assert amount_minor(rate, quantity, 2) == half_even(Fraction(quantity) * Fraction(price) * 100)


@given(st.integers(1, 9000))
def test_the_rank_leaves_a_twentieth_above_it(slots: int) -> None:
    rank = calendar.p95_rank(slots)
    above = slots - rank
    assert above <= slots / 20 < above + 1


@pytest.mark.parametrize(
    ("month", "slots", "rank", "after"),
    [
        ("2026-02", 8064, 7661, "2026-03"),
        ("2028-02", 8352, 7935, "2028-03"),
        ("2026-11", 8640, 8208, "2026-12"),
        ("2026-12", 8928, 8482, "2027-01"),
    ],
)
def test_months_have_their_own_length(month: str, slots: int, rank: int, after: str) -> None:
    assert calendar.slots_in(month) == slots
    assert calendar.p95_rank(slots) == rank
    assert calendar.next_month(month) == after
    assert calendar.month_at(calendar.end_ms(month)) == after
    assert calendar.month_at(calendar.end_ms(month) - 1) == month


@pytest.mark.parametrize("text", ["2026", "2026-13", "2026-00", "26-11", "2026-11-01", "", "1969-12"])
def test_what_is_no_month_is_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(PipelineError, match="is not a month"):
        calendar.first_day(text)


def test_the_default_prices_have_a_price_for_everything() -> None:
    prices = parse_prices(DEFAULT_PRICES.read_text())
    used = Quantities(*(10**15 for _ in Dimension))
    assert unpriced(prices, used) == ()
    assert [line.dimension for line in price_month(prices, used)] == list(Dimension)
    assert sum(line.amount_minor for line in price_month(prices, NOTHING)) == 0


def test_what_was_used_and_has_no_price_is_named() -> None:
    prices = parse_prices('currency = "EUR"\neffective_from = 2026-01-01\n[produce]\nprice = 1\n')
    assert unpriced(prices, NOTHING) == ()
    assert unpriced(prices, Quantities(1, 1, 0, 1, 0, 0)) == (Dimension.CONSUME, Dimension.STORAGE)
    assert prices.effective_from == date(2026, 1, 1)


HEAD = 'currency = "USD"\neffective_from = 2026-01-01\n'


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("currency = ", "not TOML"),
        ("", "currency must be"),
        ('currency = "USD"', "effective_from must be the first day"),
        ('currency = "USD"\neffective_from = 2026-01-02', "effective_from must be the first day"),
        ('currency = "USD"\neffective_from = 2026-01-01T00:00:00Z', "effective_from must be the first day"),
        ('currency = "dollar"', "three capital letters"),
        (HEAD + "minor_unit_digits = 9", "minor_unit_digits"),
        (HEAD + "minor_unit_digits = true", "minor_unit_digits"),
        (HEAD + "discount = 1", "unknown entry 'discount'"),
        (HEAD + "[bytes]\nprice = 1", "unknown entry 'bytes'"),
        (HEAD + "[produce]\nprise = 1", "unknown entry 'prise'"),
        (HEAD + "[produce]\nprice = -1", "from 0 to below"),
        (HEAD + "[produce]\nprice = nan", "from 0 to below"),
        (HEAD + '[produce]\nprice = "1"', "must be a number"),
        (HEAD + "[produce]\nprice = true", "must be a number"),
        (HEAD + "[produce]\nprice = 1e-20", "at most 15 places"),
        (HEAD + "[produce]", "either a price or tiers"),
        (HEAD + "[produce]\nprice = 1\ntiers = [{ price = 1 }]", "either a price or tiers"),
        (HEAD + "[produce]\ntiers = []", "must be a list"),
        (HEAD + "[produce]\ntiers = [{ up_to = 1, price = 1 }]", "the last tier"),
        (HEAD + "[produce]\ntiers = [{ price = 1 }, { price = 2 }]", "the last tier"),
        (HEAD + "[produce]\ntiers = [{ up_to = 0, price = 1 }, { price = 2 }]", "must grow"),
        (HEAD + "[produce]\ntiers = [{ up_to = 1 }, { price = 2 }]", "must be a number"),
        (HEAD + '[produce]\nprice = 1\nmode = "flat"', "graduated, volume"),
        (HEAD + '[bandwidth_p95]\nprice = 1\nof = "in"', "larger, produce, consume, total"),
        (HEAD + "produce = 1", "unknown entry 'produce'"),
    ],
)
def test_a_faulty_price_book_is_refused_in_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(PriceBookError, match=sentence):
        parse_prices(text)

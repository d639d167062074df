"""What bills say, when they may close, what closed months owe; and one invoice as a golden file."""

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from contracts.billing import Adjustment, Bill, BillState, Dimension, PriceBook
from contracts.prices import DEFAULT_PRICES, parse_prices
from pipeline.metering.amounts import bills
from pipeline.metering.amounts.bills import Basis, MonthUsage, PricedBook
from pipeline.metering.amounts.calendar import end_ms
from pipeline.metering.amounts.invoice import invoice

GOLDEN = Path(__file__).parent / "golden" / "invoice.txt"
HOUR_MS = 3_600_000
SETTLE_MS = 600_000
GRACE_MS = 72 * HOUR_MS
END = end_ms("2026-11")
USED = MonthUsage(
    instance_id="iabcdefghijk",
    produce_bytes=1234 * 10**9 + 567,
    consume_bytes=2500 * 10**9,
    requests=123_456_789,
    stored_byte_ms=50 * 10**9 * 720 * HOUR_MS,
    provisioned_bytes=60 * 2**20 * 2_592_000,
    produce_p95=300 * 3 * 2**20,
    consume_p95=300 * 7 * 2**20 + 150,
    total_p95=300 * 9 * 2**20,
    expected_ms=3 * 720 * HOUR_MS,
    covered_ms=3 * 720 * HOUR_MS,
)


def book(text: str, version: int = 1) -> PricedBook:
    prices = parse_prices(text)
    row = PriceBook(
        version=version,
        effective_from=prices.effective_from,
        currency=prices.currency,
        minor_unit_digits=prices.minor_unit_digits,
        text=text,
        set_at_ms=0,
    )
    return PricedBook(row, prices)


DEFAULT = book(DEFAULT_PRICES.read_text())


def basis(of: PricedBook | None = DEFAULT, **changes: object) -> Basis:
    fields = {
        "month": "2026-11",
        "usage_version": 12,
        "source_batch": 4711,
        "heard_until_ms": END + SETTLE_MS,
        "book": of,
        "now_ms": END + HOUR_MS,
    }
    return Basis(**(fields | changes))  # type: ignore[arg-type]


def bill(usage: MonthUsage = USED, on: Basis | None = None) -> Bill:
    found = on or basis()
    return bills.open_bill(usage, bills.bill_lines(usage, found), [], found, None)


def waits(of: Bill, on: Basis, force: bool = False) -> str:
    return bills.waits_for(of, on, settle_ms=SETTLE_MS, grace_ms=GRACE_MS, force_with_gaps=force)


def with_gaps() -> MonthUsage:
    start = END - 24 * HOUR_MS
    gaps = ((start, 60_000), (start + HOUR_MS, 30_500), (start + 5 * HOUR_MS, 60_000))
    return replace(USED, gaps=gaps, covered_ms=USED.expected_ms - 150_500)


def correction() -> Adjustment:
    return Adjustment(
        id="iabcdefghijk/2026-10/produce/12",
        instance_id="iabcdefghijk",
        month="2026-10",
        bill_month="2026-11",
        dimension=Dimension.PRODUCE,
        base_quantity_delta=Decimal(-2 * 10**9),
        quantity_delta=Decimal("-2"),
        unit="GB",
        amount_delta_minor=-10,
        currency="USD",
        price_version=1,
        usage_version=12,
        reason="reports of 2026-10 that came after its bill was closed",
        source_batch=4711,
        created_at_ms=0,
    )


def test_an_invoice_reads_as_in_the_golden_file() -> None:
    on = basis()
    lines = bills.bill_lines(with_gaps(), on)
    made = bills.open_bill(with_gaps(), lines, [correction()], on, None)
    final = bills.closed(bills.closing(made, on.now_ms), on.now_ms)
    assert invoice(final, lines, [correction()]) == GOLDEN.read_text()


def test_the_same_usage_makes_the_same_bill_whenever_it_is_made() -> None:
    lines = bills.bill_lines(USED, basis())
    later = basis(usage_version=99, now_ms=END + 2 * HOUR_MS)
    assert bills.same(bill(), lines, bill(on=later), bills.bill_lines(USED, later))
    more = replace(USED, produce_bytes=USED.produce_bytes + 1)
    assert not bills.same(bill(), lines, bill(more), bills.bill_lines(more, basis()))


@pytest.mark.parametrize(
    ("of", "p95"), [("larger", 2100 * 2**20 + 150), ("produce", 900 * 2**20), ("total", 2700 * 2**20)]
)
def test_the_price_book_says_which_95th_percentile_counts(of: str, p95: int) -> None:
    text = f'currency = "USD"\neffective_from = 2026-01-01\n[bandwidth_p95]\nof = "{of}"\nprice = 2\n'
    [line] = bills.bill_lines(USED, basis(book(text)))
    assert (line.base_quantity, line.unit) == (p95, "MiB/s")


def test_the_newest_version_in_effect_on_the_first_day_holds() -> None:
    text = 'currency = "USD"\neffective_from = {}\n'
    books = [book(text.format(day), version) for version, day in enumerate(["2026-01-01", "2026-12-01"], 1)]
    corrected = [*books, book(text.format("2026-01-01"), 3)]
    assert bills.book_for(books, "2025-12") is None
    assert [bills.book_for(books, month).row.version for month in ("2026-11", "2026-12")] == [1, 2]  # type: ignore[union-attr]
    assert bills.book_for(corrected, "2027-01") is corrected[2]


def test_a_bill_without_a_price_is_held_and_does_not_close() -> None:
    priced = book('currency = "USD"\neffective_from = 2026-01-01\n[produce]\nprice = 1\n')
    held = bill(on=basis(priced))
    assert "no price for consume, requests, storage" in held.hold_reason
    assert waits(held, basis(priced, now_ms=END + 1000 * HOUR_MS), force=True).startswith("held: ")
    assert "no price book is in effect in 2026-11" in bill(on=basis(None)).hold_reason


def test_a_complete_month_closes_once_all_was_heard() -> None:
    assert waits(bill(), basis()) == ""
    assert "reports are in up to" in waits(bill(), basis(heard_until_ms=END + SETTLE_MS - 1))


def test_a_month_with_gaps_waits_for_the_grace_period_or_for_force() -> None:
    gappy = bill(with_gaps())
    assert gappy.gaps == (
        "2026-11-30T00:00Z/2026-11-30T02:00Z 91 s, 2026-11-30T05:00Z/2026-11-30T06:00Z 60 s"
    )
    assert "150 s of reports are missing; closes at 2026-12-04T00:00Z" in waits(gappy, basis())
    assert waits(gappy, basis(now_ms=END + GRACE_MS)) == ""
    assert waits(gappy, basis(), force=True) == ""


def closed_bill(usage: MonthUsage = USED) -> Bill:
    return bills.closed(bills.closing(bill(usage), END), END)


def test_late_usage_becomes_the_difference_to_what_was_billed_and_adjusted() -> None:
    billed = bills.bill_lines(USED, basis())
    more = replace(USED, produce_bytes=USED.produce_bytes + 3 * 10**9)
    now = basis(usage_version=13, source_batch=4800)
    [first] = bills.adjustments_of(closed_bill(), billed, [], more, now, "2026-12")
    assert (first.dimension, first.base_quantity_delta, first.amount_delta_minor) == (
        "produce",
        3 * 10**9,
        15,
    )
    assert (first.month, first.bill_month, first.source_batch) == ("2026-11", "2026-12", 4800)
    assert bills.adjustments_of(closed_bill(), billed, [first], more, now, "2026-12") == []
    [back] = bills.adjustments_of(closed_bill(), billed, [first], USED, basis(usage_version=14), "2027-01")
    assert back.amount_delta_minor == -15
    assert back.quantity_delta == -first.quantity_delta


def test_a_late_byte_without_a_price_is_still_an_adjustment_so_that_bytes_agree() -> None:
    billed = bills.bill_lines(USED, basis())
    more = replace(USED, requests=USED.requests + 1)
    [found] = bills.adjustments_of(closed_bill(), billed, [], more, basis(), "2026-12")
    assert (found.base_quantity_delta, found.amount_delta_minor) == (1, 0)


def test_adjustments_are_on_the_first_bill_that_is_still_open() -> None:
    months = {"2026-12": closed_bill(), "2027-01": bills.closing(bill(), END)}
    assert bills.adjusting_month("2026-11", {}) == "2026-12"
    assert bills.adjusting_month("2026-11", months) == "2027-02"
    assert closed_bill().state is BillState.CLOSED


def test_adjustments_in_another_currency_hold_a_bill() -> None:
    euro = book('currency = "EUR"\neffective_from = 2026-01-01\n')
    on = basis(euro)
    held = bills.open_bill(MonthUsage("i1"), [], [correction()], on, None)
    assert held.hold_reason == "its adjustments are in USD and its lines in EUR"

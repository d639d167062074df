"""What this month's bill would be had an instance the advised rates. Pure, but for `this_month`."""

from collections.abc import Sequence
from typing import NamedTuple

from deltalake import DeltaTable

from contracts.billing import BILL_LINE, Bill, BillLine, Dimension
from contracts.prices import Prices, amount_minor, in_units
from pipeline.advice.judging.judgement import Bought
from pipeline.layout import PipelineLayout
from pipeline.metering.amounts.bills import priced
from pipeline.metering.amounts.calendar import month_at
from pipeline.metering.ledger import Ledger


class Billed(NamedTuple):
    """One instance's bill of the month so far, and the prices it was made with."""

    lines: Sequence[BillLine]
    prices: Prices


class Bills(NamedTuple):
    """In minor units of the currency."""

    now_minor: int
    advised_minor: int
    currency: str
    minor_unit_digits: int

    def amount(self, minor: int) -> str:
        """For people."""
        digits = self.minor_unit_digits
        whole = f"{minor / 10**digits:.{digits}f}"
        return f"{whole} {self.currency}"


def with_rates(
    billed: Billed, bought: Bought, produce_bytes_per_s: int, consume_bytes_per_s: int
) -> Bills | None:
    """Usage at other rates: only what is billed for the rates themselves changes.

    None for a bill that has no line yet.
    """
    if not billed.lines:
        return None
    now = bought.produce_rate_bytes_per_s + bought.consume_rate_bytes_per_s
    total, advised = 0, 0
    for line in billed.lines:
        total += line.amount_minor
        amount = line.amount_minor
        if line.dimension is Dimension.PROVISIONED and now > 0:
            base = int(line.base_quantity) * (produce_bytes_per_s + consume_bytes_per_s) // now
            rate = billed.prices.rates[Dimension.PROVISIONED]
            quantity = in_units(Dimension.PROVISIONED, base)
            amount = amount_minor(rate, quantity, billed.prices.minor_unit_digits)
        advised += amount
    return Bills(total, advised, billed.prices.currency, billed.prices.minor_unit_digits)


def this_month(layout: PipelineLayout, now_ms: int) -> dict[str, Billed]:
    """Bills of the month by instance; none before `portico pipeline meter run` has made any."""
    if not DeltaTable.is_deltatable(str(layout.table(BILL_LINE))):
        return {}
    ledger, month = Ledger(layout), month_at(now_ms)
    prices = {book.version: priced(book).prices for book in ledger.price_books()}
    bills: dict[str, Bill] = {bill.instance_id: bill for bill in ledger.all_bills() if bill.month == month}
    lines: dict[str, list[BillLine]] = {}
    for line in ledger.lines_of(month):
        bill = bills.get(line.instance_id)
        if bill is not None and bill.usage_version == line.usage_version:
            lines.setdefault(line.instance_id, []).append(line)
    return {
        instance_id: Billed(found, prices[bills[instance_id].price_version])
        for instance_id, found in lines.items()
    }

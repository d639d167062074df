"""Whether bills, their lines and adjustments follow from usage and prices."""

from collections.abc import Iterable
from dataclasses import replace

from contracts.billing import Adjustment, Bill, BillLine, BillState
from pipeline.metering.amounts import bills as decide
from pipeline.metering.amounts.bills import Basis, MonthUsage, PricedBook
from pipeline.metering.ledger import Ledger, by_instance
from pipeline.metering.month_usage import month_usage
from pipeline.metering.versioned_tables import Table


def bill_differences(slots: Table, ledger: Ledger, month: str | None) -> tuple[int, list[str]]:
    """(bills that were looked at, what does not follow)."""
    bills = [bill for bill in ledger.all_bills() if month in (None, bill.month)]
    books = {row.version: decide.priced(row) for row in ledger.price_books()}
    adjustments = ledger.all_adjustments()
    newest = slots.version()
    found: list[str] = []
    for each in sorted({bill.month for bill in bills}):
        of_month = [bill for bill in bills if bill.month == each]
        named = {bill.usage_version for bill in of_month if bill.state is not BillState.OPEN}
        usage = {version: month_usage(slots, version, each) for version in {newest, *named}}
        lines = by_instance(ledger.lines_of(each))
        for bill in of_month:
            own = lines[bill.instance_id]
            version = newest if bill.state is BillState.OPEN else bill.usage_version
            basis = _basis(bill, books.get(bill.price_version))
            used = usage[version].get(bill.instance_id, MonthUsage(bill.instance_id))
            on_bill = [
                row for row in adjustments if (row.instance_id, row.bill_month) == (bill.instance_id, each)
            ]
            found += _follows(bill, own, on_bill, used, basis)
            if bill.state is BillState.CLOSED:
                earlier = [
                    row for row in adjustments if (row.instance_id, row.month) == (bill.instance_id, each)
                ]
                now = usage[newest].get(bill.instance_id, MonthUsage(bill.instance_id))
                found += _owes_nothing(bill, own, earlier, now, replace(basis, usage_version=newest))
        billed = {bill.instance_id for bill in of_month}
        found += [
            f"{instance} {each}: was used and has no bill: run `portico pipeline bill`"
            for instance in sorted(set(usage[newest]) - billed)
        ]
    return len(bills), found


def _follows(
    bill: Bill, lines: list[BillLine], on_bill: list[Adjustment], usage: MonthUsage, basis: Basis
) -> list[str]:
    where = f"{bill.instance_id} {bill.month}"
    if bill.price_version and basis.book is None:
        return [f"{where}: names version {bill.price_version} of the price book, which is not there"]
    expected = decide.bill_lines(usage, basis)
    found = [
        f"{where}: line {name} is {_said(was)}, should be {_said(should)}"
        for name, was, should in _pairs(lines, expected)
        if was is None or should is None or not _agree(was, should)
    ]
    lines_minor = sum(line.amount_minor for line in lines)
    adjusted = sum(each.amount_delta_minor for each in on_bill)
    if (bill.lines_minor, bill.adjustments_minor) != (lines_minor, adjusted):
        found.append(
            f"{where}: the bill has {bill.lines_minor} and adjustments of {bill.adjustments_minor}, its rows "
            f"add up to {lines_minor} and {adjusted}"
        )
    if bill.total_minor != bill.lines_minor + bill.adjustments_minor:
        found.append(f"{where}: the total {bill.total_minor} is not the sum of lines and adjustments")
    return found


def _owes_nothing(
    bill: Bill, lines: list[BillLine], earlier: list[Adjustment], now: MonthUsage, basis: Basis
) -> list[str]:
    if basis.book is None:
        return []
    return [
        f"{bill.instance_id} {bill.month}: {each.dimension} is {each.base_quantity_delta} more than what was "
        "billed and adjusted: run `portico pipeline bill`"
        for each in decide.adjustments_of(bill, lines, earlier, now, basis, bill.month)
    ]


def _pairs(
    lines: Iterable[BillLine], expected: Iterable[BillLine]
) -> list[tuple[str, BillLine | None, BillLine | None]]:
    was = {line.dimension: line for line in lines}
    should = {line.dimension: line for line in expected}
    return [(name, was.get(name), should.get(name)) for name in sorted({*was, *should})]


def _agree(was: BillLine, should: BillLine) -> bool:
    return (was.base_quantity, was.quantity, was.amount_minor, was.price_version) == (
        should.base_quantity,
        should.quantity,
        should.amount_minor,
        should.price_version,
    )


def _said(line: BillLine | None) -> str:
    return "missing" if line is None else f"{line.base_quantity} for {line.amount_minor}"


def _basis(bill: Bill, book: PricedBook | None) -> Basis:
    return Basis(
        month=bill.month,
        usage_version=bill.usage_version,
        source_batch=-1,
        heard_until_ms=0,
        book=book,
        now_ms=0,
    )

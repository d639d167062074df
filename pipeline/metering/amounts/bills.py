"""What a bill says, when it may close, and what a closed month owes later: decisions, no IO and no clock."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from decimal import Decimal

import msgspec

from contracts.billing import HOUR_MS, SLOT_MS, Adjustment, Bill, BillLine, BillState, Dimension, PriceBook
from contracts.prices import (
    Bandwidth,
    PriceBookError,
    PricedLine,
    Prices,
    Quantities,
    in_effect,
    parse_prices,
    price_month,
    unpriced,
)
from pipeline.errors import PipelineError
from pipeline.metering.amounts import calendar


@dataclass(frozen=True)
class MonthUsage:
    """One instance's usage of one month, and the hours (epoch ms, missing ms) that reports are missing of."""

    instance_id: str
    produce_bytes: int = 0
    consume_bytes: int = 0
    requests: int = 0
    stored_byte_ms: int = 0
    provisioned_bytes: int = 0
    produce_p95: int = 0
    consume_p95: int = 0
    total_p95: int = 0
    expected_ms: int = 0
    covered_ms: int = 0
    gaps: tuple[tuple[int, int], ...] = ()

    def quantities(self, bandwidth: Bandwidth) -> Quantities:
        """Quantities as the price book counts them."""
        p95 = {
            Bandwidth.PRODUCE: self.produce_p95,
            Bandwidth.CONSUME: self.consume_p95,
            Bandwidth.LARGER: max(self.produce_p95, self.consume_p95),
            Bandwidth.TOTAL: self.total_p95,
        }
        return Quantities(
            produce_bytes=self.produce_bytes,
            consume_bytes=self.consume_bytes,
            requests=self.requests,
            stored_byte_ms=self.stored_byte_ms,
            p95_slot_bytes=p95[bandwidth],
            provisioned_bytes=self.provisioned_bytes,
        )


@dataclass(frozen=True)
class PricedBook:
    """A price book's row and what its text says."""

    row: PriceBook
    prices: Prices


@dataclass(frozen=True)
class Basis:
    """What bills are made from."""

    month: str
    usage_version: int
    source_batch: int
    """The newest batch of records in that version of usage."""
    heard_until_ms: int
    book: PricedBook | None
    now_ms: int


def priced(row: PriceBook) -> PricedBook:
    """A version as it was kept. Raises: PipelineError."""
    try:
        return PricedBook(row, parse_prices(row.text))
    except PriceBookError as error:
        raise PipelineError(f"version {row.version} of the price book: {error}") from error


def book_for(books: Sequence[PricedBook], month: str) -> PricedBook | None:
    """The newest version that is in effect on the month's first day."""
    row = in_effect((book.row for book in books), calendar.first_day(month))
    return next((book for book in books if book.row is row), None)


def bill_lines(usage: MonthUsage, basis: Basis) -> list[BillLine]:
    """Lines of one instance; none without a price book."""
    if basis.book is None:
        return []
    priced = price_month(basis.book.prices, usage.quantities(basis.book.prices.bandwidth))
    return [_line(usage.instance_id, each, basis.book, basis) for each in priced]


def _line(instance_id: str, priced: PricedLine, book: PricedBook, basis: Basis) -> BillLine:
    return BillLine(
        instance_id=instance_id,
        month=basis.month,
        dimension=priced.dimension,
        price_version=book.row.version,
        usage_version=basis.usage_version,
        base_quantity=Decimal(priced.base_quantity),
        quantity=priced.quantity,
        unit=priced.unit,
        amount_minor=priced.amount_minor,
        currency=book.row.currency,
        detail=priced.detail,
    )


def open_bill(
    usage: MonthUsage,
    lines: Sequence[BillLine],
    adjustments: Iterable[Adjustment],
    basis: Basis,
    old: Bill | None,
) -> Bill:
    """The bill of a month that is not closed; `adjustments` are those on this bill."""
    lines_minor = sum(line.amount_minor for line in lines)
    adjusted = list(adjustments)
    adjustments_minor = sum(each.amount_delta_minor for each in adjusted)
    book = basis.book
    return Bill(
        instance_id=usage.instance_id,
        month=basis.month,
        state=BillState.OPEN,
        currency=book.row.currency if book else "",
        minor_unit_digits=book.row.minor_unit_digits if book else 0,
        price_version=book.row.version if book else 0,
        usage_version=basis.usage_version,
        lines_minor=lines_minor,
        adjustments_minor=adjustments_minor,
        total_minor=lines_minor + adjustments_minor,
        produce_p95_bytes_per_s=usage.produce_p95 // (SLOT_MS // 1000),
        consume_p95_bytes_per_s=usage.consume_p95 // (SLOT_MS // 1000),
        expected_ms=usage.expected_ms,
        covered_ms=usage.covered_ms,
        gaps=gaps_text(usage.gaps),
        hold_reason=_hold_reason(usage, adjusted, basis),
        revision=old.revision + 1 if old else 1,
        updated_at_ms=basis.now_ms,
        closed_at_ms=0,
    )


def _hold_reason(usage: MonthUsage, adjustments: Iterable[Adjustment], basis: Basis) -> str:
    if basis.book is None:
        return f"no price book is in effect in {basis.month}: set one with `portico pipeline prices set FILE`"
    prices = basis.book.prices
    if missing := unpriced(prices, usage.quantities(prices.bandwidth)):
        names = ", ".join(missing)
        return (
            f"version {basis.book.row.version} of the price book has no price for {names}: set one that has"
        )
    if other := {each.currency for each in adjustments} - {prices.currency}:
        return f"its adjustments are in {', '.join(sorted(other))} and its lines in {prices.currency}"
    return ""


def gaps_text(gaps: Iterable[tuple[int, int]]) -> str:
    """Hours without all reports, itemised; hours that follow one another are one item."""
    items: list[tuple[int, int, int]] = []
    for hour, missing_ms in sorted(gaps):
        if items and items[-1][1] == hour:
            first, _, before = items.pop()
            items.append((first, hour + HOUR_MS, before + missing_ms))
        else:
            items.append((hour, hour + HOUR_MS, missing_ms))
    return ", ".join(f"{_time(first)}/{_time(end)} {-(-ms // 1000)} s" for first, end, ms in items)


def _time(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%dT%H:%MZ}"


def waits_for(bill: Bill, basis: Basis, *, settle_ms: int, grace_ms: int, force_with_gaps: bool) -> str:
    """Why a bill of a month that is over cannot close yet, in words; empty when it can."""
    if bill.hold_reason:
        return f"held: {bill.hold_reason}"
    end_ms = calendar.end_ms(bill.month)
    if force_with_gaps or basis.now_ms >= end_ms + grace_ms:
        return ""
    until = f"closes at {_time(end_ms + grace_ms)} at the latest"
    if bill.covered_ms < bill.expected_ms:
        return f"{(bill.expected_ms - bill.covered_ms) // 1000} s of reports are missing; {until}"
    if basis.heard_until_ms < end_ms + settle_ms:
        return f"reports are in up to {_time(basis.heard_until_ms)} only; {until}"
    return ""


def closing(bill: Bill, now_ms: int) -> Bill:
    """Its versions are chosen."""
    assert bill.state is BillState.OPEN
    assert not bill.hold_reason
    return msgspec.structs.replace(
        bill, state=BillState.CLOSING, revision=bill.revision + 1, updated_at_ms=now_ms
    )


def closed(bill: Bill, now_ms: int) -> Bill:
    """It never changes again."""
    assert bill.state is BillState.CLOSING
    return msgspec.structs.replace(
        bill, state=BillState.CLOSED, revision=bill.revision + 1, updated_at_ms=now_ms, closed_at_ms=now_ms
    )


def same(bill: Bill, lines: Sequence[BillLine], other: Bill, other_lines: Sequence[BillLine]) -> bool:
    """Whether two say the same, whenever they were made and from whichever version of usage."""

    def said(of: Bill, its: Sequence[BillLine]) -> tuple[Bill, list[BillLine]]:
        return (
            msgspec.structs.replace(of, revision=0, updated_at_ms=0, usage_version=0),
            [msgspec.structs.replace(line, usage_version=0) for line in its],
        )

    return said(bill, lines) == said(other, other_lines)


def adjustments_of(
    bill: Bill,
    lines: Iterable[BillLine],
    earlier: Iterable[Adjustment],
    usage: MonthUsage,
    basis: Basis,
    bill_month: str,
) -> list[Adjustment]:
    """What a closed month's usage is now, less what was billed and adjusted: one row per changed dimension.

    `basis.book` is the book that the bill was made with, so only usage differs.
    """
    assert bill.state is BillState.CLOSED
    assert basis.book is not None
    assert basis.book.row.version == bill.price_version
    billed = _billed(lines, earlier)
    found = []
    for now in bill_lines(usage, basis):
        before = billed[now.dimension]
        delta = _Billed(
            now.base_quantity - before.base, now.quantity - before.quantity, now.amount_minor - before.amount
        )
        if any(getattr(delta, each.name) for each in fields(delta)):
            found.append(_adjustment(now, delta, basis, bill_month))
    return found


@dataclass(frozen=True)
class _Billed:
    base: Decimal = Decimal(0)
    quantity: Decimal = Decimal(0)
    amount: int = 0


def _billed(lines: Iterable[BillLine], earlier: Iterable[Adjustment]) -> dict[Dimension, _Billed]:
    billed = {each: _Billed() for each in Dimension}
    for line in lines:
        billed[line.dimension] = _Billed(line.base_quantity, line.quantity, line.amount_minor)
    for each in earlier:
        so_far = billed[each.dimension]
        billed[each.dimension] = replace(
            so_far,
            base=so_far.base + each.base_quantity_delta,
            quantity=so_far.quantity + each.quantity_delta,
            amount=so_far.amount + each.amount_delta_minor,
        )
    return billed


def _adjustment(now: BillLine, delta: _Billed, basis: Basis, bill_month: str) -> Adjustment:
    return Adjustment(
        id=f"{now.instance_id}/{now.month}/{now.dimension}/{basis.usage_version}",
        instance_id=now.instance_id,
        month=now.month,
        bill_month=bill_month,
        dimension=now.dimension,
        base_quantity_delta=delta.base,
        quantity_delta=delta.quantity,
        unit=now.unit,
        amount_delta_minor=delta.amount,
        currency=now.currency,
        price_version=now.price_version,
        usage_version=basis.usage_version,
        reason=f"reports of {now.month} that came after its bill was closed",
        source_batch=basis.source_batch,
        created_at_ms=basis.now_ms,
    )


def adjusting_month(month: str, bills: Mapping[str, Bill]) -> str:
    """The first month after `month` whose bill is open or not made yet; `bills`: the instance's, by month."""
    found = calendar.next_month(month)
    while found in bills and bills[found].state is not BillState.OPEN:
        found = calendar.next_month(found)
    return found

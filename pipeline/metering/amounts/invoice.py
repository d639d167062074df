"""A bill as people read it."""

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final

from contracts.billing import Adjustment, Bill, BillLine, BillState

_WIDTHS: Final = (16, 34, 32, 14)


def invoice(bill: Bill, lines: Sequence[BillLine], adjustments: Sequence[Adjustment]) -> str:
    """All that the bill says. `adjustments`: those on this bill."""
    rows = [
        _row(
            line.dimension,
            f"{_number(line.quantity)} {line.unit}",
            line.detail,
            _money(line.amount_minor, bill),
        )
        for line in lines
    ]
    for each in adjustments:
        quantity = f"{_number(each.quantity_delta)} {each.unit}"
        amount = _money(each.amount_delta_minor, bill)
        rows.append(_row(each.dimension, quantity, f"correction of {each.month}", amount))
        rows.append(f"    {each.reason}")
    total = _row("total", "", bill.currency, _money(bill.total_minor, bill))
    return "\n".join([*_head(bill), "", *rows, "-" * len(total), total, *_tail(bill)]) + "\n"


def _head(bill: Bill) -> list[str]:
    state = f"closed {_time(bill.closed_at_ms)}" if bill.state is BillState.CLOSED else bill.state
    return [
        f"Bill of {bill.instance_id} for {bill.month} (UTC), {state}",
        f"Price book version {bill.price_version}; usage_5m version {bill.usage_version}",
        f"95th percentile: {bill.produce_p95_bytes_per_s} B/s produced, "
        f"{bill.consume_p95_bytes_per_s} B/s consumed",
    ]


def _tail(bill: Bill) -> list[str]:
    tail = []
    if bill.covered_ms < bill.expected_ms:
        share = Decimal(bill.covered_ms) * 100 / bill.expected_ms
        tail += ["", f"Reported: {share:.4f} % of the time; missing: {bill.gaps}"]
    if bill.hold_reason:
        tail += ["", f"Held: {bill.hold_reason}"]
    return tail


def _row(name: str, quantity: str, detail: str, amount: str) -> str:
    left, middle, right, last = _WIDTHS
    return f"{name:<{left}}{quantity:>{middle}}  {detail:<{right}} {amount:>{last}}".rstrip()


def _number(value: Decimal) -> str:
    return f"{value:,.6f}"


def _money(minor: int, bill: Bill) -> str:
    return f"{Decimal(minor).scaleb(-bill.minor_unit_digits):,.{bill.minor_unit_digits}f}"


def _time(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%dT%H:%MZ}"

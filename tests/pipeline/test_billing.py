"""Bills, closing and adjustments on real tables, and 95th percentiles against sorting by hand."""

import random
from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from contracts.billing import BillState
from contracts.names import SYSTEM_INSTANCE_ID
from pipeline.errors import PipelineError
from pipeline.layout import PipelineLayout
from pipeline.metering.amounts import bills as decide
from pipeline.metering.amounts.calendar import end_ms
from pipeline.metering.amounts.quantities import SUMS_READ, month_sums
from pipeline.metering.billing import GRACE_MS, close_month, make_bills, months_to_close
from pipeline.metering.engine import small_engine
from pipeline.metering.ledger import Ledger
from pipeline.metering.price_book import set_prices
from pipeline.metering.rollup import roll_up
from tests.pipeline.usage_rows import HOUR_MS, SLOT_MS, ms, put_usage
from tests.pipeline.usage_rows import usage_row as row

MONTH = "2026-11"
END = end_ms(MONTH)
GB = 10**9
PRICES = """
currency = "USD"
effective_from = 2026-01-01
[produce]
price = 1
[bandwidth_p95]
price = 0
"""


def hours_of(instance: str, first_hour: int, hours: Sequence[int], **fields: Any) -> list[dict[str, Any]]:
    """An hour of slots for each, so many bytes each."""
    return [
        row(instance, first_hour + at * HOUR_MS + slot * SLOT_MS, SLOT_MS, produce_bytes=each, **fields)
        for at, each in enumerate(hours)
        for slot in range(12)
    ]


def test_p95_is_found_among_the_zeros_of_slots_that_are_not_there() -> None:
    of = random.Random(3)
    slots = 8064
    tenants = {
        f"i{index}": [of.randrange(of.choice((10, 2**62))) for _ in range(count)]
        for index, count in enumerate([1, 402, 403, 404, 405, 800, 4000, 7661, 8063, 8064])
    }
    rows = [(tenant, value) for tenant, values in tenants.items() for value in values]
    of.shuffle(rows)
    ids, used = zip(*rows, strict=True)
    columns = dict.fromkeys(SUMS_READ, used) | {"instance_id": ids}
    usage = pa.table({name: [*values] for name, values in columns.items()})
    with small_engine() as database:
        database.register("usage", usage)
        query = f"select instance_id, produce_p95, total_p95 from ({month_sums('usage', slots)})"
        found = {tenant: (produce, total) for tenant, produce, total in database.sql(query).fetchall()}
    for tenant, values in tenants.items():
        month = sorted(values + [0] * (slots - len(values)))
        without_the_highest_twentieth = month[: slots - slots // 20]
        highest = without_the_highest_twentieth[-1]
        assert found[tenant] == (highest, 2 * highest), tenant


def test_a_month_is_billed_closed_and_corrected(layout: PipelineLayout) -> None:
    set_prices(layout, PRICES, now_ms=0)
    last_hours = END - 2 * HOUR_MS
    rows = hours_of("i1", last_hours, [GB, GB, GB]) + hours_of("i2", last_hours, [0, GB, 0])
    lost = rows[5] | {"recovered": True}
    ours = hours_of(SYSTEM_INSTANCE_ID, last_hours, [GB])
    put_usage(layout, [*rows[:5], lost, *rows[6:], *ours], batch=0)
    roll_up(layout)
    made = make_bills(layout, now_ms=END)
    assert (made.months, made.bills) == (("2026-11", "2026-12"), 4)
    assert make_bills(layout, now_ms=END + 1).bills == 0

    grace_end = END + GRACE_MS
    assert months_to_close(layout, grace_end - 1) == []
    assert months_to_close(layout, grace_end) == [MONTH]
    assert months_to_close(layout, grace_end + 40 * 24 * HOUR_MS) == [MONTH, "2026-12"], "none is passed over"
    with pytest.raises(PipelineError, match="is not over"):
        close_month(layout, now_ms=END - 1, month=MONTH)
    closed = close_month(layout, now_ms=END + HOUR_MS, month=MONTH)
    assert closed.closed == 1
    assert [instance for instance, _ in closed.waiting] == ["i1"]
    assert "300 s of reports are missing" in closed.waiting[0][1]
    forced = close_month(layout, now_ms=END + HOUR_MS, month=MONTH, force_with_gaps=True)
    assert (forced.closed, forced.closed_before, forced.waiting) == (1, 1, ())
    ledger = Ledger(layout)
    [first, second] = [bill for bill in ledger.all_bills() if bill.month == MONTH]
    assert (first.total_minor, second.total_minor) == (2400, 1200)
    assert first.gaps == "2026-11-30T22:00Z/2026-11-30T23:00Z 300 s"
    again = close_month(layout, now_ms=END + 9 * HOUR_MS, month=MONTH)
    assert (again.closed, again.closed_before) == (0, 2)
    assert months_to_close(layout, grace_end) == []
    kept = (ledger.all_bills(), ledger.lines_of(MONTH))

    put_usage(layout, [rows[5] | {"produce_bytes": 3 * GB}], batch=1)
    roll_up(layout)
    assert make_bills(layout, now_ms=END + 2 * HOUR_MS).adjustments == 1
    assert make_bills(layout, now_ms=END + 3 * HOUR_MS).adjustments == 0
    ledger = Ledger(layout)
    [correction] = ledger.all_adjustments()
    assert (correction.month, correction.bill_month, correction.source_batch) == (MONTH, "2026-12", 1)
    assert (correction.base_quantity_delta, correction.amount_delta_minor) == (2 * GB, 200)
    bills = {(bill.instance_id, bill.month): bill for bill in ledger.all_bills()}
    december = bills["i1", "2026-12"]
    assert (december.lines_minor, december.adjustments_minor, december.total_minor) == (1200, 200, 1400)
    assert [bill for bill in ledger.all_bills() if bill.month == MONTH] == [first, second]
    assert (kept[0][:2], kept[1]) == ([first, second], ledger.lines_of(MONTH))


def test_a_closing_that_was_cut_short_goes_on_from_its_versions(
    layout: PipelineLayout,
) -> None:
    set_prices(layout, PRICES, now_ms=0)
    rows = hours_of("i1", END - HOUR_MS, [GB, 0])
    put_usage(layout, rows, batch=0)
    roll_up(layout)
    make_bills(layout, now_ms=END)
    ledger = Ledger(layout)
    [november] = [bill for bill in ledger.all_bills() if bill.month == MONTH]
    ledger.put_bills(MONTH, [decide.closing(november, END)])
    ledger.put_lines(MONTH, [])

    put_usage(layout, [rows[0] | {"produce_bytes": 2 * GB}], batch=1)
    roll_up(layout)
    closed = close_month(layout, now_ms=END + HOUR_MS, month=MONTH)
    ledger = Ledger(layout)
    [found] = [bill for bill in ledger.all_bills() if bill.month == MONTH]
    assert (found.state, found.usage_version, found.total_minor) == (
        BillState.CLOSED,
        november.usage_version,
        1200,
    )
    assert [line.amount_minor for line in ledger.lines_of(MONTH)] == [1200, 0]
    assert closed.adjustments == 1, "what came after the versions were chosen is an adjustment"
    assert ledger.all_adjustments()[0].amount_delta_minor == 100


def test_two_writers_do_not_both_change_a_bill(layout: PipelineLayout) -> None:
    sample = {"instance_id": "i1", "month": MONTH, "state": BillState.OPEN}
    numbers = {each.name: "" if each.type is str else 0 for each in msgspec.structs.fields(decide.Bill)}
    bill = decide.Bill(**(numbers | sample))
    Ledger(layout).put_bills(MONTH, [bill])
    one, other = Ledger(layout), Ledger(layout)
    one.put_bills(MONTH, [decide.closing(bill, END)])
    with pytest.raises(PipelineError, match="written by another process meanwhile"):
        other.put_bills(MONTH, [decide.closing(bill, END + 1)])
    assert [each.updated_at_ms for each in Ledger(layout).all_bills()] == [END]


def test_prices_have_versions_and_bills_wait_for_missing_ones(
    layout: PipelineLayout,
) -> None:
    assert set_prices(layout, PRICES, now_ms=1)[0].version == 2, "the default is version 1"
    assert set_prices(layout, PRICES, now_ms=2) == (Ledger(layout).price_books()[1], False)
    put_usage(layout, hours_of("i1", ms("2026-10-01"), [GB], consume_bytes=5), batch=0)
    roll_up(layout)
    assert make_bills(layout, now_ms=END).held == 1
    closed = close_month(layout, now_ms=END, month="2026-10", force_with_gaps=True)
    assert closed.closed == 0
    assert "version 2 of the price book has no price for consume" in closed.waiting[0][1]
    set_prices(layout, PRICES + "[consume]\nprice = 1", now_ms=3)
    assert make_bills(layout, now_ms=END).held == 0
    assert close_month(layout, now_ms=END, month="2026-10").closed == 1

"""A month of many instances: records to bills, against numpy, with late records, restarts and gaps."""

import random
from collections.abc import Iterable
from datetime import date
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake

from contracts.billing import BillState
from pipeline.layout import PipelineLayout
from pipeline.metering.amounts import calendar
from pipeline.metering.billing import GRACE_MS, close_month, make_bills
from pipeline.metering.ledger import Ledger
from pipeline.metering.reconcile import reconcile
from pipeline.metering.rollup import UsageTables, roll_up
from pipeline.metering.versioned_tables import Table
from tests.pipeline.usage_month import SLOTS, Fate, Ints, Size, SyntheticMonth, Totals, raw_rows

SMALL = Size("2026-02", instances=6, points=3)
FULL = Size("2026-11", instances=1000, points=3)


class Life:
    """One month in a layout: what was put in, and the truth."""

    def __init__(self, layout: PipelineLayout, size: Size) -> None:
        self.layout = layout
        self.month = SyntheticMonth(size)
        self.tables = UsageTables(layout)
        self.tables.raw.ensure()
        self.truth: list[Totals] = []
        self.days: list[date] = []
        self.after = calendar.end_ms(size.month)

    def arrive(self, fates: Iterable[Fate], batch: int, only: Iterable[int] | None = None) -> dict[str, int]:
        """Put the month's days, or some of them, as they are with those fates; bytes produced by instance."""
        arrived = list(fates)
        schema = self.tables.raw.schema
        sums: dict[str, int] = dict.fromkeys(self.month.names.tolist(), 0)
        month = SyntheticMonth(self.month.size)
        for index, (day, table, totals) in enumerate(month.tables()):
            rows = raw_rows(table, schema, batch, arrived)
            for name, produced in zip(*_sums(rows), strict=True):
                sums[name] += produced
            if only is None:
                self.truth.append(totals)
                self.days.append(day)
            if only is None or index in only:
                raw = DeltaTable(str(self.tables.raw.path))
                write_deltalake(raw, rows, mode="overwrite", predicate=f"day = '{day}'")
        return sums

    def stack(self, name: str) -> Ints:
        """One column of the truth: instances by slots of the month."""
        return np.concatenate([getattr(totals, name) for totals in self.truth], axis=1)


def _sums(rows: pa.Table) -> tuple[list[str], list[int]]:
    found = rows.group_by("instance_id").aggregate([("produce_bytes", "sum")])
    return found["instance_id"].to_pylist(), found["produce_bytes_sum"].to_pylist()


def day_of(table: Table, day: date) -> pa.Table:
    found = DeltaTable(str(table.path)).to_pyarrow_table(filters=[("day", "=", day)])
    times = [name for name in ("slot_start", "hour_start") if name in found.column_names]
    return found.sort_by([(name, "ascending") for name in ("instance_id", *times)])


def dense(table: pa.Table, column: str, shape: tuple[int, int], step_s: int) -> Ints:
    """A column of one day's rows as an array, instances by periods of the day."""
    found = np.zeros(shape, np.int64)
    instance = np.array([int(name[1:]) - 1 for name in table["instance_id"].to_pylist()], np.int64)
    start = table[table.column_names[2]].cast(pa.timestamp("s", "UTC")).cast(pa.int64()).to_numpy()
    assert len({*zip(instance.tolist(), start.tolist(), strict=True)}) == len(table), (
        "a period is there twice"
    )
    found[instance, start % 86_400 // step_s] = table[column].cast(pa.int64()).to_numpy()
    return found


def check_usage(life: Life) -> None:
    """Every slot and hour of every instance, to the byte; days against hours."""
    instances = life.month.size.instances
    for day, truth in zip(life.days, life.truth, strict=True):
        slots, hours = day_of(life.tables.slots, day), day_of(life.tables.hours, day)
        for name, expected in {
            "produce_bytes": truth.produce,
            "consume_bytes": truth.consume,
            "produce_requests": truth.requests,
            "stored_byte_ms": truth.stored_byte_ms,
        }.items():
            assert np.array_equal(dense(slots, name, (instances, SLOTS), 300), expected), (day, name)
            hourly = expected.reshape(instances, 24, 12)
            assert np.array_equal(dense(hours, name, (instances, 24), 3600), hourly.sum(axis=2)), (day, name)
        peaks = truth.produce.reshape(instances, 24, 12).max(axis=2) // 300
        assert np.array_equal(dense(hours, "produce_peak_5m_bytes_per_s", (instances, 24), 3600), peaks), day
        missing = pc.subtract(slots["expected_ms"], slots["covered_ms"])
        assert np.array_equal(
            dense(slots.append_column("missing", missing), "missing", (instances, SLOTS), 300),
            truth.missing_ms,
        ), day
        days = day_of(life.tables.days, day)
        assert pc.sum(days["consume_bytes"]).as_py() == truth.consume.sum()


def check_bills(life: Life) -> None:
    """Lines and adjustments together are what truly was used; 95th percentiles as sorting finds them."""
    ledger = Ledger(life.layout)
    month = life.month.size.month
    billed: dict[tuple[str, str], int] = {}
    for line in ledger.lines_of(month):
        billed[line.instance_id, line.dimension] = int(line.base_quantity)
    for each in ledger.all_adjustments():
        assert (each.month, each.bill_month) == (month, calendar.next_month(month))
        billed[each.instance_id, each.dimension] += int(each.base_quantity_delta)
    produce, consume = life.stack("produce"), life.stack("consume")
    slots = produce.shape[1]
    rank = slots - slots // 20
    p95 = np.maximum(np.sort(produce, axis=1)[:, rank - 1], np.sort(consume, axis=1)[:, rank - 1])
    stored = [sum(row) for row in life.stack("stored_byte_ms").tolist()]
    requests = life.stack("requests").sum(axis=1)
    for index, name in enumerate(life.month.names.tolist()):
        if (name, "produce") not in billed:
            assert life.month.gone[index] <= life.month.born[index], name
            continue
        assert billed[name, "produce"] == produce[index].sum(), name
        assert billed[name, "consume"] == consume[index].sum(), name
        assert billed[name, "storage"] == stored[index], name
        assert billed[name, "bandwidth_p95"] == p95[index], name
        assert billed[name, "requests"] == requests[index], name


def check_amounts(life: Life) -> None:
    """Of the dimensions with one price, from the quantities on the lines."""
    price = {"produce": "0.05", "storage": "0.00014", "requests": "0.02", "bandwidth_p95": "2"}
    for line in Ledger(life.layout).lines_of(life.month.size.month):
        if line.dimension in price:
            exact = Fraction(line.quantity) * Fraction(price[line.dimension]) * 100
            assert abs(line.amount_minor - exact) <= Fraction(1, 2), line


def live_through(life: Life) -> None:
    layout, month = life.layout, life.month.size.month
    *late, too_late = life.month.late_days
    life.arrive([Fate.ON_TIME], batch=0)
    first = roll_up(layout)
    assert first.hours == life.month.days * 24

    at_closing = life.arrive([Fate.ON_TIME, Fate.LATE], batch=1, only=late)
    assert roll_up(layout).hours == 24 * len(late)
    closed = close_month(layout, now_ms=life.after + GRACE_MS, month=month)
    assert closed.waiting == ()
    ledger = Ledger(layout)
    bills = [bill for bill in ledger.all_bills() if bill.month == month]
    assert {bill.state for bill in bills} == {BillState.CLOSED}
    lines = ledger.lines_of(month)
    produced = {line.instance_id: line.base_quantity for line in lines if line.dimension == "produce"}
    assert produced == {name: Decimal(at_closing[name]) for name in produced}

    life.arrive([Fate.ON_TIME, Fate.LATE, Fate.TOO_LATE], batch=2, only=[too_late])
    assert roll_up(layout).hours == 24
    made = make_bills(layout, now_ms=life.after + GRACE_MS)
    assert made.adjustments > 0
    assert [bill for bill in Ledger(layout).all_bills() if bill.month == month] == bills
    assert Ledger(layout).lines_of(month) == lines


def check_again(life: Life, days: Iterable[date]) -> None:
    """Making days again changes nothing, nor do bills."""
    every = (life.tables.slots, life.tables.hours, life.tables.days)
    chosen = list(days)
    before = [day_of(table, day) for table in every for day in chosen]
    roll_up(life.layout, days=chosen)
    assert [day_of(table, day) for table in every for day in chosen] == before
    again = make_bills(life.layout, now_ms=life.after + 2 * GRACE_MS)
    assert (again.bills, again.adjustments) == (0, 0)


def whole_life(life: Life) -> None:
    live_through(life)
    check_usage(life)
    check_bills(life)
    check_amounts(life)
    check_again(life, random.Random(1).sample(life.days, 3))
    checks = reconcile(life.layout, month=life.month.size.month)
    assert [(check.name, check.examples) for check in checks if check.differences] == []
    assert len(checks) == 5 and all(check.compared > 0 for check in checks)


def test_a_small_month_reconciles_to_the_byte(layout: PipelineLayout) -> None:
    whole_life(Life(layout, SMALL))


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_a_month_of_a_thousand_instances_reconciles_to_the_byte(
    layout: PipelineLayout,
) -> None:
    whole_life(Life(layout, FULL))

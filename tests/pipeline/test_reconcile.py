"""Reconciliation names each table that was tampered with; that it agrees otherwise see `test_month`."""

from typing import Any

import pytest
from deltalake import DeltaTable

from pipeline.errors import PipelineError
from pipeline.layout import PipelineLayout
from pipeline.metering.amounts.calendar import end_ms
from pipeline.metering.billing import close_month, make_bills
from pipeline.metering.reconcile import reconcile
from pipeline.metering.rollup import roll_up
from tests.pipeline.usage_rows import MINUTE_MS, put_usage
from tests.pipeline.usage_rows import usage_row as row

MONTH = "2026-11"
END = end_ms(MONTH)
COUNTERS = "records = counters of the points"
SLOTS = "records = usage_5m"
HOURS = "usage_5m = usage_hour"
DAYS = "usage_hour = usage_day"
BILLS = "usage = bills and adjustments"


def records() -> list[dict[str, Any]]:
    """Two boot ids over the end of a month, with a record of each lost and recovered."""
    rows = []
    for boot in ("a", "b"):
        total = 100
        for minute in range(-90, 30):
            size = 1000 + minute
            total += size
            sizes = {"produce_bytes": size, "produce_bytes_total": total, "stored_byte_ms": MINUTE_MS * total}
            at_ms = END + minute * MINUTE_MS
            rows.append(row("i1", at_ms, boot_id=boot, recovered=minute == -7, **sizes))
    return rows


def tamper(layout: PipelineLayout, table: str, change: dict[str, str], where: str) -> None:
    done = DeltaTable(str(layout.table(table))).update(change, predicate=where)
    assert done["num_updated_rows"] == 1, table


def test_each_table_that_was_tampered_with_is_named(layout: PipelineLayout) -> None:
    put_usage(layout, records(), batch=0)
    roll_up(layout)
    close_month(layout, now_ms=END, month=MONTH, force_with_gaps=True)
    make_bills(layout, now_ms=END)
    first_december = f"boot_id = 'a' and interval_start_ms = {END}"
    tamper(layout, "usage_raw", {"produce_bytes": "produce_bytes + 1"}, first_december)
    tamper(layout, "usage_5m", {"produce_bytes": "produce_bytes + 7"}, "slot_start = '2026-11-30T23:00:00Z'")
    tamper(layout, "usage_hour", {"consume_bytes": "3"}, "hour_start = '2026-12-01T00:00:00Z'")
    tamper(layout, "usage_day", {"state": "'shut'"}, "day = '2026-11-30'")
    tamper(layout, "bill", {"total_minor": "total_minor + 1"}, "month = '2026-12'")
    tamper(layout, "bill_line", {"quantity": "quantity + 1"}, "month = '2026-11' and dimension = 'storage'")
    found = {check.name: check.examples for check in reconcile(layout)}
    assert [text.split(":")[0] for text in found[COUNTERS]] == ["a i1"]
    assert [text.split(":")[0] for text in found[SLOTS]] == ["i1 2026-11-30", "i1 2026-12-01"]
    assert [text.split(":")[0] for text in found[HOURS]] == ["i1 2026-11-30 23", "i1 2026-12-01 00"]
    assert "consume_bytes is 3, should be 0" in found[HOURS][1]
    assert [text.split(": ")[0] for text in found[DAYS]] == ["i1 2026-11-30", "i1 2026-12-01"]
    assert "state is shut, should be open" in found[DAYS][0]
    said = "\n".join(found[BILLS])
    assert "i1 2026-11: line storage is" in said
    assert "i1 2026-11: produce is 7 more than what was billed and adjusted" in said
    assert "i1 2026-12: the total" in said


def test_records_that_are_not_rolled_up_yet_are_said(layout: PipelineLayout) -> None:
    with pytest.raises(PipelineError, match="no usage yet"):
        reconcile(layout)
    put_usage(layout, records()[:3], batch=0)
    roll_up(layout)
    put_usage(layout, records()[3:5], batch=1)
    with pytest.raises(PipelineError, match=r"batch 1 .* up to 0"):
        reconcile(layout)

"""What leaves `usage_raw`, when, and that nothing that is counted afterwards is another for it."""

from datetime import UTC, date, datetime
from shutil import rmtree
from typing import Any

import msgspec
import pytest
from deltalake import DeltaTable

from contracts.billing import Bill, BillState
from contracts.usage_records import USAGE_RAW
from pipeline.errors import PipelineError
from pipeline.layout import PipelineLayout
from pipeline.metering.billing import close_month, make_bills
from pipeline.metering.reconcile import reconcile
from pipeline.metering.rollup import UsageTables, roll_up
from pipeline.metering.tidy import TidyFigures, removable, tidy
from pipeline.progress import Silent
from tests.pipeline.usage_topic import MINUTE_MS, START_MS, UsageTopicTable, a_record, a_run
from tests.unit.pipeline.test_billing_decisions import closed_bill

NOTHING = {"stored_bytes": 0, "stored_byte_ms": 0, "partitions_led": 0}


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1000


def a_bill(month: str, *, is_open: bool = False) -> Bill:
    changes = {"state": BillState.OPEN} if is_open else {"closed_at_ms": CLOSED_MS}
    return msgspec.structs.replace(closed_bill(), month=month, **changes)


MARCH_MS, CLOSED_MS, NOW_MS = at("2027-03-01"), at("2026-12-05"), at("2027-03-10")


def in_march(minute: int, produced: int, total: int) -> Any:
    return a_record(0, produced, total, boot_id="long", start_ms=MARCH_MS + minute * MINUTE_MS)


def november(table: UsageTopicTable) -> None:
    """A boot id that lives on, with a gap, and one that ends; what two masters counted is taken back."""
    long = a_run([100, 200, 300, 400], boot_id="long")
    table.take([long[0], long[1], a_record(3, 400, 1000, boot_id="long", **NOTHING)])
    table.take(
        [
            *a_run([100, 200], boot_id="dead"),
            a_record(1, 250, 300, boot_id="dead", start_ms=START_MS + 90_000, interval_ms=30_000),
        ]
    )


def settled(layout: PipelineLayout, now_ms: int) -> None:
    roll_up(layout)
    make_bills(layout, now_ms=now_ms)


def tidied(layout: PipelineLayout, now_ms: int = NOW_MS) -> TidyFigures:
    return tidy(layout, Silent(), now_ms=now_ms)


def used(layout: PipelineLayout) -> list[dict[str, Any]]:
    rows = UsageTables(layout).slots.dataset().to_table().to_pylist()
    return sorted(rows, key=lambda row: row["slot_start"])


def test_months_that_are_closed_long_ago_leave_and_what_comes_counts_as_before(
    layout: PipelineLayout,
) -> None:
    table = UsageTopicTable(layout)
    november(table)
    settled(layout, CLOSED_MS)
    assert tidied(layout).removed_rows == 0, "its bill is open"
    assert close_month(layout, now_ms=CLOSED_MS, month="2026-11").closed == 1
    for minute in range(9):
        table.take([in_march(minute, 10, 1010 + 10 * minute)], now_ms=NOW_MS)
    waiting = tidied(layout)
    assert waiting.removed_rows == 0, "records wait to be added up"
    assert (waiting.joined_days, waiting.files_before, waiting.files_after) == (1, 11, 3)
    settled(layout, NOW_MS)
    assert tidied(layout, CLOSED_MS + 90 * 86_400_000 - 1).removed_rows == 0, "kept for 90 days"

    before, rows = used(layout), len(table.rows())
    figures = tidied(layout)
    left = table.rows()
    assert figures.removed_before == date(2026, 12, 1) and figures.removed_rows == rows - len(left) > 0
    assert (figures.files_before, figures.files_after) == (3, 2)
    old = [(row["boot_id"], row["produce_bytes_total"]) for row in left if row["day"] < date(2027, 1, 1)]
    assert old == [("dead", 300), ("long", 1000)], "the last of each counter"
    assert tidied(layout).removed_rows == 0 and table.rows() == left

    late = in_march(10, 5, 1110)
    table.take([in_march(11, 20, 1130)], now_ms=NOW_MS)
    table.take([late], now_ms=NOW_MS)
    assert [row["produce_bytes"] for row in table.rows() if row["boot_id"] == "long"][-3:] == [15, 5, 20]
    assert sum(row["produce_bytes"] for row in table.rows() if row["day"].month == 3) == 1130 - 1000
    settled(layout, NOW_MS)
    assert [row for row in used(layout) if row["day"].month == 11] == [
        row for row in before if row["day"].month == 11
    ]
    assert [check for check in reconcile(layout) if check.differences] == []
    with pytest.raises(PipelineError, match="records before 2026-12-01 were tidied away"):
        roll_up(layout, days=[date(2026, 11, 20)])


def test_usage_of_what_is_gone_is_not_made_again_where_the_log_forgot_the_last_run(
    layout: PipelineLayout,
) -> None:
    table = UsageTopicTable(layout)
    november(table)
    settled(layout, CLOSED_MS)
    close_month(layout, now_ms=CLOSED_MS, month="2026-11")
    assert tidied(layout).removed_rows > 0
    before = used(layout)
    rmtree(UsageTables(layout).days.path)
    assert roll_up(layout).hours == 0
    assert used(layout) == before


def test_a_tidying_that_loses_rows_changes_nothing(
    layout: PipelineLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = UsageTopicTable(layout)
    for record in a_run([100] * 9):
        table.take([record])
    before, version = table.rows(), DeltaTable(str(layout.table(USAGE_RAW))).version()
    monkeypatch.setattr("pipeline.metering.tidy.stage_rows", lambda *_: [])
    with pytest.raises(PipelineError, match="9 rows became 0: nothing was changed"):
        tidied(layout, CLOSED_MS)
    assert table.rows() == before and DeltaTable(str(layout.table(USAGE_RAW))).version() == version


@pytest.mark.parametrize(
    ("bills", "month"),
    [
        ([], None),
        ([a_bill("2026-08"), a_bill("2026-09"), a_bill("2026-10")], "2026-11"),
        ([a_bill("2026-08"), a_bill("2026-10")], "2026-09"),
        ([a_bill("2026-09"), a_bill("2026-10")], None),
        ([a_bill("2026-08"), a_bill("2026-09", is_open=True), a_bill("2026-10")], "2026-09"),
    ],
)
def test_a_month_leaves_with_all_before_it(bills: list[Bill], month: str | None) -> None:
    used = {each: {bills[0].instance_id if bills else "i1"} for each in ("2026-08", "2026-09", "2026-10")}
    used["2026-10"].add("i00000000000")
    assert removable(bills, used, now_ms=NOW_MS, keep_days=60) == month


def test_a_month_waits_for_who_was_used_and_has_no_bill() -> None:
    bill = a_bill("2026-08")
    used = {"2026-08": {bill.instance_id, "inobodyelse1"}}
    assert removable([bill], used, now_ms=NOW_MS, keep_days=60) is None

"""Usage and bills of an instance, read from real Delta tables."""

import csv
import io
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from contracts.billing import BillState, Dimension, PeriodState
from tenants.console import Console

from . import metered
from .conftest import Caller
from .delta_tables import write

START = datetime(2026, 10, 1, tzinfo=UTC)
MONTH = "from=2026-10-01T00:00:00Z&to=2026-11-01T00:00:00Z"


def _meter(tables: Path, instance_id: str, scale: int = 1) -> None:
    """Two hours and a day of usage, by every resolution."""
    slots = [
        metered.slot(instance_id, START + timedelta(minutes=5 * number), scale * (number + 1) * 3000)
        for number in range(24)
    ]
    hours = [metered.hour(instance_id, START + timedelta(hours=number), scale * 10**6) for number in range(2)]
    partial = {"state": PeriodState.OPEN, "estimated": True, "covered_ms": 900_000}
    hours.append(metered.hour(instance_id, START + timedelta(hours=2), scale * 10**5, **partial))
    write(tables, "usage_5m", slots, by="day")
    write(tables, "usage_hour", hours, by="day")
    write(tables, "usage_day", [metered.day(instance_id, START, scale * 5 * 10**6)], by="month")


async def test_before_anything_is_metered(operator: Caller) -> None:
    await operator.order()
    answer = (await operator("GET", f"instances/shop/usage?{MONTH}")).json()
    assert (answer["available"], answer["items"], answer["totals"], answer["p95"]) == (False, [], None, None)
    assert "portico pipeline meter run" in answer["hint"]
    bills = (await operator("GET", "instances/shop/bills")).json()
    assert (bills["available"], bills["items"]) == (False, [])
    assert "portico pipeline meter run" in bills["hint"]
    assert (await operator("GET", "instances/shop/bills/2026-10")).status_code == 404
    overview = (await operator("GET", "bills")).json()
    assert (overview["available"], overview["items"], overview["months"]) == (False, [], [])


async def test_usage_by_hour(operator: Caller, tables: Path) -> None:
    made = await operator.order()
    _meter(tables, str(made["id"]))
    _meter(tables, "iaaaaaaaaaaa", scale=1000)
    answer = (await operator("GET", f"instances/shop/usage?{MONTH}&resolution=hour")).json()
    assert (answer["available"], answer["hint"], answer["resolution"]) == (True, None, "hour")
    assert (answer["instance_id"], answer["name"], answer["tenant"]) == (made["id"], "shop", "default")
    assert (answer["from"], answer["to"]) == ("2026-10-01T00:00:00Z", "2026-11-01T00:00:00Z")
    assert [one["at"] for one in answer["items"]] == [f"2026-10-01T0{hour}:00:00Z" for hour in range(3)]
    first, _second, last = answer["items"]
    assert (first["produce_bytes"], first["consume_bytes"], first["gb_hours"]) == (10**6, 2 * 10**6, 1.0)
    assert (first["state"], first["completeness"], first["estimated"]) == ("complete", 1.0, False)
    assert (last["state"], last["completeness"], last["estimated"]) == ("open", 0.25, True)
    totals = answer["totals"]
    assert (totals["produce_bytes"], totals["gb_hours"], totals["estimated"]) == (2_100_000, "3.000000", True)


async def test_usage_by_five_minutes_and_by_day(operator: Caller, tables: Path) -> None:
    made = await operator.order()
    _meter(tables, str(made["id"]))
    span = "from=2026-10-01T00:10:00Z&to=2026-10-01T00:20:00Z"
    slots = (await operator("GET", f"instances/shop/usage?{span}&resolution=5m")).json()["items"]
    assert [one["at"] for one in slots] == ["2026-10-01T00:10:00Z", "2026-10-01T00:15:00Z"]
    assert [one["produce_peak_bytes_per_s"] for one in slots] == [30, 40]
    assert slots[0]["state"] is None
    span = "from=2026-09-01T00:00:00Z&to=2027-09-01T00:00:00Z"
    days = (await operator("GET", f"instances/shop/usage?{span}&resolution=day")).json()
    assert [(one["at"], one["produce_bytes"]) for one in days["items"]] == [
        ("2026-10-01T00:00:00Z", 5_000_000)
    ]
    assert days["p95"] is None


async def test_the_95th_percentile_is_that_of_a_bill(operator: Caller, tables: Path) -> None:
    made = await operator.order()
    _meter(tables, str(made["id"]))
    whole = (await operator("GET", f"instances/shop/usage?{MONTH}")).json()["p95"]
    assert whole == {"produce_bytes_per_s": 0, "consume_bytes_per_s": 0}
    span = "from=2026-10-01T00:00:00Z&to=2026-10-01T02:00:00Z"
    two_hours = (await operator("GET", f"instances/shop/usage?{span}")).json()["p95"]
    assert two_hours == {"produce_bytes_per_s": 230, "consume_bytes_per_s": 460}


@pytest.mark.parametrize(
    "query",
    [
        "from=yesterday",
        "resolution=week",
        "format=xml",
    ],
)
async def test_wrong_questions(operator: Caller, query: str) -> None:
    await operator.order()
    answer = await operator("GET", f"instances/shop/usage?{query}")
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["field"] in ("from", "resolution", "format")


@pytest.mark.parametrize(
    "query",
    [
        "from=2026-10-02T00:00:00Z&to=2026-10-01T00:00:00Z",
        "from=0001-01-01T00:00:00Z",
        "to=9999-12-31T23:59:59Z&resolution=day",
        "from=2020-01-01T00:00:00Z&to=2026-01-01T00:00:00Z",
    ],
)
async def test_spans_that_do_not_fit(operator: Caller, query: str) -> None:
    await operator.order()
    answer = await operator("GET", f"instances/shop/usage?{query}")
    assert answer.status_code == 409, answer.text
    assert answer.json()["errors"][0]["field"] in ("from", "to")


async def test_usage_as_csv(operator: Caller, tables: Path) -> None:
    made = await operator.order()
    _meter(tables, str(made["id"]))
    answer = await operator("GET", f"instances/shop/usage?{MONTH}&format=csv")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    name = "usage-shop-2026-10-01-2026-10-31-hour.csv"
    assert answer.headers["content-disposition"] == f'attachment; filename="{name}"'
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert (rows[0]["at"], rows[0]["produce_bytes"]) == ("2026-10-01T00:00:00Z", "1000000")
    assert (rows[2]["estimated"], rows[2]["state"]) == ("true", "open")
    rest = "from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z&format=csv"
    empty = await operator("GET", f"instances/shop/usage?{rest}")
    assert len(empty.text.splitlines()) == 1


async def _asked(operator: Caller, client: Any, accept: str) -> str:
    headers = {"Authorization": "Bearer operator-key-of-this-test", "Accept": accept}
    answer = await client.get("/v1/instances/shop/bills", headers=headers)
    return str(answer.headers["content-type"])


async def test_accept_decides(operator: Caller, client: Any) -> None:
    await operator.order()
    assert (await _asked(operator, client, "text/csv")).startswith("text/csv")
    assert (await _asked(operator, client, "text/html, text/csv;q=0.5")).startswith("text/csv")
    for accept in ("application/json, text/csv", "*/*", "text/csv;q=0", "", "nonsense;;,"):
        assert await _asked(operator, client, accept) == "application/json"


def _bill(tables: Path, instance_id: str) -> None:
    bills = [
        metered.bill(instance_id),
        metered.bill(
            instance_id,
            "2026-11",
            state=BillState.OPEN,
            closed_at_ms=0,
            lines_minor=700,
            adjustments_minor=-45,
            total_minor=655,
            covered_ms=900,
            gaps="2026-11-03T04:00Z 100 s",
        ),
    ]
    lines = [
        metered.line(instance_id, Dimension.PRODUCE, 12_000),
        metered.line(instance_id, Dimension.STORAGE, 345, unit="GB-hours"),
        metered.line(instance_id, Dimension.PRODUCE, 99_999, usage_version=6),
        metered.line(instance_id, Dimension.PRODUCE, 700, "2026-11"),
    ]
    write(tables, "bill", bills, by="month")
    write(tables, "bill_line", lines, by="month")
    write(tables, "adjustment", [metered.adjustment(instance_id, "2026-10", "2026-11", -45)], by="bill_month")


async def test_bills_by_month(operator: Caller, tables: Path) -> None:
    made = await operator.order()
    _bill(tables, str(made["id"]))
    _bill(tables, "iaaaaaaaaaaa")
    running, closed = (await operator("GET", "instances/shop/bills")).json()["items"]
    assert (running["month"], running["state"], running["estimated"]) == ("2026-11", "open", True)
    assert (running["completeness"], running["closed_at"]) == (0.9, None)
    assert (closed["month"], closed["state"], closed["estimated"]) == ("2026-10", "closed", False)
    assert (closed["total_minor"], closed["currency"], closed["minor_unit_digits"]) == (12_300, "USD", 2)


async def test_one_bill_with_lines_and_adjustments(operator: Caller, tables: Path) -> None:
    made = await operator.order()
    _bill(tables, str(made["id"]))
    closed = (await operator("GET", "instances/shop/bills/2026-10")).json()
    assert [(one["dimension"], one["amount_minor"]) for one in closed["lines"]] == [
        ("produce", 12_000),
        ("storage", 345),
    ]
    assert closed["lines"][0]["quantity"] == "2.000000"
    assert closed["adjustments"] == []
    assert [one["amount_delta_minor"] for one in closed["corrections"]] == [-45]
    running = (await operator("GET", "instances/shop/bills/2026-11")).json()
    assert [one["month"] for one in running["adjustments"]] == ["2026-10"]
    assert running["corrections"] == []
    assert (await operator("GET", "instances/shop/bills/2026-12")).status_code == 404
    for month in ("2026-13", "2026", "2026-1", "²026-11", "2026-11'--"):
        assert (await operator("GET", f"instances/shop/bills/{month}")).status_code == 422


async def test_a_bill_as_csv(operator: Caller, tables: Path) -> None:
    made = await operator.order()
    _bill(tables, str(made["id"]))
    answer = await operator("GET", "instances/shop/bills/2026-11?format=csv")
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert [(row["kind"], row["month"], row["amount"]) for row in rows] == [
        ("line", "2026-11", "7.00"),
        ("adjustment", "2026-10", "-0.45"),
        ("total", "2026-11", "6.55"),
    ]


async def test_a_bill_as_focus(operator: Caller, tables: Path) -> None:
    made = await operator.order()
    _bill(tables, str(made["id"]))
    answer = await operator("GET", "instances/shop/bills/2026-11?format=focus")
    assert answer.headers["content-type"].startswith("text/csv")
    assert "focus-shop-2026-11.csv" in answer.headers["content-disposition"]
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert [(row["ChargeCategory"], row["ChargeClass"], row["BilledCost"]) for row in rows] == [
        ("Usage", "", "7.00"),
        ("Usage", "Correction", "-0.45"),
    ]
    assert {(row["BillingAccountId"], row["ResourceId"]) for row in rows} == {("default", made["id"])}
    assert "'" not in answer.text, "no cell is altered for spreadsheets"
    # The one of October lacks the adjustment that it counts: somebody writes it just now.
    half = await operator("GET", "instances/shop/bills/2026-10?format=focus")
    assert (half.status_code, "the bill of shop is being written" in half.json()["detail"]) == (503, True)
    assert (await operator("GET", "instances/shop/bills?format=focus")).status_code == 422
    assert (await operator("GET", "instances/shop/usage?format=focus")).status_code == 422


async def test_all_bills_of_a_tenant(operator: Caller, tables: Path) -> None:
    owner, stranger = await operator.tenant("acme"), await operator.tenant("other")
    one, gone = await owner.order("one"), await owner.order("gone")
    theirs = await stranger.order("theirs")
    for made in (one, gone, theirs):
        _bill(tables, str(made["id"]))
    await owner("DELETE", "instances/gone")
    overview = (await owner("GET", "bills")).json()
    assert (overview["month"], overview["months"]) == ("2026-11", ["2026-11", "2026-10"])
    assert [(each["name"], each["deleted"]) for each in overview["items"]] == [("gone", True), ("one", False)]
    assert overview["totals"] == [
        {"currency": "USD", "minor_unit_digits": 2, "total_minor": 1310, "bills": 2, "estimated": True}
    ]
    assert str(theirs["id"]) not in str(overview)
    closed = (await owner("GET", "bills?month=2026-10")).json()
    assert closed["totals"][0]["total_minor"] == 24_600
    everybody = (await operator("GET", "bills?tenant=*")).json()
    assert [each["tenant"] for each in everybody["items"]] == ["acme", "acme", "other"]
    assert (await operator("GET", "bills?tenant=other")).json()["items"][0]["name"] == "theirs"
    assert (await owner("GET", "bills?tenant=other")).status_code == 403
    assert (await owner("GET", "bills?tenant=*")).status_code == 403
    assert (await owner("GET", "bills?month=x")).status_code == 422
    text = (await owner("GET", "bills?format=csv")).text
    assert [line.split(",")[2] for line in text.splitlines()] == ["name", "gone", "one"]


async def test_all_bills_of_a_month_as_focus(operator: Caller, tables: Path) -> None:
    owner, stranger = await operator.tenant("acme"), await operator.tenant("other")
    two, one = await owner.order("two"), await owner.order("one")
    theirs = await stranger.order("theirs")
    for made in (two, one, theirs):
        _bill(tables, str(made["id"]))
    answer = await owner("GET", "bills?format=focus")
    assert 'filename="focus-2026-11.csv"' in answer.headers["content-disposition"]
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert [(row["ResourceId"], row["BilledCost"]) for row in rows] == [
        *((one["id"], "7.00"), (one["id"], "-0.45")),
        *((two["id"], "7.00"), (two["id"], "-0.45")),
    ]
    everybody = (await operator("GET", "bills?format=focus&tenant=*&month=2026-11")).text
    rows = list(csv.DictReader(io.StringIO(everybody)))
    assert [row["BillingAccountName"] for row in rows] == ["acme"] * 4 + ["other"] * 2
    assert (await owner("GET", "bills?format=focus&tenant=other")).status_code == 403
    assert (await owner("GET", "bills?format=focus&month=2026-10")).status_code == 503
    nothing = (await owner("GET", "bills?format=focus&month=2020-01")).text
    assert nothing.splitlines() == [",".join(rows[0])]


async def test_a_deleted_instance_keeps_its_bill_for_its_tenant(operator: Caller, tables: Path) -> None:
    owner, stranger = await operator.tenant("acme"), await operator.tenant("other")
    made = await owner.order()
    _bill(tables, str(made["id"]))
    await owner("DELETE", "instances/shop")
    for path in ("bills", "bills/2026-10", "usage"):
        assert (await owner("GET", f"instances/{made['id']}/{path}")).status_code == 200
        assert (await stranger("GET", f"instances/{made['id']}/{path}")).status_code == 404
        assert (await owner("GET", f"instances/shop/{path}")).status_code == 404
    assert (await owner("GET", f"instances/{made['id']}")).status_code == 404


async def test_viewers_see_usage_and_bills(operator: Caller, tables: Path) -> None:
    owner = await operator.tenant("acme")
    made = await owner.order()
    _bill(tables, str(made["id"]))
    viewer = await operator.tenant("acme", "viewer")
    for path in ("usage", "bills", "bills/2026-10"):
        assert (await viewer("GET", f"instances/shop/{path}")).status_code == 200
    assert (await viewer("GET", "bills")).status_code == 200


async def test_a_newer_version_is_seen(
    operator: Caller, tables: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenants.pipeline_tables._FRESH_MS", 0)
    made = await operator.order()
    instance_id = str(made["id"])
    write(tables, "usage_hour", [metered.hour(instance_id, START, 1)], by="day")
    path = f"instances/shop/usage?{MONTH}"
    assert len((await operator("GET", path)).json()["items"]) == 1
    write(tables, "usage_hour", [metered.hour(instance_id, START + timedelta(hours=1), 1)], by="day")
    assert len((await operator("GET", path)).json()["items"]) == 2
    # Deleted and made again by somebody who starts anew.
    (tables / "usage_hour").rename(tables / "old")
    assert (await operator("GET", path)).json()["available"] is False
    write(tables, "usage_hour", [metered.hour(instance_id, START, 3)], by="day")
    assert [one["produce_bytes"] for one in (await operator("GET", path)).json()["items"]] == [3]


def _no_log(table: Path) -> None:
    for file in (table / "_delta_log").iterdir():
        file.unlink()


def _cut_log(table: Path) -> None:
    [commit] = (table / "_delta_log").glob("*.json")
    commit.write_bytes(commit.read_bytes()[:300])


def _garbage_log(table: Path) -> None:
    [commit] = (table / "_delta_log").glob("*.json")
    commit.write_bytes(os.urandom(500))


def _no_data(table: Path) -> None:
    for file in table.rglob("*.parquet"):
        file.unlink()


def _cut_data(table: Path) -> None:
    for file in table.rglob("*.parquet"):
        file.write_bytes(file.read_bytes()[:100])


def _garbage_data(table: Path) -> None:
    for file in table.rglob("*.parquet"):
        file.write_bytes(b"PAR1" + os.urandom(2000) + b"PAR1")


@pytest.mark.parametrize("damage", [_cut_log, _garbage_log, _no_data, _cut_data, _garbage_data])
async def test_a_damaged_table_is_said(operator: Caller, tables: Path, damage: Any) -> None:
    made = await operator.order()
    _meter(tables, str(made["id"]))
    _bill(tables, str(made["id"]))
    for table in ("usage_hour", "bill"):
        damage(tables / table)
    for path in (f"instances/shop/usage?{MONTH}", "instances/shop/bills", "instances/shop/bills/2026-10"):
        answer = await operator("GET", path)
        assert answer.status_code == 503, answer.text
        assert "cannot be read now: try again in a minute" in answer.json()["detail"]
        assert str(tables) not in answer.text
    assert (await operator("GET", "instances/shop")).status_code == 200


async def test_a_folder_without_a_commit_is_no_table_yet(operator: Caller, tables: Path) -> None:
    made = await operator.order()
    _meter(tables, str(made["id"]))
    _no_log(tables / "usage_hour")
    answer = (await operator("GET", f"instances/shop/usage?{MONTH}")).json()
    assert answer["available"] is False
    (tables / "bill").write_text("a file")
    assert (await operator("GET", "instances/shop/bills")).json()["available"] is False


async def test_a_table_of_another_version_is_said(operator: Caller, tables: Path) -> None:
    await operator.order()
    write(tables, "bill", [metered.adjustment("i", "2026-10", "2026-11", 1)])
    assert (await operator("GET", "instances/shop/bills")).status_code == 503


async def test_no_pipeline_here(operator: Caller, plane: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plane._tables, "_folder", None)
    await operator.order()
    assert (await operator("GET", f"instances/shop/usage?{MONTH}")).json()["available"] is False


def test_reading_needs_no_pyarrow_and_is_not_paid_for_unasked(tables: Path) -> None:
    write(tables, "usage_hour", [metered.hour("iaaaaaaaaaaa", START, 42)], by="day")
    script = """
import asyncio, pathlib, sys
sys.modules["pyarrow"] = sys.modules["pyspark"] = sys.modules["pandas"] = None
import tenants.app, tenants.console
assert "deltalake" not in sys.modules and "arro3" not in sys.modules
from tenants.pipeline_tables import DeltaTables
from tenants.store.engine import Store
from tenants.rules.usage_periods import Resolution, Span
from tenants.usecases.usage import UsageReports
tables = pathlib.Path(sys.argv[1])
reports = UsageReports(DeltaTables(tables), Store.open(f"sqlite:///{tables}.db"))
span = Span(1790812800000, 1790812800000 + 86400000)
print(asyncio.run(reports.periods("iaaaaaaaaaaa", span, Resolution.HOUR, 0)).periods[0].produce_bytes)
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(tables)], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout.strip()) == (0, "42"), done.stderr

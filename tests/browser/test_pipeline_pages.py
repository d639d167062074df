"""Pipeline runs, usage, bills and advice in a real browser, on tables as the pipeline writes them."""

import datetime as dt
import math
import re
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.sync_api import Browser, Page, expect

from contracts.advice import Metric, Urgency
from contracts.billing import BillState, Dimension, PeriodState, PriceBook
from contracts.pipeline import PIPELINE_DIR, TABLES_DIR
from tests.browser.conftest import log_in
from tests.browser.test_pages import COLOURED
from tests.integration.stack import Stack, running_stack
from tests.unit.tenants import metered
from tests.unit.tenants.delta_tables import write

pytestmark = pytest.mark.browser
PICTURES: Final = Path(__file__).resolve().parents[2] / "test-results" / "browser"
LONG_NAME: Final = "telemetry-of-everything-in-the-company"
HUGE_MINOR: Final = 1_234_567_890_123


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running_stack(tmp_path_factory.mktemp("metered") / "data", "--workers", "1") as running:
        yield running


@pytest.fixture(scope="module")
def tables(stack: Stack) -> Path:
    return stack.data_dir / PIPELINE_DIR / TABLES_DIR


@pytest.fixture(scope="module")
def shop(stack: Stack, tables: Path) -> str:
    """An instance with two months of usage and bills, and advice."""
    instance_id = str(stack.create_instance("shop", produce_rate_bytes_per_s=2_000_000)["id"])
    _meter(tables, instance_id)
    _bill(tables, instance_id, 98_765)
    _advise(tables, instance_id)
    return instance_id


@pytest.fixture(scope="module")
def huge(stack: Stack, tables: Path, shop: str) -> str:
    """One with a long name and long numbers."""
    instance_id = str(stack.create_instance(LONG_NAME)["id"])
    _meter(tables, instance_id, scale=10**6)
    _bill(tables, instance_id, HUGE_MINOR, hold_reason="bandwidth_p95 was used and has no price")
    return instance_id


@pytest.fixture
def page(browser: Browser, stack: Stack) -> Iterator[Page]:
    """A logged-in operator. Fails when a script fails."""
    context = browser.new_context(viewport={"width": 1440, "height": 1000}, base_url=stack.console_url)
    made = context.new_page()
    made.set_default_timeout(15_000)
    faults: list[str] = []
    made.on("pageerror", lambda error: faults.append(str(error)))
    assert stack.admin_password is not None
    log_in(made, stack.admin_password)
    yield made
    context.close()
    assert faults == []


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC).replace(minute=0, second=0, microsecond=0)


def _months() -> tuple[str, str]:
    """The last month and the running one."""
    first = _now().replace(day=1, hour=0)
    return f"{first - dt.timedelta(days=1):%Y-%m}", f"{first:%Y-%m}"


def _meter(tables: Path, instance_id: str, scale: int = 1) -> None:
    last, _running = _months()
    start = dt.datetime.strptime(f"{last}-01+0000", "%Y-%m-%d%z")
    hours, slots = [], []
    for number in range(int((_now() - start).total_seconds() // 3600) + 1):
        at = start + dt.timedelta(hours=number)
        used = scale * int(2e9 * (1.2 + math.sin(number / 24 * 2 * math.pi)))
        state = PeriodState.OPEN if at == _now() else PeriodState.COMPLETE
        stored = Decimal(scale * (10**9 + number * 10**6) * 3_600_000)
        hours.append(metered.hour(instance_id, at, used, state=state, stored_byte_ms=stored))
        slots.append(metered.slot(instance_id, at, used // 12))
    write(tables, "usage_hour", hours, by="day")
    write(tables, "usage_5m", slots, by="day")


def _bill(tables: Path, instance_id: str, minor: int, **changes: Any) -> None:
    last, running = _months()
    closed = {"lines_minor": minor, "adjustments_minor": 0, "total_minor": minor}
    state = {"state": BillState.OPEN, "closed_at_ms": 0, "usage_version": 9, "covered_ms": 997}
    amounts = {"lines_minor": minor, "adjustments_minor": -45, "total_minor": minor - 45}
    gaps = {"gaps": f"{running}-01T04:00Z 120 s"}
    bills = [
        metered.bill(instance_id, last, **closed),
        metered.bill(instance_id, running, **(state | amounts | gaps | changes)),
    ]
    write(tables, "bill", bills, by="month")
    for month, version in ((last, 7), (running, 9)):
        lines = [
            metered.line(instance_id, Dimension.PRODUCE, minor - 1000, month, usage_version=version),
            metered.line(instance_id, Dimension.STORAGE, 1000, month, usage_version=version, unit="GB-hours"),
        ]
        write(tables, "bill_line", lines, by="month")
    write(tables, "adjustment", [metered.adjustment(instance_id, last, running, -45)], by="bill_month")


def _advise(tables: Path, instance_id: str) -> None:
    today = _now().date()
    write(tables, "advice", [metered.advice(instance_id, today, urgency=Urgency.NOW)], by="run_date")
    write(tables, "skew", [metered.skew(instance_id, today)], by="run_date")
    forecasts = [metered.forecast(instance_id, today, metric) for metric in Metric]
    write(tables, "forecast", forecasts, by="run_date")
    write(tables, "moves", [metered.move(instance_id, today)], by="run_date")


def picture(page: Page, name: str) -> None:
    """What the page looked like, for people."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / f"{name}.png", full_page=True)


def drawn(page: Page, label: str) -> None:
    """Until a chart has pixels in the colours of its lines."""
    page.wait_for_function(COLOURED, arg=page.get_by_role("img", name=label).element_handle())


def tell(stack: Stack, run_id: str, **changes: Any) -> None:
    """A status as a job tells it."""
    now_ms = time.time_ns() // 1_000_000
    status = {"id": run_id, "job": "load", "subject": "shop orders", "state": "running"}
    times = {"started_at_ms": now_ms - 10_000, "updated_at_ms": now_ms}
    stack.api("PUT", f"pipeline/jobs/{run_id}", status | times | changes)


def test_before_anything_has_run(page: Page, stack: Stack) -> None:
    page.goto("/#/pipeline")
    expect(page.get_by_text("No job has run yet")).to_be_visible()
    page.goto("/#/bills")
    expect(page.get_by_text("No bills yet", exact=True)).to_be_visible()
    new = stack.create_instance("unmetered")
    page.goto(f"/#/instances/{new['id']}/usage")
    expect(page.get_by_text("No usage yet")).to_be_visible()
    expect(page.get_by_text("portico pipeline meter run")).to_be_visible()
    picture(page, "usage-empty")
    page.goto(f"/#/instances/{new['id']}/bill")
    expect(page.get_by_text("No bills yet", exact=True)).to_be_visible()
    expect(page.get_by_test_id("costs")).to_contain_text("No costs yet")
    picture(page, "bill-empty")
    page.goto("/#/dashboard")
    expect(page.get_by_text("No advice yet")).to_be_visible()


def test_schedules_are_made_paused_asked_for_and_removed(page: Page, stack: Stack) -> None:
    new = stack.create_instance("scheduled")
    stack.api("PUT", "pipeline/schedules/meter", {"job": "meter", "cron": "*/5 * * * *"})
    page.goto("/#/pipeline")
    rows = page.get_by_test_id("schedules").get_by_role("row")
    page.get_by_role("button", name="Add schedule").click()
    page.get_by_label("Name").fill("lake")
    page.get_by_label("Instance id").fill("nobody")
    page.get_by_label("When").fill("61 * * * *")
    page.get_by_role("dialog").get_by_role("button", name="Add schedule").click()
    expect(page.get_by_text("minute (0-59)")).to_be_visible()
    page.get_by_label("Instance id").fill(str(new["id"]))
    page.get_by_label("When").fill("0 0 1 1 *")
    page.get_by_role("dialog").get_by_role("button", name="Add schedule").click()
    mine = rows.filter(has_text="lake")
    expect(mine).to_contain_text(f"load {new['id']}")
    page.get_by_role("button", name="Pause lake").click()
    expect(mine).to_contain_text("paused")
    page.get_by_role("button", name="Run lake now").click()
    expect(mine).to_contain_text("due since")
    picture(page, "schedules")
    expect(page.get_by_role("button", name="Remove meter")).to_have_count(0)
    page.get_by_role("button", name="Remove lake").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove", exact=True).click()
    expect(mine).to_have_count(0)


def test_a_run_is_followed_live_to_its_end(page: Page, stack: Stack) -> None:
    tell(stack, "run-live-1", planned=2_000_000, done=500_000, figures={"lag_records": 1_500_000})
    tell(stack, "run-fails-1", job="mirror", state="failed", error="the target does not answer: is it up?")
    page.goto("/#/pipeline")
    card = page.get_by_test_id("running")
    expect(card).to_contain_text("500K of 2M records")
    expect(card).to_contain_text("25 %")
    expect(card).to_contain_text("lag records 1.5M")
    rows = page.get_by_test_id("runs").get_by_role("row")
    expect(rows.filter(has_text="mirror")).to_contain_text("the target does not answer: is it up?")
    time.sleep(1.2)
    tell(stack, "run-live-1", planned=2_000_000, done=1_000_000, figures={"lag_records": 1_000_000})
    expect(card).to_contain_text("50 %", timeout=5000)
    expect(card).to_contain_text(re.compile(r"records/s.*left"))
    picture(page, "pipeline")
    tell(stack, "run-live-1", planned=2_000_000, done=2_000_000, state="succeeded", figures={"rows": 7})
    expect(card).to_have_count(0, timeout=5000)
    page.get_by_role("button", name="Failed").click()
    expect(rows).to_have_count(2)
    page.get_by_role("button", name="Succeeded").click()
    page.get_by_role("button", name="Figures of load shop orders").click()
    expect(page.get_by_test_id("runs")).to_contain_text(re.compile(r"rows\s*7"))


def test_usage_of_a_month(page: Page, shop: str) -> None:
    page.goto(f"/#/instances/{shop}/usage")
    totals = page.get_by_test_id("usage-totals")
    expect(totals).to_contain_text(re.compile(r"Produced\s*[\d.]+ (GB|TB)"))
    drawn(page, "Produce and consume by hour with their 95th percentiles")
    drawn(page, "Stored bytes by hour")
    running_days = page.get_by_test_id("usage-days").get_by_role("row")
    expect(running_days).to_have_count(_now().day + 1)
    picture(page, "usage")
    before = totals.inner_text()
    page.get_by_role("button", name="Month before").wait_for()
    last, _running = _months()
    page.goto(f"/#/instances/{shop}/usage/{last}")
    expect(page.get_by_label("Month", exact=True)).to_have_value(last)
    expect(totals).not_to_have_text(before)
    with page.expect_download() as download:
        page.get_by_role("link", name=re.compile("Download usage of .* as CSV")).click()
    assert download.value.suggested_filename.startswith(f"usage-shop-{last}-01-")
    assert "produce_bytes" in Path(download.value.path()).read_text().splitlines()[0]


def test_bills_from_overview_to_download(page: Page, shop: str, huge: str) -> None:
    last, running = _months()
    page.goto("/#/bills")
    row = page.get_by_test_id("bills").get_by_role("row").filter(has_text="shop")
    expect(row).to_contain_text("$987.20")
    expect(page.get_by_test_id("bill-totals")).to_contain_text("≈ $12,345,679,")
    expect(page.get_by_test_id("bills")).to_contain_text("on hold")
    picture(page, "bills")
    row.get_by_role("link", name="shop", exact=True).click()
    bill = page.get_by_test_id("bill")
    expect(bill).to_contain_text("≈ $987.20")
    expect(bill).to_contain_text("so far, estimated")
    expect(bill).to_contain_text("Reports are missing")
    expect(bill.get_by_role("row").filter(has_text="Total")).to_contain_text("$987.20")
    expect(bill).to_contain_text("late reports")
    picture(page, "bill-open")
    page.get_by_test_id("months").get_by_role("link").filter(has_text="closed").click()
    expect(page).to_have_url(re.compile(f"/bill/{last}$"))
    expect(bill).to_contain_text("Corrected later")
    expect(bill).not_to_contain_text("so far")
    with page.expect_download() as download:
        bill.get_by_role("link", name=re.compile("^Download the bill of .* as CSV")).click()
    assert download.value.suggested_filename == f"bill-shop-{last}.csv"
    assert "987.65" in Path(download.value.path()).read_text()
    assert running not in Path(download.value.path()).read_text()
    with page.expect_download() as download:
        bill.get_by_role("link", name=re.compile("^Download the bill of .* as FOCUS")).click()
    assert Path(download.value.path()).read_text().startswith("AvailabilityZone,BilledCost,")


def _made_long_ago(stack: Stack, instance_id: str) -> None:
    """As old as its usage is."""
    made = dt.datetime.now(dt.UTC) - dt.timedelta(days=70)
    with closing(sqlite3.connect(stack.data_dir / "control" / "portico.db")) as store, store:
        told = (round(made.timestamp() * 1000), instance_id)
        store.execute("UPDATE instances SET created_at_ms = ? WHERE id = ?", told)


def test_what_this_month_costs_and_what_that_leaves_out(page: Page, stack: Stack, shop: str) -> None:
    last, _running = _months()
    page.goto(f"/#/instances/{shop}/bill")
    costs = page.get_by_test_id("costs")
    expect(costs).to_contain_text("provisional")
    expect(costs).to_contain_text(re.compile(r"At the month's end\s*–\s*nothing is projected"))
    _made_long_ago(stack, shop)
    page.reload()
    expect(costs).to_contain_text(re.compile(r"So far\s*\$[\d,.]+\s*known until .* UTC"))
    expect(costs).to_contain_text(re.compile(r"At the month's end\s*≈ \$[\d,.]+"))
    expect(costs.get_by_role("row").filter(has_text="Storage")).to_contain_text("GB-hours")
    left_out = costs.get_by_role("listitem")
    expect(left_out).to_have_text([re.compile("^Bandwidth.*pipeline"), "Adjustments of earlier months"])
    expect(costs).to_contain_text("By the default prices")
    picture(page, "costs")
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_timeout(700)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    picture(page, "phone-costs")
    page.goto(f"/#/instances/{shop}/bill/{last}")
    expect(page.get_by_test_id("bill")).to_be_visible()
    expect(costs).to_have_count(0)


def test_a_price_book_that_cannot_be_read_is_said_beside_the_bills(
    page: Page, shop: str, tables: Path
) -> None:
    told = {"currency": "EUR", "minor_unit_digits": 2, "effective_from": dt.date(2020, 1, 1)}
    write(tables, "price_book", [PriceBook(version=7, text="no book at all", set_at_ms=0, **told)])
    try:
        page.goto(f"/#/instances/{shop}/bill")
        alert = page.get_by_role("alert")
        expect(alert).to_contain_text("Could not load the costs")
        expect(alert).to_contain_text("version 7 of the price book cannot be read")
        expect(page.get_by_test_id("bill")).to_be_visible()
        picture(page, "costs-broken-book")
    finally:
        shutil.rmtree(tables / "price_book")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_test_id("costs")).to_be_visible()
    expect(alert).to_have_count(0)


def test_advice_on_the_dashboard_and_on_the_instance(page: Page, shop: str) -> None:
    page.goto("/#/dashboard")
    row = page.get_by_test_id("advice").get_by_role("row").filter(has_text="shop")
    expect(row).to_contain_text("now")
    expect(row).to_contain_text("0.55")
    expect(row).to_contain_text("in 50 days")
    expect(row).to_contain_text("1 MB/s → 2 MB/s")
    expect(row).to_contain_text("peaks of 1.2 MB/s need 2 MB/s")
    picture(page, "advice-dashboard")
    row.get_by_role("link", name="shop", exact=True).click()
    card = page.get_by_test_id("advice")
    expect(card).to_contain_text("1 MB/s → 2 MB/s")
    expect(card).to_contain_text("$10.00 → $15.00")
    expect(card).to_contain_text("broker 1 → 2")
    drawn(page, "Forecast of produce for a week")
    card.get_by_role("button", name="Stored").click()
    drawn(page, "Forecast of stored for a week")
    picture(page, "advice-instance")


def test_a_damaged_table_is_said_and_can_be_tried_again(page: Page, tables: Path, shop: str) -> None:
    kept = tables.with_name("kept")
    [commit, *_] = sorted((tables / "bill" / "_delta_log").glob("*.json"))
    whole = commit.read_bytes()
    (tables / "bill").rename(kept)
    (tables / "bill" / "_delta_log").mkdir(parents=True)
    (tables / "bill" / "_delta_log" / commit.name).write_bytes(whole[:200])
    try:
        page.goto(f"/#/instances/{shop}/bill")
        expect(page.get_by_role("alert")).to_contain_text("cannot be read now: try again in a minute")
        picture(page, "bill-damaged")
    finally:
        for file in (tables / "bill" / "_delta_log").iterdir():
            file.unlink()
        (tables / "bill" / "_delta_log").rmdir()
        (tables / "bill").rmdir()
        kept.rename(tables / "bill")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_test_id("bill")).to_be_visible()


def test_pages_fit_a_phone(page: Page, stack: Stack, shop: str, huge: str) -> None:
    tell(stack, "run-long-1", subject=f"{LONG_NAME} " * 4, planned=10**18, done=10**17, unit="x" * 32)
    page.set_viewport_size({"width": 390, "height": 844})
    paths = ["pipeline", "bills", "dashboard"]
    paths += [f"instances/{each}/{tab}" for each in (shop, huge) for tab in ("overview", "usage", "bill")]
    for path in paths:
        page.goto(f"/#/{path}")
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        page.wait_for_timeout(700)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
        picture(page, f"phone-{path.replace('/', '-').replace(shop, 'shop').replace(huge, 'huge')}")

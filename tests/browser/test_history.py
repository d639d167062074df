"""What was recorded: charts over restarts, one picker, zoom, marks; and values of before that say so."""

import os
import re
import signal
import time
import uuid
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from confluent_kafka import Producer
from playwright.sync_api import Page, expect

from tests.browser.conftest import Console
from tests.integration.stack import Stack

pytestmark = pytest.mark.browser
PICTURES: Final = Path(__file__).resolve().parents[2] / "test-results" / "browser"
TRAFFIC = "Produce and consume rate over time"


def produced(made: dict[str, Any], count: int = 200) -> None:
    producer = Producer({"bootstrap.servers": made["bootstrap_servers"]})
    for _ in range(count):
        producer.produce("orders", b"x" * 1000)
    assert producer.flush(30) == 0


@pytest.fixture(scope="module")
def recorded(stack: Stack) -> dict[str, Any]:
    """An instance of which at least two steps are recorded."""
    made = stack.create_instance(f"history-{uuid.uuid4().hex[:8]}")
    stack.api("POST", f"instances/{made['id']}/topics", {"name": "orders", "partitions": 1})
    stack.api("PATCH", f"instances/{made['id']}", {"capacity_bytes": 2 * made["capacity_bytes"]})
    deadline = time.monotonic() + 120
    while True:
        produced(made)
        view = stack.api("GET", f"instances/{made['id']}/series")
        known = [value for value in view["metrics"]["produce_bytes_per_s"] if value is not None]
        if len(known) >= 2 and max(known) > 0:
            return made
        assert time.monotonic() < deadline, f"nothing was recorded: {view}"
        time.sleep(1)


def test_the_hour_is_there_for_who_comes_and_after_the_console_was_killed(
    page: Page, stack: Stack, console: Console, recorded: dict[str, Any]
) -> None:
    path = f"/#/instances/{recorded['id']}/history"
    page.goto(path)
    chart = page.get_by_role("img", name=TRAFFIC)
    expect(chart).to_have_attribute("data-points", re.compile(r"24\d"))
    expect(page.get_by_test_id("marks")).to_contain_text("capacity_bytes")
    before = stack.api("GET", f"instances/{recorded['id']}/series")["metrics"]["produce_bytes_per_s"]
    page.goto("about:blank")
    killed = stack.kill("control")
    stack.wait_for_restart("control", killed)
    deadline = time.monotonic() + 60
    while True:
        try:
            after = stack.api("GET", f"instances/{recorded['id']}/series")["metrics"]["produce_bytes_per_s"]
            break
        except (AssertionError, httpx.HTTPError):
            assert time.monotonic() < deadline
            time.sleep(0.5)
    assert max(value for value in before if value is not None) in after
    page.goto(f"{console.url}{path}")
    expect(page.get_by_test_id("recorded")).to_contain_text("one value each 15 s")


def test_what_is_picked_is_in_the_url_and_dragging_zooms(page: Page, recorded: dict[str, Any]) -> None:
    page.goto(f"/#/instances/{recorded['id']}/history?topic=orders")
    page.get_by_role("button", name="6 h").click()
    expect(page).to_have_url(re.compile(r"topic=orders&range=6h$"))
    expect(page.get_by_role("img", name="Records per second over time")).to_be_visible()
    page.goto(page.url)
    expect(page.get_by_role("button", name="6 h")).to_have_attribute("aria-pressed", "true")
    chart = page.get_by_role("img", name=TRAFFIC)
    expect(chart).to_have_attribute("data-points", re.compile(r"14\d\d"))
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.6, y)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.9, y, steps=8)
    page.mouse.up()
    expect(page).to_have_url(re.compile(r"topic=orders&from=.*&to="))
    expect(page.get_by_role("button", name="Custom")).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_label("From")).to_be_visible()


def test_a_client_that_is_connected_leads_to_its_history(page: Page, recorded: dict[str, Any]) -> None:
    producer = Producer({"bootstrap.servers": recorded["bootstrap_servers"], "client.id": "billing"})
    producer.list_topics(timeout=30)
    page.goto(f"/#/instances/{recorded['id']}/connections")
    page.get_by_role("link", name="billing").first.click()
    expect(page).to_have_url(re.compile(r"/history\?client=billing$"))
    expect(page.get_by_label("Client", exact=True)).to_have_value("=billing")
    chart = page.get_by_role("img", name="Bytes of the client over time")
    expect(chart).to_be_visible()
    expect(page.get_by_test_id("recorded").first).to_contain_text("one value each 15 s", timeout=90_000)
    del producer


def test_a_chart_is_read_by_keys_and_as_a_table(page: Page, recorded: dict[str, Any]) -> None:
    page.goto(f"/#/instances/{recorded['id']}/history")
    chart = page.get_by_role("figure").filter(has=page.get_by_role("img", name=TRAFFIC))
    expect(chart.get_by_role("img")).to_have_attribute("data-points", re.compile(r"24\d"))
    keys, spoken = chart.get_by_role("application"), chart.get_by_test_id("spoken")
    keys.focus()
    expect(spoken).to_have_text("")
    keys.press("ArrowLeft")
    expect(spoken).to_have_text(re.compile(r"\d\d:\d\d:\d\d.*, produce .*, consume "))
    newest = spoken.inner_text()
    expect(chart.locator(".at")).to_have_text(newest.partition(", produce")[0])
    keys.press("ArrowLeft")
    expect(spoken).not_to_have_text(newest)
    before = spoken.inner_text()
    picture(page, "chart-keys")
    page.wait_for_timeout(2_500)
    expect(chart.locator(".at")).to_have_text(before.partition(", produce")[0])
    keys.press("ArrowRight")
    expect(spoken).to_have_text(newest)
    keys.press("Escape")
    expect(spoken).to_have_text("")
    chart.get_by_role("button", name=f"{TRAFFIC} as a table").click()
    rows = chart.get_by_role("row")
    expect(rows.first).to_have_text(re.compile("Time.*produce.*consume", re.DOTALL))
    expect(chart.get_by_role("rowheader").filter(has_text=newest.partition(", produce")[0])).to_have_count(1)
    assert 1 < rows.count() < 240, "points of which nothing is known have no row"
    picture(page, "chart-table")
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_timeout(500)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    picture(page, "phone-chart-table")
    page.get_by_role("button", name=f"{TRAFFIC} as a table").click()
    expect(rows).to_have_count(0)


def picture(page: Page, name: str) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / f"{name}.png", full_page=True)


def test_a_broker_that_hangs_is_shown_as_hanging(page: Page, stack: Stack, recorded: dict[str, Any]) -> None:
    page.goto("/#/brokers")
    table = page.get_by_test_id("brokers")
    expect(table).to_contain_text("just now")
    stopped = stack.signal_broker(1, signal.SIGSTOP)
    try:
        expect(table).to_contain_text("hangs", timeout=20_000)
        expect(table).to_contain_text(re.compile(r"\d s ago"))
        page.goto(f"/#/instances/{recorded['id']}/quota")
        expect(page.get_by_text("Broker 1 does not report")).to_be_visible()
    finally:
        if stack.broker_pid(1) == stopped:
            stack.signal_broker(1, signal.SIGCONT)
    page.goto("/#/brokers")
    expect(table).to_contain_text("just now", timeout=60_000)


def test_numbers_of_a_dead_console_have_an_age(page: Page, stack: Stack, recorded: dict[str, Any]) -> None:
    produced(recorded)
    page.goto("/#/dashboard")
    expect(page.get_by_text("Produce, all")).to_be_visible()
    row = page.get_by_role("row").filter(has_text=recorded["name"])
    expect(row).to_be_visible()
    pid = int(stack.facts["pids"]["control"][0])
    os.kill(pid, signal.SIGSTOP)
    try:
        expect(page.get_by_test_id("age")).to_contain_text("ago", timeout=20_000)
        expect(row).to_be_visible()
    finally:
        os.kill(pid, signal.SIGCONT)
    expect(page.get_by_test_id("age")).to_have_count(0, timeout=60_000)


def test_the_list_of_instances_is_sorted_and_filtered_by_its_url(
    page: Page, recorded: dict[str, Any]
) -> None:
    page.goto(f"/#/instances?q={recorded['name']}")
    rows = page.get_by_role("region", name="Instances").locator("tbody tr[data-index]")
    expect(rows).to_have_count(1)
    page.get_by_role("button", name="Stored").click()
    expect(page).to_have_url(re.compile(r"q=history-\w+&sort=-stored$"))
    expect(page.get_by_role("columnheader", name="Stored")).to_have_attribute("aria-sort", "descending")
    page.get_by_label("Health").select_option("blocked")
    expect(page.get_by_text("Nothing matches")).to_be_visible()
    page.goto(page.url)
    expect(page.get_by_label("Health")).to_have_value("blocked")

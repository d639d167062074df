"""The page of injected faults: a fault is started, counts down, is told on every tab, and is ended."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.integration.stack import Stack

pytestmark = pytest.mark.browser


@pytest.fixture
def instance(stack: Stack) -> Iterator[dict[str, Any]]:
    made = stack.create_instance("faulty-page")
    yield made
    stack.api("DELETE", f"instances/{made['id']}")


def test_a_fault_is_started_counts_down_and_is_ended(
    page: Page, stack: Stack, instance: dict[str, Any]
) -> None:
    page.goto(f"/#/instances/{instance['id']}/faults")
    expect(page.get_by_test_id("acting")).to_contain_text("No fault")
    page.get_by_label("Delay, ms").fill("20000")
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_text("less than or equal to 10000")).to_be_visible()
    page.get_by_label("Delay, ms").fill("250")
    page.get_by_label("Share of requests, %").fill("40")
    page.get_by_label("For").select_option("5 minutes")
    page.get_by_role("button", name="Start").click()
    row = page.get_by_test_id("acting").get_by_role("row").filter(has_text="latency 250 ms")
    expect(row).to_contain_text("for 40 % of requests")
    expect(row.get_by_role("cell").nth(1)).to_have_text(re.compile(r"^[45]:[0-5]\d$"))
    (fault,) = stack.api("GET", f"instances/{instance['id']}/faults")["items"]
    assert fault["active"] and fault["delay_ms"] == 250 and fault["share_percent"] == 40
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_text("already: end it first")).to_be_visible()

    page.goto(f"/#/instances/{instance['id']}/topics")
    banner = page.get_by_role("status").filter(has_text="Clients feel injected faults")
    expect(banner).to_contain_text("latency 250 ms")
    banner.get_by_role("link", name="End them").click()
    page.get_by_role("button", name="End latency 250 ms for 40 % of requests now").click()
    expect(page.get_by_test_id("ended")).to_contain_text("latency 250 ms")
    expect(page.get_by_test_id("acting")).to_contain_text("No fault")
    expect(banner).to_be_hidden()


def test_each_kind_asks_for_what_it_takes(page: Page, instance: dict[str, Any]) -> None:
    page.goto(f"/#/instances/{instance['id']}/faults")
    kind = page.get_by_label("Kind")
    for name, field in (("Throttling", "Throttle time, ms"), ("Message too large", "Batches above, bytes")):
        kind.select_option(name)
        expect(page.get_by_label(field)).to_be_visible()
        expect(page.get_by_label("Delay, ms")).to_be_hidden()
    kind.select_option("Connection reset")
    page.get_by_label("Every connection once, now").check()
    expect(page.get_by_label("Share of requests, %")).to_be_hidden()
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_test_id("acting")).to_contain_text("connection_reset of every connection once")

"""The quota page tells of request time what it tells of bytes, and the form sets it."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.integration.quota.spender import Spender, spec_of
from tests.integration.quota.test_cluster import internal, master_url
from tests.integration.stack import Stack

pytestmark = pytest.mark.browser
PERCENT = 80


@pytest.fixture
def instance(stack: Stack) -> Iterator[dict[str, Any]]:
    made = stack.create_instance("spender", request_percent=PERCENT)
    yield made
    stack.api("DELETE", f"instances/{made['id']}")


@pytest.fixture
def spender(stack: Stack, instance: dict[str, Any]) -> Iterator[Spender]:
    made = Spender(stack, "gateway-90", spec_of(instance, PERCENT))
    yield made
    made.stop()
    with internal(stack) as http:
        http.delete(f"{master_url(stack)}/internal/v1/points/{made.name}")


def test_request_time_on_the_quota_page(page: Page, instance: dict[str, Any], spender: Spender) -> None:
    spender.wanted_us_per_s = 10_000_000
    page.goto(f"/#/instances/{instance['id']}/quota")
    card = page.get_by_test_id("quota-cpu")
    expect(card).to_contain_text("T = 800 ms/s (80 % of a core)")
    expect(
        card.get_by_role("img", name="Request time: rate, allocation and shares over time")
    ).to_be_visible()
    expect(card).to_contain_text("Point gateway-90 spends", timeout=30_000)
    expect(card).to_contain_text("Uneven traffic: headroom")
    row = page.get_by_test_id("request-time").get_by_role("row").filter(has_text="gateway-90")
    expect(row).to_contain_text("lease", timeout=30_000)
    expect(row.get_by_role("cell").nth(5)).to_have_text("800 ms/s", timeout=30_000)
    expect(row.get_by_role("cell").last).to_have_text(re.compile(r"^\d+ ms/s$"))
    expect(page.get_by_test_id("request-time").get_by_role("row").last).to_contain_text("idle")
    held = page.locator(".tile").filter(has_text="Held back now")
    expect(held).to_contain_text(re.compile(r"request time \d+ ms/s"))


def test_request_time_is_set_in_the_form(page: Page, instance: dict[str, Any]) -> None:
    page.goto(f"/#/instances/{instance['id']}")
    expect(page.get_by_text("80 % of a core")).to_be_visible()
    page.get_by_role("button", name="Resize").click()
    field = page.get_by_label("Request time, % of a core")
    expect(field).to_have_value("80")
    field.fill("3")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("5 to 100000 percent of a core")).to_be_visible()
    field.fill("0")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("1,920 % of a core, which goes with the rates")).to_be_visible()

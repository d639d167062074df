"""What may need somebody, on an instance's page: seen, acknowledged, silenced, and by a rule of its own."""

import re
import uuid
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.integration.alarming import full_instance
from tests.integration.stack import Stack

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def full(stack: Stack) -> dict[str, Any]:
    """An instance whose alarm `full` is raised."""
    return full_instance(stack, f"full-{uuid.uuid4().hex[:8]}")


def test_the_fleet_s_alarms_are_counted_filtered_and_handled(page: Page, full: dict[str, Any]) -> None:
    asked: list[str] = []
    page.on("request", lambda sent: asked.append(sent.url.partition("/v1/")[2]))
    page.goto("/#/instances")
    badge = page.get_by_role("link", name=f"alarm of {full['name']}").or_(
        page.get_by_role("link", name=f"alarms of {full['name']}")
    )
    expect(badge).to_be_visible()
    expect(page.get_by_role("navigation").get_by_test_id("alarm-count")).to_be_visible()
    page.get_by_role("link", name="Alarms").first.click()
    its = page.get_by_test_id(f"raised-{full['name']}-full")
    expect(its).to_contain_text("producers are blocked")
    expect(page.get_by_test_id("alarm-history")).to_contain_text(full["name"])
    of_instances = [path for path in asked if path.startswith("instances/")]
    assert not any("/alarms" in path for path in of_instances), "one question for all"
    page.get_by_label("Severity", exact=True).select_option("warning")
    expect(page).to_have_url(re.compile(r"severity=warning"))
    expect(its).to_have_count(0)
    page.get_by_label("Severity", exact=True).select_option("critical")
    page.get_by_label("Instance", exact=True).select_option(full["id"])
    page.reload()
    expect(its).to_be_visible()
    expect(page.get_by_test_id("raised").get_by_role("listitem")).to_have_count(1)
    its.get_by_role("button", name="Acknowledge").click()
    expect(its).to_contain_text("Acknowledged by")
    page.get_by_label("State", exact=True).select_option("open")
    expect(its).to_have_count(0)
    page.get_by_role("button", name="Show all").click()
    its.get_by_role("button", name="Silence").click()
    page.get_by_role("dialog").get_by_role("button", name="Silence").click()
    expect(its).to_contain_text("Silenced until")
    its.get_by_role("button", name="Unsilence").click()
    expect(its).not_to_contain_text("Silenced until")
    page.set_viewport_size({"width": 390, "height": 844})
    overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(overflow) <= 0, "a phone scrolls sideways"


def test_an_alarm_is_seen_acknowledged_silenced_and_ruled(page: Page, stack: Stack) -> None:
    made = full_instance(stack, f"full-{uuid.uuid4().hex[:8]}")
    page.goto(f"/#/instances/{made['id']}")
    page.get_by_role("navigation", name="Instance").get_by_role("link", name="Alarms").click()
    alarm = page.get_by_test_id("alarm-full")
    expect(alarm).to_contain_text("producers are blocked")
    alarm.get_by_role("button", name="Acknowledge").click()
    expect(alarm).to_contain_text("Acknowledged by")
    alarm.get_by_role("button", name="Silence").click()
    page.get_by_role("dialog").get_by_role("button", name="Silence").click()
    expect(alarm).to_contain_text("Silenced until")
    told = {one["kind"]: one for one in stack.api("GET", f"instances/{made['id']}/alarms")["items"]}
    assert told["full"]["acknowledged_at"] and told["full"]["silenced_until"]
    alarm.get_by_role("button", name="Unsilence").click()
    expect(alarm).not_to_contain_text("Silenced until")
    expect(page.get_by_test_id("alarm-history")).to_contain_text("acknowledged")
    alarm.get_by_role("button", name="Rule").click()
    form = page.get_by_role("dialog")
    form.get_by_role("button", name="Back to default").click()
    expect(form).to_have_count(0)
    rules = {one["kind"]: one["rule"] for one in stack.api("GET", f"instances/{made['id']}/alarms")["items"]}
    assert rules["full"]["raise_after"] != 1
    page.set_viewport_size({"width": 390, "height": 844})
    expect(alarm).to_be_visible()
    overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(overflow) <= 0, "a phone scrolls sideways"

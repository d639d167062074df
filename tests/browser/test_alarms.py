"""What may need somebody, on an instance's page: seen, acknowledged, silenced, and by a rule of its own."""

import uuid

import pytest
from playwright.sync_api import Page, expect

from tests.integration.alarming import full_instance
from tests.integration.stack import Stack

pytestmark = pytest.mark.browser


def test_an_alarm_is_seen_acknowledged_silenced_and_ruled(page: Page, stack: Stack) -> None:
    made = full_instance(stack, f"full-{uuid.uuid4().hex[:8]}")
    page.goto(f"/#/instances/{made['id']}")
    page.get_by_role("link", name="Alarms").or_(page.get_by_role("tab", name="Alarms")).first.click()
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

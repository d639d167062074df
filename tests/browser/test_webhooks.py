"""Who is told of alarms, on a page: webhooks made with a secret shown once, tested, disabled, deleted;
addresses that are mailed once they agreed."""

import base64
import hashlib
import hmac
import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Console
from tests.servers.smtp_server import SmtpServer
from tests.servers.webhook_sink import Sink, webhook_sink

pytestmark = pytest.mark.browser
PICTURES: Final = Path(__file__).resolve().parents[2] / "test-results" / "browser"


@pytest.fixture
def sink() -> Iterator[Sink]:
    with webhook_sink() as made:
        yield made


def test_a_webhook_is_made_tested_disabled_and_deleted(page: Page, sink: Sink) -> None:
    name = f"pager-{uuid.uuid4().hex[:8]}"
    page.goto("/#/webhooks")
    page.get_by_label("Tenant").select_option("default")
    page.get_by_role("button", name="Create webhook").click()
    form = page.get_by_role("dialog")
    form.get_by_label("Name").fill(name)
    form.get_by_label("URL").fill("file:///etc/passwd")
    form.get_by_role("button", name="Create webhook").click()
    expect(form).to_contain_text("must begin with https://")
    form.get_by_label("URL").fill(sink.url)
    form.get_by_role("button", name="Create webhook").click()
    secret = form.get_by_test_id("secret").inner_text()
    form.get_by_role("button", name="Done").click()
    row = page.get_by_test_id(f"webhook-{name}")
    expect(row).to_contain_text("enabled")
    assert secret not in page.content()
    row.get_by_role("button", name="Test").click()
    log = page.get_by_role("dialog")
    expect(log.get_by_test_id("delivery")).to_contain_text("delivered")
    expect(log).to_contain_text("answered 204")
    [(headers, body)] = sink.came
    assert json.loads(body)["type"] == "webhook.test"
    said = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.{body.decode()}".encode()
    key = base64.b64decode(secret.removeprefix("whsec_"))
    expected = base64.b64encode(hmac.new(key, said, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"
    log.get_by_role("button", name="Close").click()
    row.get_by_role("button", name="Disable").click()
    asked = page.get_by_role("dialog")
    expect(asked).to_contain_text("never told")
    asked.get_by_role("button", name="Disable").click()
    expect(row).to_contain_text("disabled")
    expect(row.get_by_role("button", name="Test")).to_have_count(0)
    row.get_by_role("button", name="Enable").click()
    expect(row.get_by_role("button", name="Test")).to_be_visible()
    page.set_viewport_size({"width": 390, "height": 844})
    overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(overflow) <= 0, "a phone scrolls sideways"
    row.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(row).to_have_count(0)


def test_an_address_agrees_by_a_link_and_is_mailed_a_test(
    page: Page, mail: SmtpServer, console: Console
) -> None:
    address = f"ops-{uuid.uuid4().hex[:8]}@example.com"
    page.goto("/#/webhooks")
    page.get_by_label("Tenant").select_option("default")
    page.get_by_role("button", name="Add address").click()
    form = page.get_by_role("dialog")
    form.get_by_label("Address").fill("nobody")
    form.get_by_role("button", name="Add address").click()
    expect(form).to_contain_text("must be an e-mail address")
    form.get_by_label("Address").fill(address)
    form.get_by_role("button", name="Add address").click()
    row = page.get_by_role("row").filter(has_text=address)
    expect(row).to_contain_text("asked")
    expect(row.get_by_role("button", name="Test")).to_have_count(0)
    row.get_by_role("button", name="Log").click()
    expect(page.get_by_test_id("delivery")).to_contain_text("delivered")
    assert mail.came[-1][0] == [address]
    link = next(word for word in mail.text.split() if "/#/mail/confirm." in word)
    assert link.startswith(console.url)
    page.goto(link)
    agrees = page.get_by_role("button", name="Mail me alarms")
    expect(agrees).to_be_visible()
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / "mail-link.png", full_page=True)
    page.goto("/#/webhooks")
    page.get_by_label("Tenant").select_option("default")
    expect(row).to_contain_text("asked")  # whoever looks through mail opens links, and agrees to nothing
    page.goto(link)
    agrees.click()
    expect(page.get_by_role("status")).to_contain_text(address)
    page.goto("/#/webhooks")
    page.get_by_label("Tenant").select_option("default")
    expect(row).to_contain_text("confirmed")
    row.get_by_role("button", name="Test").click()
    expect(page.get_by_test_id("delivery").first).to_contain_text("mail.test")
    expect(page.get_by_test_id("delivery").first).to_contain_text("delivered")
    page.get_by_role("dialog").get_by_role("button", name="Close").click()
    row.get_by_role("button", name="Disable").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("nobody is asked anew")
    dialog.get_by_role("button", name="Disable").click()
    expect(row).to_contain_text("disabled")
    row.get_by_role("button", name="Enable").click()
    expect(row).to_contain_text("confirmed")
    page.screenshot(path=PICTURES / "emails.png", full_page=True)
    page.emulate_media(color_scheme="dark")
    page.screenshot(path=PICTURES / "emails-dark.png", full_page=True)
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.screenshot(path=PICTURES / "emails-phone.png", full_page=True)
    page.goto(next(word for word in mail.text.split() if "/#/mail/remove." in word))
    page.get_by_role("button", name="Mail me nothing").click()
    expect(page.get_by_role("status")).to_contain_text("Nothing more is mailed")
    page.goto("/#/webhooks")
    page.get_by_label("Tenant").select_option("default")
    expect(page.get_by_text("No addresses yet")).to_be_visible()

"""A tenant's first people: invited, logged in, shown their own tenant and what their role may do."""

import uuid

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import Console, own_browser
from tests.integration.stack import Stack

pytestmark = pytest.mark.browser
PASSWORD = "correct horse battery staple"


@pytest.fixture
def tenant(stack: Stack) -> str:
    """A tenant of its own, with an instance; another tenant has one too."""
    name = f"acme-{uuid.uuid4().hex[:8]}"
    order = {"produce_rate_bytes_per_s": 1_000_000, "consume_rate_bytes_per_s": 1_000_000}
    for each in (name, f"{name}-rival"):
        stack.api("POST", "tenants", {"name": each})
        asked = {**order, "name": f"{each}-shop", "capacity_bytes": 10**9, "allow_all": True}
        stack.api("POST", "instances", asked, tenant=each)
    return name


def invite(page: Page, name: str, role: str) -> str:
    """Through the form of the members page that is open: the link."""
    page.get_by_role("button", name="Invite").first.click()
    form = page.get_by_role("dialog")
    form.get_by_label("Name").fill(name)
    form.get_by_label("Role").select_option(role)
    form.get_by_role("button", name="Invite").click()
    link = form.get_by_test_id("secret").inner_text()
    form.get_by_role("button", name="Done").click()
    return link


def accept(page: Page, link: str) -> None:
    """Open an invitation's link, choose a password."""
    page.goto(link)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Accept and log in").click()
    page.get_by_role("heading", name="Instances").wait_for()


def test_who_is_invited_sees_the_tenant_and_a_viewer_only_looks(
    page: Page, browser: Browser, console: Console, tenant: str
) -> None:
    page.goto("/#/members")
    page.get_by_label("Tenant").select_option(tenant)
    link = invite(page, "ann", "owner")
    with own_browser(browser, console) as ann:
        accept(ann, link)
        expect(ann.get_by_role("link", name=f"{tenant}-shop").first).to_be_visible()
        expect(ann.get_by_text(f"{tenant}-rival")).to_have_count(0)
        for hidden in ("Tenants", "Brokers", "Quota dashboard"):
            expect(ann.get_by_role("link", name=hidden)).to_have_count(0)
        ann.get_by_role("link", name="Audit log").click()
        expect(ann.get_by_text("member.join")).to_be_visible()
        ann.get_by_role("link", name="Members").click()
        expect(ann.get_by_text(f"ann@{tenant}").first).to_be_visible()
        viewers_link = invite(ann, "vic", "viewer")
        with own_browser(browser, console) as vic:
            accept(vic, viewers_link)
            vic.get_by_role("link", name=f"{tenant}-shop").first.click()
            expect(vic.get_by_role("heading", name=f"{tenant}-shop")).to_be_visible()
            expect(vic.get_by_role("link", name="Members")).to_have_count(0)
            expect(vic.get_by_role("button", name="Delete")).to_have_count(0)
            # The button is not there, and the API refuses who goes without it.
            refused = vic.evaluate(
                """async () => {
                  const session = await (await fetch('v1/session')).json();
                  const found = await (await fetch('v1/instances')).json();
                  const headers = { 'X-CSRF-Token': session.csrf_token };
                  const gone = `v1/instances/${found.items[0].id}`;
                  return (await fetch(gone, { method: 'DELETE', headers })).status;
                }"""
            )
            assert refused == 403
        ann.reload()
        row = ann.get_by_role("row").filter(has_text=f"vic@{tenant}")
        row.get_by_role("button", name="Role of").click()
        ann.get_by_role("dialog").get_by_label("Role").select_option("developer")
        ann.get_by_role("dialog").get_by_role("button", name="Change role").click()
        expect(row).to_contain_text("developer")
        ann.get_by_role("button", name="Undo").click()
        expect(row).to_contain_text("viewer")
        ann.get_by_role("link", name=f"ann@{tenant}").click()
        ann.get_by_label("Password now").fill(PASSWORD)
        ann.get_by_label("New password").fill("another one, quite long")
        ann.get_by_role("button", name="Change password").click()
        expect(ann.get_by_text("Your password is changed")).to_be_visible()
    with own_browser(browser, console) as used:
        used.goto(link)
        expect(used.get_by_text("not good any more")).to_be_visible()
        used.get_by_role("link", name="Log in as somebody").click()
        used.get_by_label("User").fill(f"ann@{tenant}")
        used.get_by_label("Password").fill("another one, quite long")
        used.get_by_role("button", name="Log in").click()
        expect(used.get_by_role("heading", name="Instances")).to_be_visible()

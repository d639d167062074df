"""Deleted and absent instances in the console: seen, taken back, adopted."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import msgspec
import pytest
from playwright.sync_api import Browser, Page, expect

from contracts.holdings import Holding, HoldingsReport
from contracts.specs import ConsumerKind, InstanceSpec, InstanceState
from tests.browser.conftest import log_in
from tests.integration.stack import Stack, running_stack

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running_stack(tmp_path_factory.mktemp("kept") / "data", "--workers", "1") as running:
        yield running


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


def test_a_deleted_instance_is_taken_back(page: Page, stack: Stack) -> None:
    made = stack.create_instance("regretted")
    page.goto(f"/#/instances/{made['id']}")
    page.get_by_role("button", name="Delete", exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("can be taken back")
    dialog.get_by_role("textbox").fill("regretted")
    dialog.get_by_role("button", name="Delete instance").click()
    deleted = page.get_by_test_id("deleted")
    expect(deleted).to_contain_text("regretted", timeout=15_000)
    stack.create_instance("regretted")
    deleted.get_by_role("button", name="Take back").click()
    form = page.get_by_role("dialog")
    form.get_by_role("button", name="Take back").click()
    expect(form).to_contain_text("exists already")
    form.get_by_label("Name").fill("not-regretted")
    form.get_by_role("button", name="Take back").click()
    expect(page.get_by_role("heading", name="not-regretted")).to_be_visible()
    expect(page.locator(".page-head").get_by_text("running")).to_be_visible(timeout=30_000)
    expect(page.get_by_test_id("bootstrap")).to_have_text(made["bootstrap_servers"])


def test_an_operator_purges_at_once(page: Page, stack: Stack) -> None:
    made = stack.create_instance("unwanted")
    stack.api("DELETE", f"instances/{made['id']}")
    page.goto("/#/instances")
    row = page.get_by_test_id("deleted").get_by_role("row").filter(has_text="unwanted")
    row.get_by_role("button", name="Purge").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Purge for good")).to_be_disabled()
    dialog.get_by_role("textbox").fill("unwanted")
    dialog.get_by_role("button", name="Purge for good").click()
    expect(row).to_have_count(0, timeout=60_000)


def test_an_absent_instance_is_shown_and_adopted(page: Page, stack: Stack) -> None:
    _tell(stack, "iabsentabsen")
    page.goto("/#/instances")
    absent = page.get_by_test_id("absent")
    expect(absent).to_contain_text("1 not served", timeout=15_000)
    expect(absent).to_contain_text("long-lost")
    _tell(stack, "iabsentabsen")  # brokers tell every few seconds
    absent.get_by_role("button", name="Adopt").click()
    form = page.get_by_role("dialog")
    form.get_by_label("Tenant").fill("nobody")
    form.get_by_role("button", name="Adopt").click()
    expect(form).to_contain_text("there is no tenant")
    form.get_by_label("Tenant").fill("default")
    form.get_by_role("button", name="Adopt").click()
    expect(page.get_by_role("row").filter(has_text="long-lost").filter(has_text="running")).to_be_visible(
        timeout=30_000
    )
    expect(absent).to_have_count(0, timeout=15_000)


def _tell(stack: Stack, instance_id: str) -> None:
    """A broker's report, as the one with its data would send it."""
    spec = InstanceSpec(
        revision=1,
        instance_id=instance_id,
        tenant="acme",
        name="long-lost",
        state=InstanceState.ACTIVE,
        cluster_id="builtin-1",
        produce_rate_bytes_per_s=10**6,
        consume_rate_bytes_per_s=10**6,
        capacity_bytes=10**9,
    )
    holding = Holding(
        instance_id=instance_id,
        absent_since_ms=1_700_000_000_000,
        stored_bytes=12_000_000,
        partitions=3,
        has_spec=True,
        spec=spec,
    )
    report = HoldingsReport(
        consumer="broker-9", kind=ConsumerKind.BROKER, cluster_id="builtin-1", holdings=(holding,)
    )
    ports: dict[str, Any] = json.loads((stack.data_dir / "ports.json").read_text())
    secret = (stack.data_dir / "internal.key").read_text().strip()
    answer = httpx.post(
        f"http://127.0.0.1:{ports['internal']}/internal/v1/holdings",
        content=msgspec.json.encode(report),
        headers={"Authorization": f"Bearer {secret}"},
        trust_env=False,
    )
    assert answer.json()["wanted"] == []

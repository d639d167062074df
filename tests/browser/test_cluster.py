"""What operators see of three brokers: leaders, what lacks replicas, and the rate going to the traffic."""

import re
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import log_in
from tests.integration.quota.loads import PartitionLoad
from tests.integration.stack import Stack, running_stack

pytestmark = pytest.mark.browser
T = 4_000_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    arguments = ("--workers", "1", "--session-timeout-ms", "2000")
    with running_stack(tmp_path_factory.mktemp("cluster"), *arguments, brokers=3) as stack:
        yield stack


@pytest.fixture
def operator(browser: Browser, cluster: Stack) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1440, "height": 1100}, base_url=cluster.console_url)
    page = context.new_page()
    page.set_default_timeout(20_000)
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    assert cluster.admin_password is not None
    log_in(page, cluster.admin_password)
    yield page
    context.close()
    assert faults == []


@pytest.fixture(scope="module")
def shop(cluster: Stack) -> dict[str, Any]:
    instance = cluster.create_instance("shop", produce_rate_bytes_per_s=T)
    topic = cluster.api("POST", f"instances/{instance['id']}/topics", {"name": "orders", "partitions": 3})
    leaders = [one["leader"] for one in topic["partitions"]]
    return {"id": instance["id"], "bootstrap": instance["bootstrap_servers"], "leaders": leaders}


def test_the_rate_moves_to_the_hot_broker(operator: Page, shop: dict[str, Any]) -> None:
    hot = shop["leaders"][0]
    operator.goto(f"/#/instances/{shop['id']}/quota")
    card = operator.get_by_test_id("brokers-produce")
    expect(card.get_by_role("img", name="Produce by broker: allocated")).to_be_visible()
    shown = card.get_by_role("listitem").filter(has_text=f"broker {hot}")
    expect(shown).to_contain_text("1.33 MB/s")
    load = PartitionLoad(shop["bootstrap"], "orders", 0)
    try:
        expect(shown).to_contain_text("4 MB/s", timeout=10_000)
        other = card.get_by_role("listitem").filter(has_text=f"broker {shop['leaders'][1]}")
        expect(other).to_contain_text("400 kB/s")
        card.get_by_role("button", name="r", exact=True).click()
        expect(card.get_by_role("img", name="Produce by broker: rate now")).to_be_visible()
    finally:
        load.stop()


def test_brokers_leaders_and_what_lacks_replicas(
    operator: Page, cluster: Stack, shop: dict[str, Any]
) -> None:
    operator.goto("/#/brokers")
    tiles = operator.get_by_test_id("cluster")
    expect(tiles).to_contain_text(re.compile(r"Brokers in the cluster\s*3"))
    expect(tiles).to_contain_text(re.compile(r"Under-replicated\s*0"))
    rows = operator.get_by_test_id("brokers").get_by_role("row")
    expect(rows).to_have_count(4)
    expect(rows.filter(has_text="controller")).to_have_count(1)
    expect(operator.get_by_test_id("lacking")).to_have_count(0)
    gone = shop["leaders"][2]
    cluster.signal_broker(gone, signal.SIGSTOP)
    try:
        expect(rows.nth(gone).get_by_text("down")).to_be_visible(timeout=30_000)
        lacking = operator.get_by_test_id("lacking")
        first = lacking.get_by_role("row").nth(1)
        expect(first).to_contain_text("shop")
        expect(first.get_by_role("cell").last).to_have_text(str(gone))
        expect(tiles).to_contain_text(re.compile(r"Offline\s*0"))
    finally:
        cluster.signal_broker(gone, signal.SIGCONT)
    expect(operator.get_by_test_id("lacking")).to_have_count(0, timeout=60_000)

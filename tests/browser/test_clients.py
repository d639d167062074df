"""The tab of an instance's clients, of a real one that tells of itself while the page is open."""

import asyncio
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Producer
from playwright.sync_api import Page, expect

from tests.browser.conftest import Console
from tests.integration.stack import Stack, running_stack
from tests.scenarios.harness import FrameClient
from wire.api_table import ApiKey
from wire.build import build
from wire.codec import request_class

pytestmark = pytest.mark.browser
PICTURES: Final = Path(__file__).resolve().parents[2] / "test-results" / "browser"
_PATIENCE_MS: Final = 60_000


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running_stack(tmp_path_factory.mktemp("clients") / "data", "--workers", "1") as running:
        yield running


@pytest.fixture(scope="module")
def console(stack: Stack) -> Console:
    assert stack.admin_password is not None, "the stack printed no password"
    return Console(stack.console_url.rstrip("/"), stack.admin_password)


async def _ask_each_second(port: int) -> None:
    """What `kafka-client-metrics.sh --alter --interval 1000` sends."""
    configs = [{"name": "interval.ms", "config_operation": 0, "value": "1000"}]
    resource = {"resource_type": 16, "resource_name": "quick", "configs": configs}
    request = build(request_class(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1), {"resources": [resource]})
    (answer,) = (await (await FrameClient.connect(port)).call(request)).responses
    assert answer.error_code == 0, answer.error_message


def test_a_client_is_seen_with_what_it_tells(page: Page, stack: Stack) -> None:
    made = stack.create_instance("shop")
    servers = made["bootstrap_servers"]
    with ThreadPoolExecutor(1) as pool:  # playwright runs a loop in this thread
        pool.submit(asyncio.run, _ask_each_second(int(servers.rpartition(":")[2]))).result()
    stack.api("POST", f"instances/{made['id']}/topics", {"name": "orders", "partitions": 1})
    page.goto(f"/#/instances/{made['id']}/clients")
    expect(page.get_by_text("No client has told anything yet")).to_be_visible()
    producer = Producer({"bootstrap.servers": servers, "client.id": "orders-app"})
    for _ in range(40):
        producer.produce("orders", b"x")
        producer.poll(0.1)
    row = page.get_by_role("row").filter(has_text="orders-app")
    expect(row).to_contain_text("rdkafka", timeout=_PATIENCE_MS)
    expect(row).to_contain_text("live")
    expect(row).to_contain_text(re.compile(r"\d ms"))
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / "clients.png", full_page=True)
    _is_connected(page, made["id"])
    page.goto(f"/#/instances/{made['id']}/clients")
    del producer
    expect(row).to_contain_text("ended", timeout=_PATIENCE_MS)
    stack.api("PATCH", f"instances/{made['id']}", {"client_metrics": False})
    expect(page.get_by_text("Clients are not asked")).to_be_visible(timeout=_PATIENCE_MS)


def _is_connected(page: Page, instance: str) -> None:
    """The overview leads to who is connected, which gateways count whatever a client tells."""
    page.goto(f"/#/instances/{instance}/overview")
    page.get_by_role("button", name="Why am I slow?").click()
    page.get_by_role("link", name="Busiest clients:").click()
    row = page.get_by_role("row").filter(has_text="orders-app")
    expect(row).to_contain_text("rdkafka", timeout=_PATIENCE_MS)
    expect(row).to_contain_text("127.0.0.1")
    page.get_by_role("button", name="Address").click()
    expect(page).to_have_url(re.compile("sort=address$"))
    page.get_by_label("Search clients").fill("nobody-like-this")
    expect(row).to_have_count(0)
    page.get_by_label("Search clients").fill("orders")
    expect(row).to_be_visible()
    page.screenshot(path=PICTURES / "connections.png", full_page=True)
    page.set_viewport_size({"width": 390, "height": 844})
    expect(row.get_by_text("127.0.0.1").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.screenshot(path=PICTURES / "connections-phone.png", full_page=True)
    page.set_viewport_size({"width": 1440, "height": 900})

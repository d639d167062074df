"""Usage on its page, of records that were just produced, where no pipeline has ever run."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Producer
from playwright.sync_api import Page, expect

from tests.browser.conftest import Console
from tests.integration.stack import Stack, running_stack

pytestmark = pytest.mark.browser
PICTURES: Final = Path(__file__).resolve().parents[2] / "test-results" / "browser"
_PATIENCE_MS: Final = 120_000


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    directory = tmp_path_factory.mktemp("counted") / "data"
    with running_stack(directory, "--workers", "1", "--usage-interval-ms", "1000") as running:
        yield running


@pytest.fixture(scope="module")
def console(stack: Stack) -> Console:
    assert stack.admin_password is not None, "the stack printed no password"
    return Console(stack.console_url.rstrip("/"), stack.admin_password)


def test_usage_shows_without_the_pipeline(page: Page, stack: Stack) -> None:
    made = stack.create_instance("shop")
    stack.api("POST", f"instances/{made['id']}/topics", {"name": "orders", "partitions": 3})
    producer = Producer({"bootstrap.servers": made["bootstrap_servers"]})
    for _ in range(300):
        producer.produce("orders", os.urandom(10_000))
    assert producer.flush(60) == 0
    page.goto(f"/#/instances/{made['id']}/usage")
    expect(page.get_by_test_id("usage-totals")).to_contain_text(
        re.compile(r"Produced3(\.\d+)? MB"), timeout=_PATIENCE_MS
    )
    expect(page.get_by_test_id("usage-provisional")).to_contain_text("The pipeline settles them")
    expect(page.get_by_test_id("usage-days")).to_contain_text("provisional")
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / "usage-counted.png", full_page=True)
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_timeout(700)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.screenshot(path=PICTURES / "phone-usage-counted.png", full_page=True)

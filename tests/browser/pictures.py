"""`python -m tests.browser.pictures`: the documents' pictures, of a stack whose instances are at work."""

import itertools
import json
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, Producer
from playwright.sync_api import Page, sync_playwright

from tests.browser.conftest import CHROMIUM, FLAGS, log_in
from tests.integration.stack import Stack, running_stack

_IMAGES: Final = Path(__file__).resolve().parents[2] / "docs" / "images"
_WORKED_S: Final = 240.0
_MB: Final = 1_000_000
_CITIES: Final = ("Lyon", "Porto", "Gdańsk", "Bergen", "Graz", "Turku")
_INSTANCES: Final[dict[str, dict[str, Any]]] = {
    "orders": {"tenant": "acme", "produce": 3 * _MB, "consume": 8 * _MB, "capacity": 5_000 * _MB},
    "clickstream": {"tenant": "acme", "produce": 4 * _MB, "consume": 6 * _MB, "capacity": 60 * _MB},
    "billing": {"tenant": "globex", "produce": 2 * _MB, "consume": 4 * _MB, "capacity": 500 * _MB},
    "sensors": {"tenant": "globex", "produce": 1 * _MB, "consume": 1 * _MB, "capacity": 200 * _MB},
}
_OFFERED: Final = {"orders": 1.1, "clickstream": 0.9, "billing": 0.55, "sensors": 0.0}
"""Of what was bought."""
_RECORDS: Final = 500
"""Different ones of a topic."""
_BATCH: Final = 40


def _order(number: int, chance: random.Random) -> bytes:
    """A record of some 2 kB."""
    lines = [{"sku": f"A{chance.randrange(10**5):05}", "pieces": chance.randrange(1, 9)} for _ in range(50)]
    order = {"order": number, "city": chance.choice(_CITIES), "cents": chance.randrange(500, 90_000)}
    return json.dumps(order | {"lines": lines}).encode()


def _produce(servers: str, topic: str, bytes_per_s: float, over: threading.Event) -> None:
    producer = Producer({"bootstrap.servers": servers, "client.id": f"{topic}-service", "linger.ms": 20})
    chance, begun_s, sent = random.Random(topic), time.monotonic(), 0
    records = [_order(number, chance) for number in range(_RECORDS)]
    for number in itertools.count():
        if over.is_set():
            return
        if sent > (time.monotonic() - begun_s) * bytes_per_s:
            over.wait(0.05)
            continue
        record = records[number % _RECORDS]
        try:
            producer.produce(topic, record, key=str(number % 5_000))
        except BufferError:
            producer.poll(0.1)
            continue
        sent += len(record)
        producer.poll(0)


def _consume(servers: str, topic: str, group: str, records_per_s: float, over: threading.Event) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "client.id": f"{group}-1",
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 1_000,
        }
    )
    consumer.subscribe([topic])
    while not over.is_set():
        consumer.consume(_BATCH, timeout=0.2)
        over.wait(_BATCH / records_per_s)
    consumer.close()


@contextmanager
def _at_work(bootstraps: dict[str, str]) -> Iterator[None]:
    over = threading.Event()

    def begin(work: Callable[..., None], *arguments: object) -> threading.Thread:
        thread = threading.Thread(target=work, args=(*arguments, over))
        thread.start()
        return thread

    threads = []
    for name, servers in bootstraps.items():
        if _OFFERED[name]:
            rate = _OFFERED[name] * float(_INSTANCES[name]["produce"])
            threads.append(begin(_produce, servers, name, rate))
            threads.append(begin(_consume, servers, name, f"{name}-reader", 10_000.0))
    threads.append(begin(_consume, bootstraps["orders"], "orders", "fulfilment", 800.0))
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def _made(stack: Stack) -> dict[str, dict[str, Any]]:
    made = {}
    for each in ("acme", "globex"):
        stack.api("POST", "tenants", {"name": each})
    for name, wish in _INSTANCES.items():
        body = {
            "name": name,
            "produce_rate_bytes_per_s": wish["produce"],
            "consume_rate_bytes_per_s": wish["consume"],
            "capacity_bytes": wish["capacity"],
            "whitelist": ["127.0.0.0/8"],
        }
        created = stack.api("POST", "instances", body, tenant=wish["tenant"])
        made[name] = stack.wait_for_state(created["id"], "running")
        stack.api("POST", f"instances/{created['id']}/topics", {"name": name, "partitions": 6})
    return made


def _take(page: Page, name: str, route: str, ready: str) -> None:
    page.goto(f"/#/{route}")
    page.get_by_text(ready).first.wait_for()
    page.wait_for_timeout(4_000)
    page.screenshot(path=_IMAGES / f"{name}.png")


def _pictures(page: Page, made: dict[str, dict[str, Any]]) -> None:
    orders = f"instances/{made['orders']['id']}"
    _take(page, "instances", "instances", "clickstream")
    _take(page, "overview", f"{orders}/overview", "Bootstrap")
    _take(page, "quota", f"{orders}/quota", "produce")
    _take(page, "messages", f"{orders}/topics/orders", "Partition")
    _take(page, "group", f"{orders}/groups/fulfilment", "fulfilment")
    page.goto("/#/dashboard?range=15m")
    page.get_by_role("row").filter(has_text="orders").first.get_by_role("button").first.click()
    page.wait_for_timeout(5_000)
    page.screenshot(path=_IMAGES / "dashboard.png")


def main() -> None:
    """Four minutes of work, then the pictures."""
    with tempfile.TemporaryDirectory() as data_dir, running_stack(Path(data_dir), brokers=3) as stack:
        assert stack.admin_password is not None
        made = _made(stack)
        with (
            _at_work({name: one["bootstrap_servers"] for name, one in made.items()}),
            sync_playwright() as playwright,
        ):
            time.sleep(_WORKED_S)
            chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
            page = chromium.new_page(
                viewport={"width": 1440, "height": 900}, base_url=stack.console_url, timezone_id="UTC"
            )
            log_in(page, stack.admin_password)
            _pictures(page, made)
            chromium.close()


if __name__ == "__main__":
    main()

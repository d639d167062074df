"""A tenant's first day and an operator's, a story each, in browsers of their own, with real clients."""

import datetime as dt
import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, Producer
from playwright.sync_api import Browser, Locator, Page, expect

from contracts.billing import PRICE_BOOK, PriceBook
from contracts.pipeline import PIPELINE_DIR, TABLES_DIR
from tests.browser.conftest import Console, watched
from tests.browser.test_members import accept, invite
from tests.browser.test_pages import create_instance, fresh, producing, running, tab
from tests.integration.stack import Stack, running_stack
from tests.servers.webhook_sink import Sink, webhook_sink
from tests.unit.tenants.delta_tables import write

pytestmark = pytest.mark.browser
_PATIENCE_MS: Final = 90_000
_LARGE_BYTES: Final = 700_000
"""Twenty messages of it a second are more than any rate here."""
_PRICES: Final = (
    'currency = "USD"\nminor_unit_digits = 2\neffective_from = 2020-01-01\n'
    "[produce]\nprice = 1\n[consume]\nprice = 1\n[requests]\nprice = 0\n[storage]\nprice = 1\n"
    "[bandwidth_p95]\nprice = 0\n[provisioned]\nprice = 0.01\n"
)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """One that counts usage each second, and sells by a price book in which rates cost something."""
    directory = tmp_path_factory.mktemp("first-day") / "data"
    arguments = ("--workers", "1", "--usage-interval-ms", "1000", "--webhook-allow", "127.0.0.0/8")
    with running_stack(directory, *arguments) as running:
        book = PriceBook(
            version=1,
            effective_from=dt.date(2020, 1, 1),
            currency="USD",
            minor_unit_digits=2,
            text=_PRICES,
            set_at_ms=0,
        )
        write(directory / PIPELINE_DIR / TABLES_DIR, PRICE_BOOK, [book])
        yield running


@pytest.fixture(scope="module")
def console(stack: Stack) -> Console:
    assert stack.admin_password is not None, "the stack printed no password"
    return Console(stack.console_url.rstrip("/"), stack.admin_password)


@pytest.fixture(scope="module")
def sink() -> Iterator[Sink]:
    with webhook_sink() as made:
        yield made


@pytest.fixture(scope="module", autouse=True)
def held_back(stack: Stack, sink: Sink) -> Iterator[dict[str, Any]]:
    """An instance whose producer wants more than was bought. It begins before the first story, for an alarm
    waits until it has seen most of its window: here a minute instead of the default rule's five."""
    stack.api("POST", "webhooks", {"name": "pager", "url": sink.url}, tenant="default")
    made = stack.create_instance("eager", produce_rate_bytes_per_s=1_000_000)
    path = f"instances/{made['id']}"
    stack.api("POST", f"{path}/topics", {"name": "clicks", "partitions": 1})
    rule = {"threshold": 50, "window_minutes": 1, "raise_after": 1, "clear_after": 6}
    stack.api("PUT", f"{path}/alarms/throttled_produce/rule", rule)
    with producing(made["bootstrap_servers"], "clicks", _LARGE_BYTES):
        yield made


def test_a_tenants_first_day(page: Page, browser: Browser, console: Console, stack: Stack) -> None:
    tenant, shop = fresh("acme"), fresh("shop")
    stack.api("POST", "tenants", {"name": tenant})
    page.goto("/#/members")
    page.get_by_label("Tenant").select_option(tenant)
    link = invite(page, "ann", "owner")
    with watched(browser, console) as ann:
        accept(ann, link)
        bootstrap = create_instance(ann, shop)
        runs_the_copied_program(ann)
        sees_its_message(ann)
        with a_group_that_stays_behind(bootstrap):
            sees_how_far_it_is_behind(ann)
        edits_the_whitelist(ann, bootstrap)
        with producing(bootstrap, "clicks", _LARGE_BYTES):
            reads_why_it_is_slow(ann)
        resizes(ann)
        reads_what_it_costs(ann)


def runs_the_copied_program(page: Page) -> None:
    """It runs as it was copied; the page says that its record has come, and who is connected."""
    page.get_by_role("button", name="Create topic").click()
    form = page.get_by_role("dialog")
    form.get_by_label("Name").fill("clicks")
    form.get_by_role("button", name="Create topic").click()
    expect(page.get_by_text("Waiting for the first record in clicks")).to_be_visible()
    page.get_by_role("tab", name="Python (librdkafka)").click()
    page.get_by_role("button", name="Copy the program").click()
    with running(page.evaluate("navigator.clipboard.readText()")) as said:
        assert "delivered to clicks" in said[0] and "hello" in said[1], said
        arrived = page.get_by_role("status").filter(has_text="The first record has arrived in clicks.")
        expect(arrived).to_contain_text("Connected now: 127.0.0.1 rdkafka", timeout=_PATIENCE_MS)


def sees_its_message(page: Page) -> None:
    tab(page, "Topics")
    page.get_by_role("link", name="clicks", exact=True).click()
    page.get_by_role("button", name="Messages", exact=True).click()
    expect(page.locator("tbody tr").filter(has_text="hello")).to_contain_text("k1")


@contextmanager
def a_group_that_stays_behind(bootstrap: str) -> Iterator[None]:
    """A consumer that has read one record and takes its time over it, while forty more come."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "slow-readers", "auto.offset.reset": "earliest"}
    consumer = Consumer(settings | {"enable.auto.commit": False})
    consumer.subscribe(["clicks"])
    deadline = time.monotonic() + 60
    while (read := consumer.poll(1)) is None:
        assert time.monotonic() < deadline, "nothing is read"
    assert read.error() is None
    consumer.commit(read, asynchronous=False)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(40):
        producer.produce("clicks", f"click {number}", partition=read.partition())
    assert producer.flush(30) == 0
    try:
        yield
    finally:
        consumer.close()


def sees_how_far_it_is_behind(page: Page) -> None:
    tab(page, "Groups")
    row = page.get_by_role("row").filter(has_text="slow-readers")
    expect(row).to_contain_text(re.compile(r"stable\s*40\s*\d+ s"), timeout=_PATIENCE_MS)
    row.get_by_role("link", name="slow-readers").click()
    expect(page.locator(".tile").filter(has_text="Total lag")).to_contain_text("40 records")
    expect(page.locator(".tile").filter(has_text="Behind by")).to_contain_text(re.compile(r"\d+ s"))


def edits_the_whitelist(page: Page, bootstrap: str) -> None:
    """Before an address goes, the page says who is connected from there; one click takes it back."""
    tab(page, "Whitelist")
    page.get_by_label("Add addresses or CIDRs").fill("10.0.0.0/8")
    page.get_by_role("button", name="Add", exact=True).click()
    network = page.get_by_role("cell", name="10.0.0.0/8", exact=True)
    expect(network).to_be_visible()
    asked = page.get_by_role("dialog")
    connected = Producer({"bootstrap.servers": bootstrap, "client.id": "orders-app"})
    assert connected.list_topics(timeout=30).brokers
    page.get_by_role("button", name="Remove 127.0.0.1/32").click()
    expect(asked).to_contain_text("disconnected at once")
    expect(asked).to_contain_text(
        re.compile("Connected now, and cut: .*127.0.0.1 orders-app"), timeout=_PATIENCE_MS
    )
    asked.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Remove 10.0.0.0/8").click()
    expect(asked).to_contain_text("Nobody who is connected now is cut.")
    asked.get_by_role("button", name="Remove").click()
    expect(network).to_have_count(0)
    page.get_by_role("button", name="Undo").click()
    expect(network).to_be_visible()


def health(page: Page) -> Locator:
    return page.get_by_role("region", name="Health")


def reads_why_it_is_slow(page: Page) -> None:
    tab(page, "Overview")
    expect(health(page)).to_contain_text(
        re.compile(r"throttled\s*throttled \d+ % of the last .*: producers were held back"),
        timeout=_PATIENCE_MS,
    )
    page.get_by_role("button", name="Why am I slow?").click()
    expect(health(page).get_by_role("heading", name="Produce:")).to_contain_text(
        re.compile(r"[\d.]+ % of the time, .* of 5 MB/s now")
    )
    offers = health(page).get_by_role("table", name="What another size would change")
    expect(offers.get_by_role("row").filter(has_text="10 MB/s")).to_contain_text(re.compile(r"[\d.]+ %"))
    expect(health(page)).to_contain_text("Busiest clients:")


def resizes(page: Page) -> None:
    """As the explanation offers; rates have a price of their own here."""
    health(page).get_by_role("button", name="Resize").click()
    form = page.get_by_role("dialog")
    form.get_by_label("Produce rate").fill("20 MB/s")
    price = form.get_by_test_id("price")
    expect(price).to_have_text(re.compile(r"cost \$\d+\.\d\d by themselves, \$\d+\.\d\d more than now"))
    form.get_by_role("button", name="Save").click()
    expect(form).to_have_count(0)
    expect(page.locator(".tile").filter(has_text="Produce rate")).to_contain_text("20 MB/s")


def reads_what_it_costs(page: Page) -> None:
    tab(page, "Usage")
    expect(page.get_by_test_id("usage-totals")).to_contain_text(
        re.compile(r"Produced[\d.]+ MB"), timeout=_PATIENCE_MS
    )
    expect(page.get_by_test_id("usage-provisional")).to_contain_text("The pipeline settles them")
    tab(page, "Bill")
    costs = page.get_by_test_id("costs")
    expect(costs).to_contain_text("provisional")
    expect(costs.get_by_role("row").filter(has_text="Total")).to_contain_text(re.compile(r"\$\d+\.\d\d"))


def test_who_was_never_held_back_is_told_so_and_where_else_to_look(page: Page, stack: Stack) -> None:
    made = stack.create_instance(fresh("calm"))
    page.goto(f"/#/instances/{made['id']}")
    expect(health(page)).to_contain_text("not held back")
    expect(health(page)).to_contain_text("clients were not held back in the last")
    expect(health(page).get_by_role("button", name="Resize")).to_have_count(0)
    page.get_by_role("button", name="Why am I slow?").click()
    expect(health(page)).to_contain_text("Nothing you bought holds clients back.")
    expect(health(page).get_by_role("table")).to_have_count(0)
    health(page).get_by_role("link", name="Groups").click()
    expect(page.get_by_text("No consumer groups yet")).to_be_visible()
    page.go_back()
    page.get_by_role("button", name="Why am I slow?").click()
    health(page).get_by_role("link", name="Quota").click()
    expect(page.get_by_test_id("quota-produce")).to_be_visible()


def test_an_operators_day(page: Page, held_back: dict[str, Any], sink: Sink) -> None:
    is_told_of_the_alarm(page, sink)
    finds_the_instance_on_the_wall(page)
    reads_the_explanation(page)
    raises_the_limit(page)
    sees_throttling_end(page)
    reads_it_in_the_audit_log(page)


def is_told_of_the_alarm(page: Page, sink: Sink) -> None:
    expect(page.get_by_role("navigation").get_by_test_id("alarm-count")).to_be_visible(timeout=_PATIENCE_MS)
    page.get_by_role("link", name="Alarms").first.click()
    alarm = page.get_by_test_id("raised-eager-throttled_produce")
    expect(alarm).to_contain_text(re.compile(r"throttled \d+ % of the last 1 min; .* 1.0 MB/s are bought"))
    deadline = time.monotonic() + 30
    while not sink.came:
        assert time.monotonic() < deadline, "no webhook came"
        page.wait_for_timeout(100)
    [(_, body)] = sink.came
    told = json.loads(body)
    assert (told["type"], told["data"]["instance_name"]) == ("alarm.raised", "eager")
    alarm.get_by_role("link", name="eager").click()
    tab(page, "Overview")
    banner = page.get_by_role("status").filter(has_text="An alarm is raised")
    expect(banner).to_contain_text("producers are throttled: throttled")
    expect(banner).to_contain_text(re.compile(r"[^.]\.\s+See what helps"))


def finds_the_instance_on_the_wall(page: Page) -> None:
    page.get_by_role("link", name="Quota dashboard").click()
    expect(page.get_by_role("button", name="Pressure")).to_have_attribute("aria-pressed", "true")
    first = page.get_by_role("row").filter(has=page.get_by_role("link", name="eager"))
    expect(first).to_contain_text("throttled", timeout=_PATIENCE_MS)
    first.get_by_role("link", name="eager").click()


def reads_the_explanation(page: Page) -> None:
    why = page.get_by_test_id("quota-produce").locator(".rule")
    expect(why).to_contain_text("1 MB/s")
    expect(page.get_by_text("Held back now")).to_be_visible()


def raises_the_limit(page: Page) -> None:
    tab(page, "Overview")
    health(page).get_by_role("button", name="Resize").click()
    form = page.get_by_role("dialog")
    form.get_by_label("Produce rate").fill("50 MB/s")
    expect(form.get_by_test_id("price")).to_contain_text("more than now")
    form.get_by_role("button", name="Save").click()
    expect(page.locator(".tile").filter(has_text="Produce rate")).to_contain_text("50 MB/s")


def sees_throttling_end(page: Page) -> None:
    page.get_by_role("link", name="Quota dashboard").click()
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="eager"))
    expect(row).to_contain_text("of 50 MB/s")
    expect(row).to_contain_text(re.compile("calm|busy"), timeout=_PATIENCE_MS)
    expect(row).not_to_contain_text("throttled")


def reads_it_in_the_audit_log(page: Page) -> None:
    page.get_by_role("link", name="Audit log").click()
    entry = page.get_by_role("row").filter(has_text="instance.change").first
    expect(entry).to_contain_text("admin")
    expect(entry).to_contain_text("eager")
    expect(entry).to_contain_text("1000000 -> 50000000")

"""What a tenant and an operator do in the console, in a real browser on a real stack."""

import re
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from confluent_kafka import Producer
from playwright.sync_api import Page, expect

from tests.browser.conftest import Console, log_in

pytestmark = pytest.mark.browser


def create_instance(page: Page, name: str) -> str:
    """Create one through the form, wait until it runs; returns its bootstrap servers."""
    page.goto("/#/instances")
    page.get_by_role("button", name="Create instance").first.click()
    form = page.get_by_role("dialog")
    form.get_by_label("Name").fill(name)
    expect(form.get_by_label("Whitelist")).to_have_value("127.0.0.1/32")
    form.get_by_label("Produce rate").fill("5 MB/s")
    form.get_by_label("Consume rate").fill("10MB/s")
    form.get_by_label("Capacity", exact=True).fill("1 GB")
    form.get_by_role("button", name="Create instance").click()
    expect(page.get_by_role("heading", name=name)).to_be_visible()
    expect(page.locator(".page-head").get_by_text("running")).to_be_visible(timeout=30_000)
    return page.get_by_test_id("bootstrap").inner_text()


def create_topic(page: Page, name: str, partitions: int = 3) -> None:
    """Through the form of the topics tab that is open."""
    page.get_by_role("button", name="Create topic").click()
    form = page.get_by_role("dialog")
    form.get_by_label("Name").fill(name)
    form.get_by_label("Partitions").fill(str(partitions))
    form.get_by_role("button", name="Create topic").click()
    expect(page.get_by_role("link", name=name, exact=True)).to_be_visible()


def tab(page: Page, name: str) -> None:
    """Open a tab of the instance."""
    page.get_by_role("navigation", name="Instance").get_by_role("link", name=name).click()


def fresh(name: str) -> str:
    """A name no other test uses, also on a stack that is used again."""
    return f"{name}-{uuid.uuid4().hex[:8]}"


@contextmanager
def running(program: str) -> Iterator[list[str]]:
    """A copied program, which goes on: what it says of the message that it sends, and of the one it reads."""
    with subprocess.Popen(
        [sys.executable, "-u", "-c", program], stdout=subprocess.PIPE, text=True
    ) as started:
        timer = threading.Timer(120, started.kill)
        timer.start()
        try:
            assert started.stdout is not None
            yield [started.stdout.readline() for _ in range(2)]
        finally:
            started.kill()
            timer.cancel()


@contextmanager
def producing(bootstrap: str, topic: str, size_bytes: int = 20_000) -> Iterator[None]:
    """A producer that keeps some traffic going: twenty messages of this size a second, or what it may."""
    stop = threading.Event()

    def run() -> None:
        settings = {"bootstrap.servers": bootstrap, "linger.ms": 5, "queue.buffering.max.kbytes": 8_000}
        producer = Producer(settings)
        while not stop.wait(0.05):
            with suppress(BufferError):
                producer.produce(topic, bytes(size_bytes))
            producer.poll(0)
        producer.flush(5)

    worker = threading.Thread(target=run, daemon=True)
    worker.start()
    try:
        yield
    finally:
        stop.set()
        worker.join(10)


def test_wrong_password_is_told_and_right_one_logs_in(blank: Page, console: Console) -> None:
    blank.goto("/")
    blank.get_by_label("User").fill("admin")
    blank.get_by_label("Password").fill("not the password")
    blank.get_by_role("button", name="Log in").click()
    expect(blank.get_by_role("alert")).to_be_visible()
    log_in(blank, console.password)
    blank.get_by_role("button", name="Log out").click()
    expect(blank.get_by_role("button", name="Log in")).to_be_visible()


def test_instance_from_form_to_copied_address(page: Page) -> None:
    name = fresh("shop")
    bootstrap = create_instance(page, name)
    assert re.fullmatch(r"127\.0\.0\.1:\d+", bootstrap)
    page.get_by_role("button", name="Copy bootstrap servers").last.click()
    assert page.evaluate("navigator.clipboard.readText()") == bootstrap
    page.get_by_role("tab", name="Java").click()
    expect(page.get_by_role("tabpanel")).to_contain_text(f'"bootstrap.servers", "{bootstrap}"')
    page.get_by_role("link", name="Instances").first.click()
    row = page.get_by_role("row").filter(has_text=name)
    expect(row).to_contain_text("running")
    expect(row).to_contain_text("5 MB/s")
    expect(row).to_contain_text("10 MB/s")


def test_faults_stand_next_to_their_fields(page: Page) -> None:
    page.get_by_role("button", name="Create instance").first.click()
    form = page.get_by_role("dialog")
    for what in (
        "Unique within the tenant",
        "Bytes written per second",
        "Bytes read per second",
        "Bytes kept",
    ):
        expect(form.get_by_text(re.compile(f"{what}; .* left"))).to_be_visible()
    form.get_by_label("Produce rate").fill("fast")
    form.get_by_label("Whitelist").fill("10.0.0.300")
    form.get_by_role("button", name="Create instance").click()
    expect(form.get_by_text("Give the instance a name")).to_be_visible()
    expect(form.get_by_text("Write it like 20 MB/s")).to_be_visible()
    expect(form.get_by_text("10.0.0.300 is not an IPv4 address")).to_be_visible()
    form.get_by_label("Name").fill("Not A Name!")
    form.get_by_label("Produce rate").fill("5 MB/s")
    form.get_by_label("Whitelist").fill("10.0.0.3")
    form.get_by_role("button", name="Create instance").click()
    expect(form.get_by_label("Name")).to_have_attribute("aria-invalid", "true")


def test_topic_life(page: Page) -> None:
    create_instance(page, fresh("topics"))
    tab(page, "Topics")
    expect(page.get_by_text("No topics yet")).to_be_visible()
    create_topic(page, "orders", 3)
    page.get_by_role("link", name="orders", exact=True).click()
    page.get_by_role("button", name="Edit retention.ms").click()
    page.get_by_role("textbox", name="retention.ms", exact=True).fill("7200000")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("7200000", exact=True)).to_be_visible()
    expect(page.get_by_text("2 h", exact=True)).to_be_visible()
    page.get_by_role("button", name="Add partitions").click()
    page.get_by_label("Partitions in all").fill("5")
    page.get_by_role("dialog").get_by_role("button", name="Add", exact=True).click()
    expect(page.locator(".tile").filter(has_text="Partitions")).to_contain_text("5")
    page.get_by_role("button", name="Delete topic").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Delete for good")).to_be_disabled()
    dialog.get_by_role("textbox").fill("orders")
    dialog.get_by_role("button", name="Delete for good").click()
    expect(page.get_by_text("No topics yet")).to_be_visible()


def remove_address(page: Page, cidr: str) -> None:
    page.get_by_role("button", name=f"Remove {cidr}").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()


def test_the_copied_program_works(page: Page) -> None:
    """It names a topic that exists, says what it has delivered, and reads it."""
    create_instance(page, fresh("first-day"))
    expect(page.get_by_text("There is no topic yet")).to_be_visible()
    page.get_by_role("button", name="Create topic").click()
    form = page.get_by_role("dialog")
    form.get_by_label("Name").fill("clicks")
    form.get_by_role("button", name="Create topic").click()
    program = page.locator("#snippet-code pre")
    expect(program).to_contain_text('"clicks"')
    for client in ("Python (librdkafka)", "kafka-python"):
        page.get_by_role("tab", name=client).click()
        with running(program.inner_text()) as said:
            assert "delivered to" in said[0] and "hello" in said[1], said


def test_whitelist_editor(page: Page) -> None:
    create_instance(page, fresh("list"))
    tab(page, "Whitelist")
    page.get_by_label("Add addresses or CIDRs").fill("10.0.0.0/8, 192.168.1.7")
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.get_by_role("cell", name="10.0.0.0/8", exact=True)).to_be_visible()
    expect(page.get_by_role("cell", name="192.168.1.7/32", exact=True)).to_be_visible()
    network = page.get_by_role("cell", name="10.0.0.0/8", exact=True)
    page.get_by_role("button", name="Remove 10.0.0.0/8").click()
    expect(page.get_by_role("dialog")).to_contain_text("disconnected at once")
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    expect(network).to_be_visible()
    remove_address(page, "10.0.0.0/8")
    expect(network).to_have_count(0)
    page.get_by_role("button", name="Undo").click()
    expect(network).to_be_visible()
    remove_address(page, "10.0.0.0/8")
    switch = page.get_by_role("switch", name="Allow all addresses")
    switch.click()
    page.get_by_role("dialog").get_by_role("button", name="Allow all").click()
    expect(switch).to_be_checked()
    page.reload()
    expect(page.get_by_role("switch", name="Allow all addresses")).to_be_checked()
    expect(page.get_by_role("cell", name="192.168.1.7/32", exact=True)).to_be_visible()


def test_refused_address_is_admitted_with_one_click(page: Page) -> None:
    bootstrap = create_instance(page, fresh("refusals"))
    tab(page, "Whitelist")
    remove_address(page, "127.0.0.1/32")
    expect(page.get_by_text("The list is empty: nobody can connect.")).to_be_visible()
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    producer.poll(0)
    page.get_by_role("button", name="Add 127.0.0.1/32").first.click()
    expect(page.get_by_role("button", name="Remove 127.0.0.1/32")).to_be_visible()
    assert producer.list_topics(timeout=10).brokers


def test_live_quota_draws_traffic(page: Page) -> None:
    name = fresh("live")
    bootstrap = create_instance(page, name)
    tab(page, "Topics")
    create_topic(page, "events", 1)
    with producing(bootstrap, "events"):
        tab(page, "Quota")
        expect(page.get_by_text("live", exact=True)).to_be_visible()
        produce = page.get_by_test_id("quota-produce")
        expect(produce.get_by_title("rate now")).to_contain_text("kB/s", timeout=20_000)
        expect(produce.locator(".rule")).to_contain_text(re.compile("share|F", re.IGNORECASE))
        wait_until_drawn(page, "Produce: rate, allocation and shares over time")
        chart = page.get_by_role("figure").filter(has=page.get_by_role("img", name="Produce: rate"))
        chart.get_by_role("application").press("ArrowLeft")
        spoken, at = chart.get_by_test_id("spoken").inner_text(), chart.locator(".at")
        points = chart.get_by_role("img").get_attribute("data-points")
        expect(chart.get_by_role("img")).not_to_have_attribute("data-points", points or "")
        assert spoken.startswith(at.inner_text()), "what keys led to stays, whatever comes meanwhile"
        expect(chart.get_by_test_id("spoken")).to_have_text(spoken)
        page.goto("/#/dashboard")
        row = page.get_by_role("row").filter(has_text=name)
        expect(row).to_contain_text("kB/s")
        wait_until_drawn(page, "Produce and consume rate of all instances")
        page.get_by_role("button", name=f"Brokers of {name}").click()
        expect(page.get_by_role("columnheader", name="applied").first).to_be_visible()
        expect(page.get_by_test_id("request-time")).to_be_visible()


COLOURED = """plot => {
    const canvas = plot.querySelector('canvas');
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    let count = 0;
    for (let at = 0; at < data.length; at += 4) {
        const [r, g, b, alpha] = data.slice(at, at + 4);
        if (alpha > 20 && Math.max(r, g, b) - Math.min(r, g, b) > 60) count += 1;
    }
    return count > 100;
}"""


def wait_until_drawn(page: Page, label: str) -> None:
    """Until the chart has pixels in the colours of lines: an empty one has only grey ones. What is recorded
    comes after two times 15 s: until it is, and until the page asks for it."""
    plot = page.get_by_role("img", name=label)
    page.wait_for_function(COLOURED, arg=plot.element_handle(), timeout=60_000)


def test_suspend_resume_delete(page: Page) -> None:
    name = fresh("cycle")
    create_instance(page, name)
    page.get_by_role("button", name="Suspend").click()
    page.get_by_role("dialog").get_by_role("button", name="Suspend").click()
    expect(page.locator(".page-head").get_by_text("suspended")).to_be_visible()
    page.get_by_role("button", name="Resume").click()
    expect(page.locator(".page-head").get_by_text("running")).to_be_visible(timeout=30_000)
    page.get_by_role("button", name="Delete", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox").fill(name)
    dialog.get_by_role("button", name="Delete instance").click()
    expect(page.get_by_role("heading", name="Instances")).to_be_visible()
    expect(page.get_by_role("row").filter(has_text=name).filter(has_text="running")).to_have_count(0)


def test_key_is_shown_once(page: Page) -> None:
    page.goto("/#/keys")
    name = fresh("deploy")
    page.get_by_role("button", name="Create key").click()
    page.get_by_role("dialog").get_by_label("Name").fill(name)
    page.get_by_role("dialog").get_by_role("button", name="Create key").click()
    secret = page.get_by_test_id("secret").inner_text()
    assert len(secret) >= 20
    page.get_by_role("button", name="Done").click()
    expect(page.get_by_role("row").filter(has_text=name)).to_be_visible()
    assert secret not in page.content()


def test_messages_are_seen_filtered_followed_and_sent(page: Page) -> None:
    bootstrap = create_instance(page, fresh("messages"))
    tab(page, "Topics")
    create_topic(page, "orders", 2)
    markup = '<img src="x" onerror="document.title=1">'
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(60):
        producer.produce("orders", f'{{"number": {number}, "kind": "new"}}', key=f"order-{number}")
    producer.produce("orders", markup, key=markup, headers=[("<b>", b"\xff")])
    assert producer.flush(20) == 0

    page.get_by_role("link", name="orders", exact=True).click()
    page.get_by_role("button", name="Messages", exact=True).click()
    rows = page.locator("tbody tr")
    expect(page.get_by_role("status").filter(has_text="50 messages shown")).to_be_visible()
    hostile = rows.filter(has_text=markup)
    expect(hostile).to_be_visible()
    hostile.get_by_role("button").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_label("Value", exact=True)).to_have_text(markup)
    assert page.locator("tbody img").count() == 0
    page.get_by_role("button", name="Older").click()
    expect(page.get_by_role("status").filter(has_text="61 messages shown")).to_be_visible()

    page.get_by_role("textbox", name="JSON").fill("@.number >")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.get_by_text("is no RFC 9535 expression")).to_be_visible()
    page.get_by_role("textbox", name="JSON").fill("@.number > 57")
    page.keyboard.press("Enter")
    expect(rows).to_have_count(2)
    page.get_by_role("button", name="Follow").click()
    producer.produce("orders", '{"number": 1000}', key="live")
    assert producer.flush(20) == 0
    expect(rows).to_have_count(3)
    expect(rows.first).to_contain_text("live")
    page.get_by_role("button", name="Stop following").click()

    page.get_by_role("button", name="Send a message").click()
    form = page.get_by_role("dialog")
    form.get_by_label("Key", exact=True).fill("sent")
    form.get_by_label("Value", exact=True).fill('{"number": 2000, "large": 12345678901234567890}')
    form.get_by_label("Headers").fill("source: console")
    form.get_by_role("button", name="Send", exact=True).click()
    sent = rows.filter(has_text="sent")
    expect(sent).to_be_visible()
    sent.get_by_role("button", name="Message").click()
    expect(page.get_by_label("Value", exact=True)).to_contain_text('"large": 12345678901234567890')
    page.set_viewport_size({"width": 390, "height": 844})
    expect(sent.first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize(
    "path",
    [
        *("instances", "dashboard", "brokers", "pipeline", "bills"),
        *("tenants", "keys", "audit", "members", "account"),
    ],
)
def test_pages_fit_a_phone(page: Page, path: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"/#/{path}")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    page.wait_for_timeout(500)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_unknown_page_and_unknown_instance_say_so(page: Page) -> None:
    page.goto("/#/nothing/here")
    expect(page.get_by_text("There is no such page")).to_be_visible()
    page.evaluate("location.hash = '#/instances/izzzzzzzzzzz'")
    expect(page.get_by_role("alert")).to_contain_text("Could not load the instance")

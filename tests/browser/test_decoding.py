"""How an owner has messages read: by a registry's schemas or a pasted one, and as they are again."""

import io
import json
import struct
import uuid
from collections.abc import Iterator
from typing import Any, Final

import fastavro
import pytest
from confluent_kafka import Producer
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.conftest import Console, own_browser
from tests.browser.test_members import accept, invite
from tests.integration.stack import Stack
from tests.servers.schema_registry import PASSWORD, USER, SchemaRegistry, schema_registry

pytestmark = pytest.mark.browser
ORDER: Final = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "amount", "type": "long"}, {"name": "note", "type": "string"}],
}
MARKUP: Final = '<img src="x" onerror="document.title=1">'
SHOWN: Final = json.dumps({"amount": 120, "note": MARKUP}, separators=(",", ":"))
PHONE: Final = {"width": 390, "height": 844}


def framed(schema_id: int) -> bytes:
    """An order, as a registry's serializers write it."""
    written = io.BytesIO()
    fastavro.schemaless_writer(written, fastavro.parse_schema(ORDER), {"amount": 120, "note": MARKUP})
    return b"\x00" + struct.pack(">I", schema_id) + written.getvalue()


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistry]:
    """One that has schema 1 alone."""
    with schema_registry() as server:
        server.schemas[1] = {"schema": json.dumps(ORDER)}
        yield server


@pytest.fixture
def owner(page: Page, browser: Browser, console: Console, stack: Stack) -> Iterator[Page]:
    """Looks at a topic of two messages, which name schemas 1 and 99."""
    tenant = f"decoding-{uuid.uuid4().hex[:8]}"
    stack.api("POST", "tenants", {"name": tenant})
    order = {"name": f"{tenant}-shop", "capacity_bytes": 10**9, "allow_all": True}
    order |= dict.fromkeys(("produce_rate_bytes_per_s", "consume_rate_bytes_per_s"), 1_000_000)
    made = stack.wait_for_state(stack.api("POST", "instances", order, tenant=tenant)["id"], "running")
    stack.api("POST", f"instances/{made['id']}/topics", {"name": "orders", "partitions": 1})
    producer = Producer({"bootstrap.servers": made["bootstrap_servers"]})
    for schema_id in (1, 99):
        producer.produce("orders", framed(schema_id))
    assert producer.flush(20) == 0
    page.goto("/#/members")
    page.get_by_label("Tenant").select_option(tenant)
    link = invite(page, "ann", "owner")
    with own_browser(browser, console) as ann:
        accept(ann, link)
        ann.goto(f"/#/instances/{made['id']}/topics/orders")
        ann.get_by_role("button", name="Messages", exact=True).click()
        expect(rows(ann)).to_have_count(2)
        yield ann


def rows(page: Page) -> Locator:
    """Of messages that are folded: the newest first."""
    return page.locator("tbody tr:not(.detail)")


def unfold(page: Page, offset: int) -> Locator:
    """What a message's row opens."""
    page.get_by_role("button", name=f"Message {offset} of").click()
    return page.locator("tbody tr.detail")


def ways(page: Page) -> Locator:
    """The form, open and filled with what there is."""
    page.get_by_role("button", name="Schemas and masks").click()
    form = page.get_by_role("dialog")
    expect(form.get_by_role("button", name="Save")).to_be_enabled()
    return form


def save(form: Locator) -> None:
    form.get_by_role("button", name="Save").click()
    expect(form).to_have_count(0)


def fits(page: Page, form: Locator | None = None) -> None:
    """Nothing is wider than a phone."""
    page.set_viewport_size(PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    if form is not None:
        wide: dict[str, Any] = form.evaluate("one => ({ is: one.scrollWidth, has: one.clientWidth })")
        assert wide["is"] <= wide["has"] <= PHONE["width"]
    page.set_viewport_size({"width": 1440, "height": 900})


def test_values_are_read_by_a_registry_until_it_is_removed(owner: Page, registry: SchemaRegistry) -> None:
    for schema_id, row in ((99, rows(owner).first), (1, rows(owner).last)):
        expect(row).to_contain_text(framed(schema_id).hex()[:20])
    form = ways(owner)
    fits(owner, form)
    form.get_by_label("Address").fill("registry")
    form.get_by_role("button", name="Save").click()
    expect(form.get_by_label("Address")).to_have_attribute("aria-invalid", "true")
    form.get_by_label("Address").fill(registry.url)
    form.get_by_label("User").fill(USER)
    form.get_by_label("Password").fill(PASSWORD)
    save(form)

    expect(rows(owner).last).to_contain_text(SHOWN[:60])
    decoded = unfold(owner, 0)
    expect(decoded).to_contain_text("Avro, schema 1")
    expect(decoded.get_by_label("Value", exact=True)).to_contain_text('"amount": 120')
    assert owner.locator("tbody img").count() == 0
    unfold(owner, 0)
    raw = unfold(owner, 1)
    expect(raw).to_contain_text("the schema registry has not schema 99")
    expect(raw.get_by_label("Value", exact=True)).to_have_text(framed(99).hex())
    fits(owner)

    form = ways(owner)
    expect(form.get_by_label("Address")).to_have_value(registry.url)
    expect(form.get_by_label("Password")).to_have_value("")
    assert PASSWORD not in owner.content()
    form.get_by_label("Address").fill("")
    save(form)
    expect(rows(owner).last).to_contain_text(framed(1).hex()[:20])
    asked = len(registry.asked)
    owner.get_by_role("button", name="Show", exact=True).click()
    expect(rows(owner)).to_have_count(2)
    assert len(registry.asked) == asked, "it is asked no more"


def test_values_are_read_by_a_schema_that_is_pasted_until_it_is_removed(owner: Page) -> None:
    form = ways(owner)
    form.get_by_label("Values", exact=True).select_option("avro")
    form.get_by_role("button", name="Save").click()
    expect(form.get_by_text("Paste the schema")).to_be_visible()
    schema = form.get_by_label("Schema", exact=True)
    schema.fill('{"type": "nothing"}')
    form.get_by_role("button", name="Save").click()
    expect(form.get_by_text("cannot be used")).to_be_visible()
    schema.fill(json.dumps(ORDER))
    form.get_by_label("Values begin as").check()
    fits(owner, form)
    save(form)
    for row in (rows(owner).first, rows(owner).last):
        expect(row).to_contain_text(SHOWN[:60])

    form = ways(owner)
    expect(form.get_by_label("Values", exact=True)).to_have_value("avro")
    form.get_by_label("Values", exact=True).select_option("registry")
    save(form)
    expect(rows(owner).last).to_contain_text(framed(1).hex()[:20])

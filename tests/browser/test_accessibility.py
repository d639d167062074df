"""axe (rules of WCAG) on every page and the larger dialogs: light and dark, on a desk and on a phone."""

import shutil
import subprocess
import uuid
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from confluent_kafka import Consumer
from playwright.sync_api import Browser, Page

from tests.browser.conftest import Console, log_in
from tests.integration.alarming import full_instance
from tests.integration.stack import ROOT, Stack

pytestmark = pytest.mark.browser
PAGES: Final = (
    *("instances", "alarms", "webhooks", "dashboard", "brokers", "pipeline", "bills", "tenants", "members"),
    *("audit", "keys", "account", "nowhere"),
)
TABS: Final = (
    *(
        "overview",
        "topics",
        "topics/orders",
        "groups",
        "groups/readers",
        "alarms",
        "whitelist",
        "quota",
        "history",
    ),
    *("usage", "bill", "faults", "clients", "connections"),
)
DIALOGS: Final = (
    ("instances", "Create instance"),
    ("webhooks", "Create webhook"),
    ("members", "Invite"),
    ("keys", "Create key"),
)
_LOOK: Final = """async () => {
  const found = await axe.run(document, { resultTypes: ['violations'] });
  return found.violations
    .filter((one) => ['serious', 'critical'].includes(one.impact))
    .map((one) => `${one.id}: ${one.nodes.map((node) => node.html.slice(0, 200)).join(' | ')}`);
}"""


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The script, of the version that the pages' lock names."""
    web = ROOT / "tenants" / "web"
    to = tmp_path_factory.mktemp("axe")
    for name in ("package.json", "package-lock.json", ".npmrc"):
        shutil.copy(web / name, to)
    uv = shutil.which("uv") or str(ROOT / ".uv" / "bin" / "uv")
    lock = ROOT / "requirements" / "build.lock"
    npm = [uv, "run", "-q", "--isolated", "--no-project", "--with-requirements", str(lock), "npm"]
    done = subprocess.run(
        [*npm, "ci", "--ignore-scripts"], cwd=to, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return (to / "node_modules" / "axe-core" / "axe.min.js").read_text()


@pytest.fixture(scope="module")
def busy(stack: Stack) -> dict[str, Any]:
    """An instance with a topic, a group, an alarm and a webhook that was tried."""
    made = full_instance(stack, f"axe-{uuid.uuid4().hex[:8]}")
    consumer = Consumer(
        {
            "bootstrap.servers": made["bootstrap_servers"],
            "group.id": "readers",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["orders"])
    while consumer.poll(1) is None:
        pass
    consumer.commit(asynchronous=False)
    consumer.close()
    hook = stack.api("POST", "webhooks", {"name": "pager", "url": "http://127.0.0.1:1/"}, tenant="*")
    stack.api("POST", f"webhooks/{hook['id']}/test")
    return made


@pytest.fixture(
    params=[
        pytest.param((1440, 900, "light"), id="desk-light"),
        pytest.param((390, 844, "dark"), id="phone-dark"),
        pytest.param((1440, 900, "dark"), id="desk-dark", marks=pytest.mark.long),
        pytest.param((390, 844, "light"), id="phone-light", marks=pytest.mark.long),
    ]
)
def looked_at(request: pytest.FixtureRequest, browser: Browser, console: Console) -> Iterator[Page]:
    """A page of nobody yet."""
    width, height, scheme = request.param
    context = browser.new_context(
        viewport={"width": width, "height": height},
        base_url=console.url,
        color_scheme=scheme,
        reduced_motion="reduce",
        bypass_csp=True,  # the script is put into the page
    )
    page = context.new_page()
    page.set_default_timeout(15_000)
    yield page
    context.close()


def _open_messages(page: Page, visit: Callable[[str], None], instance_id: str) -> None:
    """Those of a topic, one of them unfolded."""
    visit(f"instances/{instance_id}/topics/orders")
    page.get_by_role("button", name="Messages", exact=True).click()
    page.get_by_role("button", name="Message ").first.click()


def test_no_page_has_a_serious_finding(
    looked_at: Page, console: Console, axe: str, busy: dict[str, Any]
) -> None:
    page, found = looked_at, dict[str, list[str]]()

    def look(where: str) -> None:
        page.evaluate(axe)
        if said := page.evaluate(_LOOK):
            found[where] = said

    def visit(path: str) -> None:
        page.goto(f"/#/{path}")
        page.locator("main > *").first.wait_for()
        page.wait_for_function("document.querySelector('[aria-busy=true]') === null")

    page.goto("/")
    page.get_by_label("User").wait_for()
    look("login")
    log_in(page, console.password)
    for path in (*PAGES, *(f"instances/{busy['id']}/{tab}" for tab in TABS)):
        visit(path)
        look(path)
    _open_messages(page, visit, busy["id"])
    look("messages")
    page.get_by_role("button", name="Schemas and masks").click()
    page.get_by_role("dialog").get_by_label("Values", exact=True).select_option("protobuf")
    look("messages: Schemas and masks")
    page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    page.get_by_role("dialog").wait_for()
    look("palette")
    page.keyboard.press("Escape")
    for path, opens in DIALOGS:
        visit(path)
        page.get_by_role("button", name=opens).first.click()
        page.get_by_role("dialog").wait_for()
        look(f"{path}: {opens}")
        page.keyboard.press("Escape")
    assert found == {}

"""A browser, and a console to look at: a stack for all tests here, or one that is already up.

`PORTICO_TEST_CONSOLE` (its address) and `PORTICO_TEST_ADMIN_PASSWORD` name a running console;
`PORTICO_TEST_CHROMIUM` names another browser than Debian's.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.stacks import whole_product

stack = whole_product

CHROMIUM: Final = os.environ.get("PORTICO_TEST_CHROMIUM", "/usr/bin/chromium")
FLAGS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PROVOKED: Final = ("status of 401", "status of 404", "status of 409", "status of 422", "status of 503")
"""What the browser itself logs about refusals: each has a place of its own on the page."""


class Console(NamedTuple):
    """Where the pages are and how to log in."""

    url: str
    password: str


@pytest.fixture(scope="package")
def console(request: pytest.FixtureRequest) -> Console:
    """A console whose whole stack works."""
    url = os.environ.get("PORTICO_TEST_CONSOLE")
    if url is not None:
        return Console(url.rstrip("/"), os.environ["PORTICO_TEST_ADMIN_PASSWORD"])
    stack = request.getfixturevalue("stack")
    assert stack.admin_password is not None, "the stack printed no password"
    return Console(stack.console_url.rstrip("/"), stack.admin_password)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One chromium for all tests of the tier; without one they fail, they do not skip."""
    assert Path(CHROMIUM).exists(), f"no browser at {CHROMIUM}: apt-get install chromium"
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield chromium
        chromium.close()


@contextmanager
def own_browser(browser: Browser, console: Console, *permissions: str) -> Iterator[Page]:
    """Somebody's own browser, where nobody is logged in."""
    context = browser.new_context(
        viewport={"width": 1440, "height": 900},
        base_url=console.url,
        permissions=list(permissions) or None,
    )
    page = context.new_page()
    page.set_default_timeout(15_000)
    yield page
    context.close()


@contextmanager
def watched(browser: Browser, console: Console) -> Iterator[Page]:
    """The same, which fails when a script fails or asks another host."""
    faults: list[str] = []
    with own_browser(browser, console, "clipboard-read", "clipboard-write") as page:
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda message: _keep(message.type, message.text, faults))
        page.on("request", lambda sent: _keep_foreign(sent.url, console.url, faults))
        yield page
    assert faults == []


@pytest.fixture
def blank(browser: Browser, console: Console) -> Iterator[Page]:
    """A page nobody is logged in to."""
    with watched(browser, console) as page:
        yield page


def _keep(kind: str, text: str, faults: list[str]) -> None:
    if kind == "error" and not any(known in text for known in PROVOKED):
        faults.append(text)


def _keep_foreign(url: str, console_url: str, faults: list[str]) -> None:
    if not url.startswith((console_url, "data:")):
        faults.append(f"asked another host: {url}")


@pytest.fixture
def page(blank: Page, console: Console) -> Page:
    """A page of a logged-in operator."""
    log_in(blank, console.password)
    return blank


def log_in(page: Page, password: str) -> None:
    """Log in through the form."""
    page.goto("/")
    page.get_by_label("User").fill("admin")
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("heading", name="Instances").wait_for()

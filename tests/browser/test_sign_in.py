"""People sign in by a real OpenID provider (npm's oidc-provider), in a browser; without it, by password."""

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from ctl.stack.layout import free_port
from tests.browser.conftest import Console, log_in, own_browser
from tests.integration.stack import Stack, running_stack

pytestmark = pytest.mark.browser
SECRET = "a-secret-of-this-test/with: signs"
FILES = Path(__file__).parent / "provider"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The provider's package, from npm's registry."""
    directory = tmp_path_factory.mktemp("provider")
    shutil.copytree(FILES, directory, dirs_exist_ok=True)
    subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=directory, check=True)
    return directory


@pytest.fixture(scope="module")
def port() -> int:
    """Where the provider is to be."""
    return free_port()


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory, port: int) -> Iterator[Stack]:
    """A stack whose people sign in by a provider."""
    directory = tmp_path_factory.mktemp("people")
    secret = directory / "client-secret"
    secret.write_text(SECRET)
    named = ("--oidc-issuer", f"http://127.0.0.1:{port}", "--oidc-client-id", "portico")
    with running_stack(
        directory / "data", "--workers", "1", *named, "--oidc-client-secret-file", str(secret)
    ) as stack:
        stack.api("POST", "tenants", {"name": "acme"})
        stack.api("POST", "group-roles", {"group": "devs", "tenant": "acme", "role": "developer"})
        yield stack


def serve(installed: Path, port: int, stack: Stack) -> subprocess.Popen[str]:
    """The provider, once it serves."""
    console = stack.console_url.rstrip("/") + "/"
    command = ["node", "provider.mjs", str(port), SECRET, console]
    process = subprocess.Popen(command, cwd=installed, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "serves\n"
    return process


def can_be_used(stack: Stack) -> None:
    """What failed is not asked again for some seconds."""
    deadline = time.monotonic() + 60
    while stack.api("GET", "sign-in")["trouble"] is not None:
        assert time.monotonic() < deadline
        time.sleep(0.2)


def sign_in(page: Page, port: int, who: str) -> None:
    """From the login page over the provider's own pages, and back."""
    page.get_by_role("button", name=f"Sign in with 127.0.0.1:{port}").click()
    page.locator("[name=login]").fill(who)
    page.locator("[name=password]").fill("any")
    page.locator("button[type=submit]").click()
    page.get_by_role("button", name="Continue").click()


def test_people_sign_in_and_the_password_remains(
    installed: Path, port: int, people: Stack, browser: Browser
) -> None:
    assert people.admin_password is not None
    console = Console(people.console_url.rstrip("/"), people.admin_password)
    with own_browser(browser, console) as page:
        page.goto("/")
        expect(page.get_by_text("the identity provider cannot be used now")).to_be_visible()
        log_in(page, console.password)
        page.goto("/#/groups")
        expect(page.get_by_role("row").filter(has_text="devs")).to_contain_text("developer")
    process = serve(installed, port, people)
    try:
        can_be_used(people)
        with own_browser(browser, console) as page:
            page.goto("/")
            sign_in(page, port, "ann+devs")
            page.get_by_role("heading", name="Instances").wait_for(timeout=60_000)
            expect(page.get_by_role("link", name="ann@acme")).to_be_visible()
            assert "code=" not in page.url
            page.go_back()
            page.goto("/")
            expect(page.get_by_role("link", name="ann@acme")).to_be_visible()
            page.get_by_role("button", name="Log out").click()
            expect(page.get_by_role("link", name="End the session at")).to_be_visible()
            assert [one["value"] for one in page.context.cookies() if one["name"] == "portico_session"] == []
        with own_browser(browser, console) as page:
            page.goto("/")
            sign_in(page, port, "zoe+strangers")
            expect(page.get_by_text("no group of yours is let in here")).to_be_visible(timeout=60_000)
            page.goto("/?code=stolen&state=guessed")
            expect(page.get_by_text("belongs to another sign-in")).to_be_visible()
        [member] = people.api("GET", "members", tenant="acme")["items"]
        assert (member["user"], member["role"], member["by_groups"]) == ("ann@acme", "developer", True)
    finally:
        process.terminate()
        process.wait()

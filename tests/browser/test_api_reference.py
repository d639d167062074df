"""The API's reference in the console, for who is logged in; and what the pages are made of."""

import shutil
import subprocess
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.integration.stack import ROOT

pytestmark = pytest.mark.browser


def test_the_reference_tries_operations_as_who_is_logged_in(page: Page) -> None:
    page.goto("/")
    page.get_by_role("link", name="API reference").click()
    expect(page.locator(".info .title")).to_contain_text("Portico", timeout=60_000)
    page.locator("#operations-tag-accounts").click()
    page.locator("#operations-accounts-me button.opblock-summary-control").click()
    page.get_by_role("button", name="Try it out").click()
    page.get_by_role("button", name="Execute").click()
    answer = page.locator("#operations-accounts-me .live-responses-table")
    expect(answer).to_contain_text("200", timeout=60_000)
    expect(answer).to_contain_text('"admin"')


def test_pages_are_typed_by_the_document(tmp_path: Path) -> None:
    web = tmp_path / "web"
    shutil.copytree(ROOT / "tenants" / "web", web, ignore=shutil.ignore_patterns("node_modules"))
    uv = shutil.which("uv") or str(ROOT / ".uv" / "bin" / "uv")
    lock = ROOT / "requirements" / "build.lock"
    npm = [uv, "run", "-q", "--isolated", "--no-project", "--with-requirements", str(lock), "npm"]
    for arguments in (["ci"], ["run", "check"], ["test"], ["run", "lint"]):
        done = subprocess.run([*npm, *arguments], cwd=web, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]

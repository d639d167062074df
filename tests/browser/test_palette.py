"""The palette by keyboard: to instances, topics of the open one, orders; and the language that is kept."""

import uuid
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Console, log_in
from tests.integration.stack import Stack

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def shop(stack: Stack) -> dict[str, Any]:
    """An instance with a topic."""
    made = stack.create_instance(f"palette-{uuid.uuid4().hex[:8]}")
    stack.api("POST", f"instances/{made['id']}/topics", {"name": "orders-of-shop", "partitions": 1})
    return made


def seek(page: Page, text: str) -> None:
    """Open the palette and type."""
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Instance, topic").fill(text)


def test_keys_alone_lead_to_an_instance_its_topic_and_an_order(page: Page, shop: dict[str, Any]) -> None:
    seek(page, shop["id"][2:])
    box = page.get_by_role("combobox", name="Instance, topic")
    expect(page.get_by_role("option", name=shop["name"])).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name=shop["name"])).to_be_visible()
    seek(page, "OF-SHOP")
    chosen = page.get_by_role("option", name="orders-of-shop")
    expect(chosen).to_have_attribute("aria-selected", "true")
    expect(box).to_have_attribute("aria-activedescendant", chosen.get_attribute("id") or "")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="orders-of-shop")).to_be_visible()
    seek(page, "resize")
    expect(page.get_by_role("option", name="Resize")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog").get_by_label("Produce rate")).to_be_visible()
    page.keyboard.press("Control+k")
    expect(page.get_by_role("dialog")).to_have_count(1)


def test_it_opens_again_while_it_closes(page: Page) -> None:
    """The browser tells of the closed dialog after the keys that ask for it again."""
    seek(page, "first")
    page.evaluate(
        """() => {
            document.querySelector('dialog[open]').close();
            window.dispatchEvent(new KeyboardEvent('keydown', {key: 'k', ctrlKey: true}));
        }"""
    )
    box = page.get_by_role("combobox", name="Instance, topic")
    expect(box).to_have_value("")
    page.wait_for_timeout(300)
    expect(box).to_be_focused()


def test_arrows_go_round_and_escape_gives_the_focus_back(page: Page) -> None:
    opener = page.get_by_role("button", name="Create instance").first
    opener.focus()
    page.keyboard.press("Control+k")
    offers = page.get_by_role("listbox", name="Go to or do").get_by_role("option")
    first, last = offers.first, offers.last
    expect(first).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowUp")
    expect(last).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowDown")
    expect(first).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Escape")
    expect(opener).to_be_focused()
    seek(page, "nothing is called so")
    expect(page.get_by_text("Nothing matches")).to_be_visible()


def test_a_phone_has_it_behind_a_button(page: Page, shop: dict[str, Any]) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.get_by_role("button", name="Search", exact=True).click()
    page.get_by_role("combobox", name="Instance, topic").fill(shop["name"])
    page.get_by_role("option", name=shop["name"]).click()
    expect(page.get_by_role("heading", name=shop["name"])).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_language_that_is_chosen_is_kept(blank: Page, console: Console) -> None:
    log_in(blank, console.password)
    blank.get_by_label("Language").select_option("中文")
    expect(blank.get_by_role("navigation", name="主导航").get_by_role("link", name="实例")).to_be_visible()
    expect(blank.locator("html")).to_have_attribute("lang", "zh-CN")
    blank.reload()
    expect(blank.get_by_role("navigation", name="主导航")).to_be_visible()
    blank.keyboard.press("Control+k")
    blank.get_by_role("combobox", name="实例").fill("创建")
    blank.keyboard.press("Enter")
    expect(blank.get_by_role("dialog").get_by_label("生产速率")).to_be_visible()
    blank.keyboard.press("Escape")
    blank.get_by_label("语言").select_option("English")
    expect(blank.get_by_role("navigation", name="Main")).to_be_visible()


def test_who_is_not_logged_in_chooses_a_language_too(blank: Page, console: Console) -> None:
    blank.goto("/")
    blank.get_by_label("Language").select_option("中文")
    expect(blank.get_by_role("button", name="登录")).to_be_visible()
    expect(blank.locator("html")).to_have_attribute("lang", "zh-CN")
    blank.get_by_label("用户名").fill("admin")
    blank.get_by_label("密码").fill(console.password)
    blank.get_by_role("button", name="登录").click()
    expect(blank.get_by_role("navigation", name="主导航")).to_be_visible()
    blank.goto("/#/invitation/of-nobody")
    blank.get_by_label("语言").select_option("English")
    expect(blank.get_by_text("not good any more")).to_be_visible()

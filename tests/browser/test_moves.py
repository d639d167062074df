"""An operator moves an instance on its overview, follows it, and removes the old copy."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import log_in
from tests.integration.moves.clients import make_topics
from tests.integration.moves.second_cluster import CLUSTER_ID, second_cluster
from tests.integration.stack import Stack, running_stack

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack with a second cluster."""
    with (
        running_stack(tmp_path_factory.mktemp("stack") / "data") as stack,
        second_cluster(stack, tmp_path_factory.mktemp("second")),
    ):
        yield stack


@pytest.fixture
def operator(browser: Browser, two: Stack) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1440, "height": 900}, base_url=two.console_url)
    page = context.new_page()
    page.set_default_timeout(15_000)
    assert two.admin_password is not None
    log_in(page, two.admin_password)
    yield page
    context.close()


def test_an_instance_is_moved_and_its_old_copy_removed(operator: Page, two: Stack) -> None:
    made = two.create_instance("goes", cluster="builtin-1")
    make_topics(made["bootstrap_servers"], "orders")
    operator.goto(f"/#/instances/{made['id']}")
    card = operator.get_by_test_id("move")
    card.get_by_role("button", name="Move").click()
    dialog = operator.get_by_role("dialog")
    dialog.get_by_label("To cluster").select_option("builtin-1")
    dialog.get_by_role("button", name="Move").click()
    expect(dialog.get_by_role("alert")).to_contain_text("on cluster 'builtin-1' already")
    dialog.get_by_label("To cluster").select_option(CLUSTER_ID)
    expect(dialog).to_contain_text(f"portico instance move {made['id']} --to {CLUSTER_ID}")
    dialog.get_by_role("button", name="Move").click()
    expect(card).to_contain_text("Clients are served from the new cluster", timeout=60_000)
    card.get_by_role("button", name="Remove the old copy").click()
    dialog.get_by_label("Type “goes” to confirm").fill("goes")
    dialog.get_by_role("button", name="Remove the old copy").click()
    expect(card).to_contain_text("the old copy is removed", timeout=60_000)
    assert two.api("GET", f"instances/{made['id']}/move")["phase"] == "done"

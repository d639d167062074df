"""The stack that tests share which leave it as healthy as they found it."""

from collections.abc import Iterator

import pytest

from tests.integration.stack import Stack, running_stack
from tests.servers.smtp_server import SmtpServer


@pytest.fixture(scope="package", name="stack")
def whole_product(tmp_path_factory: pytest.TempPathFactory, mail: SmtpServer) -> Iterator[Stack]:
    """One whole product for all tests of the directory whose conftest names this fixture: it ends with them,
    for a stack that waits for nothing still takes a tenth of a core from the tests after it."""
    arguments = ("--deletion-grace", "0", "--webhook-allow", "127.0.0.0/8")
    arguments += ("--smtp-url", f"smtp://127.0.0.1:{mail.port}", "--smtp-sender", "portico@example.com")
    with running_stack(tmp_path_factory.mktemp("stack") / "data", *arguments) as running:
        yield running

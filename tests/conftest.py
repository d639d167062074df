"""Fixtures of all tests."""

from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.integration.stack import Stack, running_stack

settings.register_profile("portico", deadline=None)  # a busy machine is no failure
settings.load_profile("portico")


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """One whole product for all end-to-end tests that leave it as healthy as they found it."""
    with running_stack(tmp_path_factory.mktemp("stack") / "data", "--deletion-grace", "0") as running:
        yield running

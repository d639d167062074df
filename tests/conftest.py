"""Fixtures of all tests."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.integration.stack import Stack, running_stack

# No property has a deadline: how long an example takes is the machine's business.
settings.register_profile("portico", deadline=None)
settings.register_profile("mutants", deadline=None, max_examples=25, derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "portico"))


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """One whole product for all end-to-end tests that leave it as healthy as they found it."""
    with running_stack(tmp_path_factory.mktemp("stack") / "data", "--deletion-grace", "0") as running:
        yield running

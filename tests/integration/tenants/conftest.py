"""The console of whole stacks, one on SQLite and one on Postgres."""

from collections.abc import Iterator

import pytest

from tests.integration.stack import Stack, running_stack


@pytest.fixture(scope="package", params=[pytest.param("sqlite", marks=pytest.mark.long), "postgres"])
def stack(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A whole product for the tests of this directory."""
    arguments = ("--deletion-grace", "0", "--workers", "4")
    if request.param == "postgres":
        server = request.getfixturevalue("postgres")
        arguments += ("--database-url", server.url(server.new_database()))
    with running_stack(tmp_path_factory.mktemp(request.param) / "data", *arguments) as running:
        yield running

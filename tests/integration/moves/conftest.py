"""A stack and a second cluster, of each module its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.moves.second_cluster import Broker, second_cluster
from tests.integration.stack import Stack, running_stack


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running_stack(tmp_path_factory.mktemp("stack") / "data") as running:
        yield running


@pytest.fixture(scope="module")
def second_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the second cluster's broker."""
    return tmp_path_factory.mktemp("second")


@pytest.fixture(scope="module")
def second(stack: Stack, second_dir: Path) -> Iterator[Broker]:
    with second_cluster(stack, second_dir) as broker:
        yield broker

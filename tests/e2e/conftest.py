"""A stack for tests that leave it as it was, a stack and a cluster for those that kill and leave it whole."""

from collections.abc import Iterator

import pytest

from tests.e2e.cluster import Cluster
from tests.integration.stack import Stack, running_stack
from tests.stacks import whole_product

stack = whole_product


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    data_dir = tmp_path_factory.mktemp("cluster") / "data"
    with running_stack(data_dir, "--session-timeout-ms", "2000", brokers=3) as stack:
        yield Cluster(stack)


@pytest.fixture(scope="package")
def own_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running_stack(tmp_path_factory.mktemp("own") / "data") as running:
        yield running

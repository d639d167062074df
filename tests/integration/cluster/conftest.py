"""One cluster for all tests here; each leaves it whole."""

from collections.abc import Iterator

import pytest

from tests.integration.cluster.brokers import Cluster, running_cluster
from tests.integration.zookeeper.server import running_zookeeper


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("cluster")
    with (
        running_zookeeper(directory) as zookeeper,
        running_cluster(directory, zookeeper.new_chroot()) as running,
    ):
        yield running


@pytest.fixture(autouse=True)
def whole(cluster: Cluster) -> Iterator[None]:
    """A test that fails in the middle does not take the next ones with it."""
    yield
    for broker in cluster.brokers.values():
        if not broker.is_running:
            broker.start()

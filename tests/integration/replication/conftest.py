"""One cluster for all tests here; each leaves it whole."""

from collections.abc import Iterator

import pytest

from tests.integration.replication.cluster import Cluster, running_cluster
from tests.integration.zookeeper.server import running_zookeeper


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("cluster")
    with (
        running_zookeeper(directory) as zookeeper,
        running_cluster(directory, zookeeper.new_chroot()) as running,
    ):
        yield running

"""One cluster for all tests here; each leaves it whole."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from ctl.stack.layout import free_port
from tests.integration.cluster.brokers import Cluster
from tests.integration.faults.network import Network
from tests.integration.zookeeper.server import ZooKeeperServer, running_zookeeper


class World(NamedTuple):
    """Three brokers that reach each other through `network`, and their ZooKeeper."""

    cluster: Cluster
    network: Network
    zookeeper: ZooKeeperServer


@pytest.fixture(scope="package")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    directory = tmp_path_factory.mktemp("faults")
    network = Network()
    with running_zookeeper(directory) as zookeeper:
        # Nothing is flushed by time, so that recovery looks at everything; checkpoints are written often.
        cluster = Cluster(
            directory,
            zookeeper.new_chroot(),
            0,
            *("--flush-interval-ms", "3600000", "--checkpoint-interval-ms", "200"),
            *("--retention-check-interval-ms", "500", "--replica-lag-time-max-ms", "2000"),
        )
        try:
            for node_id in (1, 2, 3):
                port = free_port()
                front = network.front(node_id, port)
                cluster.add(node_id, "--advertised", f"127.0.0.1:{front}").port = port
            cluster.start()
            yield World(cluster, network, zookeeper)
        finally:
            cluster.stop()
            network.close()


@pytest.fixture
def cluster(world: World) -> Iterator[Cluster]:
    """A test that fails in the middle does not take the next ones with it."""
    yield world.cluster
    for broker in world.cluster.brokers.values():
        if not broker.is_running:
            broker.launch()
            broker.wait()

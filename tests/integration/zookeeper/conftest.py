"""One ZooKeeper for all tests here; each test has a chroot of its own."""

from collections.abc import AsyncIterator, Iterator

import pytest

from runtime.tree.zookeeper import ZooKeeperTree
from tests.integration.zookeeper.server import ZooKeeperServer, running_zookeeper

SESSION_TIMEOUT_MS = 2_000


@pytest.fixture(scope="package")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    with running_zookeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.fixture
def hosts(zookeeper: ZooKeeperServer) -> str:
    return zookeeper.new_chroot()


@pytest.fixture
async def tree(hosts: str) -> AsyncIterator[ZooKeeperTree]:
    tree = ZooKeeperTree(hosts, SESSION_TIMEOUT_MS, None)
    await tree.start()
    yield tree
    await tree.aclose()

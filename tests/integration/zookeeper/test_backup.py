"""A backup out of a ZooKeeper goes into an empty chroot, and into no other."""

import asyncio
from pathlib import Path

import pytest

from broker.metadata import znode_paths as paths
from broker.metadata.znodes import decode_controller_epoch
from contracts.tree import Create
from ctl.backup.places import Named, Places, find_places
from ctl.backup.raising import EPOCHS_AHEAD
from ctl.backup.restoring import Wishes, restore
from ctl.backup.taking import take
from ctl.backup.tree_nodes import TreeNode, nodes_of_tree, write_nodes
from ctl.errors import CommandError
from runtime.tree.zookeeper import ZooKeeperTree
from tenants.store.engine import Store
from tests.integration.zookeeper.conftest import SESSION_TIMEOUT_MS
from tests.integration.zookeeper.server import ZooKeeperServer
from tests.unit.ctl.test_backup_raising import tree as some_tree

_TOPICS = {f"topic-{number}": [(1, 2, 3)] for number in range(300)}
_LOGS_LOST = Wishes(logs_are_lost=True)


def _quiet(_text: str) -> None:
    """Nobody listens."""


def _places(data_dir: Path, hosts: str) -> Places:
    return find_places(data_dir, Named(zookeeper=hosts))


async def _fill(hosts: str, secret: str) -> ZooKeeperTree:
    tree = ZooKeeperTree(hosts, SESSION_TIMEOUT_MS, secret)
    await tree.start()
    await write_nodes(tree, [TreeNode(*node) for node in some_tree(_TOPICS).items()])
    await tree.commit([Create(paths.broker_path(1), b"{}", ephemeral=True)])
    return tree


async def _nodes(hosts: str, secret: str) -> dict[str, bytes]:
    tree = ZooKeeperTree(hosts, SESSION_TIMEOUT_MS, secret)
    await tree.start()
    try:
        return {node.path: node.data async for node in nodes_of_tree(tree)}
    finally:
        await tree.aclose()


async def test_from_one_chroot_into_another(tmp_path: Path, zookeeper: ZooKeeperServer, hosts: str) -> None:
    file, other = tmp_path / "backup.zip", zookeeper.new_chroot()
    here, there = _places(tmp_path / "data", hosts), _places(tmp_path / "data", other)
    secret = here.layout.ensure_secret()
    here.layout.control_dir.mkdir()
    Store.open(here.database_url).close()
    living = await _fill(hosts, secret)
    with file.open("wb") as stream:
        manifest = await asyncio.to_thread(take, here, stream, None, 5, _quiet)
    assert manifest.cluster.brokers == (1, 2, 3)
    assert not manifest.cluster.is_local
    with pytest.raises(CommandError, match="another chroot"):
        await asyncio.to_thread(restore, here, file, _LOGS_LOST, 5, _quiet)
    await living.aclose()
    await asyncio.to_thread(restore, there, file, _LOGS_LOST, 5, _quiet)
    before, after = await _nodes(hosts, secret), await _nodes(other, secret)
    assert after.keys() - before.keys() == {"/portico", paths.KEPT_UNTIL}
    assert before.keys() <= after.keys(), "the registration was its session's"
    epoch = decode_controller_epoch(before[paths.CONTROLLER_EPOCH])
    assert decode_controller_epoch(after[paths.CONTROLLER_EPOCH]) == epoch + EPOCHS_AHEAD
    assert not there.tree_file.exists(), "it is in no file"
    with pytest.raises(CommandError, match="another chroot"):
        await asyncio.to_thread(restore, there, file, _LOGS_LOST, 5, _quiet)

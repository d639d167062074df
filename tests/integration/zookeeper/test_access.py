"""Strangers at ZooKeeper: they may connect, and touch nothing of ours."""

from collections.abc import Callable
from typing import Any

import pytest
from kazoo.exceptions import NoAuthError
from kazoo.security import OPEN_ACL_UNSAFE

from broker.metadata import znode_paths
from contracts import masters
from contracts.tree import Create, Delete, SetData, TreeUnavailable
from runtime.tree.access import TOP_LEVEL, Access, take_over
from runtime.tree.zookeeper import ZooKeeperTree
from tests.integration.zookeeper.conftest import SESSION_TIMEOUT_MS
from tests.integration.zookeeper.server import ZooKeeperServer

_SECRET = "of this deployment"
_TOPIC = "/brokers/topics/iabcdefghijk.orders"


async def _tree(hosts: str, secret: str | None) -> ZooKeeperTree:
    tree = ZooKeeperTree(hosts, SESSION_TIMEOUT_MS, secret)
    await tree.start()
    await tree.close_to_others()
    return tree


async def _write(hosts: str, secret: str | None) -> None:
    tree = await _tree(hosts, secret)
    for path in ("/brokers", "/brokers/topics", _TOPIC, "/controller"):
        await tree.commit([Create(path, path.encode())])
    await tree.aclose()


def _attacks(chroot: str) -> list[Callable[[Any], object]]:
    return [
        lambda client: client.get(chroot + _TOPIC),
        lambda client: client.get_children(chroot + "/brokers"),
        lambda client: client.set(chroot + "/controller", b"mine"),
        lambda client: client.delete(chroot + "/controller"),
        lambda client: client.create(chroot + "/brokers/topics/mine", b""),
        lambda client: client.set_acls(chroot + "/controller", OPEN_ACL_UNSAFE),
    ]


async def test_strangers_touch_nothing(zookeeper: ZooKeeperServer, hosts: str) -> None:
    await _write(hosts, _SECRET)
    chroot = "/" + hosts.partition("/")[2]
    with zookeeper.client() as stranger:
        for attack in _attacks(chroot):
            with pytest.raises(NoAuthError):
                attack(stranger)


async def test_another_deployment_is_told_so(hosts: str) -> None:
    await _write(hosts, _SECRET)
    other = ZooKeeperTree(hosts, SESSION_TIMEOUT_MS, "of another deployment")
    await other.start()
    with pytest.raises(TreeUnavailable, match="another deployment"):
        await other.get(_TOPIC)
    with pytest.raises(TreeUnavailable, match="another deployment"):
        await other.commit([SetData("/controller", b"mine")])
    await other.aclose()


async def test_an_open_tree_is_taken_over_with_all_it_holds(zookeeper: ZooKeeperServer, hosts: str) -> None:
    await _write(hosts, None)
    chroot = "/" + hosts.partition("/")[2]
    with zookeeper.client() as stranger:
        assert stranger.get(chroot + _TOPIC)[0] == _TOPIC.encode()
        tree = await _tree(hosts, _SECRET)
        for attack in _attacks(chroot):
            with pytest.raises(NoAuthError):
                attack(stranger)
    node = await tree.get(_TOPIC)
    assert node is not None
    assert node.data == _TOPIC.encode()
    await tree.commit([SetData(_TOPIC, b"goes on"), Delete("/controller")])
    await tree.aclose()
    addresses = hosts.partition("/")[0]
    assert take_over(addresses, chroot, Access(_SECRET)) == 0


def test_every_node_of_ours_is_known_where_no_chroot_was_named() -> None:
    paths = [
        value
        for module in (znode_paths, masters)
        for name, value in vars(module).items()
        if name.isupper() and isinstance(value, str) and value.startswith("/")
    ]
    assert len(paths) > 15
    assert {path.split("/")[1] for path in paths} <= set(TOP_LEVEL)


def test_the_secret_cannot_be_read_from_what_zookeeper_sees() -> None:
    access = Access(_SECRET)
    seen = repr(access.credentials) + repr(access.acl)
    assert _SECRET not in seen
    assert Access(_SECRET).wire_acl == access.wire_acl != Access("other").wire_acl

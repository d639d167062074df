"""A cluster of one becomes one of several: its metadata moves into ZooKeeper."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from contracts.tree import Create, Op, SetData
from ctl.errors import CommandError
from ctl.stack.layout import Layout
from ctl.stack.moving import move_local_metadata
from runtime.tree.local import LOCAL_TREE_FILE, LocalTree
from runtime.tree.zookeeper import ZooKeeperTree
from tests.integration.zookeeper.conftest import SESSION_TIMEOUT_MS

TOPICS: Sequence[Op] = (
    Create("/brokers"),
    Create("/brokers/ids"),
    Create("/brokers/ids/1", b"{}", ephemeral=True),
    Create("/brokers/topics"),
    Create("/brokers/topics/a", b'{"partitions":{"0":[1]}}'),
    Create("/controller_epoch", b"1"),
    SetData("/controller_epoch", b"2"),
)


def say(_text: str) -> None:
    """Nobody listens."""


@pytest.fixture
async def tree(tmp_path: Path, hosts: str) -> AsyncIterator[ZooKeeperTree]:
    """As the deployment's brokers see it."""
    tree = ZooKeeperTree(hosts, SESSION_TIMEOUT_MS, Layout(tmp_path).ensure_secret())
    await tree.start()
    yield tree
    await tree.aclose()


async def local(layout: Layout) -> Path:
    file = layout.broker_dir(1) / LOCAL_TREE_FILE
    tree = LocalTree(file)
    await tree.start()
    await tree.commit(TOPICS)
    await tree.aclose()
    return file


async def test_what_lasts_is_moved_once(tmp_path: Path, tree: ZooKeeperTree, hosts: str) -> None:
    layout = Layout(tmp_path)
    file = await local(layout)
    await move_local_metadata(layout, hosts, say)
    assert not file.exists()
    assert await tree.children("/") == ["brokers", "controller_epoch"]
    assert await tree.children("/brokers/ids") == []
    topic, epoch = await tree.get_many(["/brokers/topics/a", "/controller_epoch"])
    assert topic is not None
    assert epoch is not None
    assert (topic.data, epoch.data) == (b'{"partitions":{"0":[1]}}', b"2")
    await tree.commit([SetData("/controller_epoch", b"3")])
    await move_local_metadata(layout, hosts, say)
    epoch = await tree.get("/controller_epoch")
    assert epoch is not None
    assert epoch.data == b"3", "there is nothing left to move"


async def test_an_interrupted_move_is_finished(tmp_path: Path, tree: ZooKeeperTree, hosts: str) -> None:
    layout = Layout(tmp_path)
    await local(layout)
    await tree.commit([Create("/moving_from_local"), *TOPICS[:2], *TOPICS[3:5]])
    await move_local_metadata(layout, hosts, say)
    assert await tree.children("/") == ["brokers", "controller_epoch"]


async def test_another_clusters_metadata_is_left_alone(
    tmp_path: Path, tree: ZooKeeperTree, hosts: str
) -> None:
    layout = Layout(tmp_path)
    file = await local(layout)
    await tree.commit([Create("/brokers"), Create("/brokers/topics"), Create("/brokers/topics/theirs")])
    with pytest.raises(CommandError, match="holds another cluster"):
        await move_local_metadata(layout, hosts, say)
    assert file.exists()
    assert await tree.children("/brokers/topics") == ["theirs"]

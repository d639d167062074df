"""A cluster of one becomes one of several: what its broker knew moves into ZooKeeper."""

from collections.abc import Callable, Sequence

from contracts.tree import Check, Create, Delete, Tree, TreeUnavailable
from ctl.errors import CommandError
from ctl.stack.layout import Layout
from runtime.tree.local import LOCAL_TREE_FILE
from runtime.tree.pure import Record
from runtime.tree.store import StoreFailed, TreeStore

_MARK = "/moving_from_local"
"""There while a move is under way: one that was interrupted starts anew."""
_SESSION_TIMEOUT_MS = 6_000


async def move_local_metadata(layout: Layout, hosts: str | None, say: Callable[[str], None]) -> None:
    """Move it unless it is moved; brokers do not run yet. Raises: CommandError."""
    file = layout.broker_dir(1) / LOCAL_TREE_FILE
    if hosts is None or not file.exists():
        return
    from runtime.tree.zookeeper import ZooKeeperTree  # here: a start seldom needs kazoo

    say("moving the cluster's metadata into ZooKeeper")
    store = TreeStore(file)
    tree = ZooKeeperTree(hosts, _SESSION_TIMEOUT_MS, layout.ensure_secret())
    try:
        store.open()
        records = store.records()
        await tree.start()
        if await tree.children("/brokers/topics") and await tree.get(_MARK) is None:
            raise CommandError(f"the ZooKeeper at {hosts} holds another cluster: name one with a chroot")
        await _copy(records, tree)
    except (StoreFailed, TreeUnavailable) as error:
        raise CommandError(f"the cluster's metadata cannot be moved into ZooKeeper: {error}") from error
    finally:
        await tree.aclose()
        store.close()
    file.rename(file.with_name(file.name + ".moved"))


async def _copy(records: Sequence[tuple[str, Record]], tree: Tree) -> None:
    """Parents before children; nodes that are there already stay."""
    await tree.commit_many([[Create(_MARK)]])
    nodes = sorted((path, record.data) for path, record in records if path != "/")
    await tree.commit_many([[Create(path, data)] for path, data in nodes])
    await tree.commit([Check(_MARK, 0), Delete(_MARK)])

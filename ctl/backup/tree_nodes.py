"""The metadata tree's lasting nodes, read from where they are and written to where they shall be."""

import sqlite3
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

import msgspec

from contracts.tree import Create, Op, Tree
from runtime.tree.local import LocalTree

_PATHS_PER_READ: Final = 500
_OPS_PER_COMMIT: Final = 200
_BYTES_PER_COMMIT: Final = 256 * 1024
"""Well below ZooKeeper's jute.maxbuffer."""


class TreeNode(msgspec.Struct, frozen=True):
    """A node that outlives sessions. As JSON its data is base64."""

    path: str
    data: bytes


def nodes_of_file(path: Path) -> Iterator[TreeNode]:
    """Nodes of a broker alone, in one snapshot, whether the broker runs or not; parents first.

    Raises: sqlite3.Error, FileNotFoundError.
    """
    # mode=ro could not take away at the end what SQLite has beside a file that nobody else uses
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=rw", uri=True)) as connection:
        found = connection.execute("SELECT path, data FROM nodes WHERE path <> '/' ORDER BY path")
        for node_path, data in found:
            yield TreeNode(node_path, data)


async def nodes_of_tree(tree: Tree) -> AsyncIterator[TreeNode]:
    """Nodes of ZooKeeper, level by level: parents first, and no snapshot. What goes meanwhile is left out.

    Raises: TreeUnavailable.
    """
    level = [f"/{name}" for name in await tree.children("/") or [] if name != "zookeeper"]
    while level:
        below: list[str] = []
        for at in range(0, len(level), _PATHS_PER_READ):
            paths = level[at : at + _PATHS_PER_READ]
            nodes = await tree.get_many(paths)
            lasting = [
                (path, node)
                for path, node in zip(paths, nodes, strict=True)
                if node is not None and not node.stat.ephemeral
            ]
            for path, node in lasting:
                yield TreeNode(path, node.data)
            names = await tree.children_many([path for path, _ in lasting])
            for (path, _), children in zip(lasting, names, strict=True):
                below += [f"{path}/{name}" for name in children or ()]
        level = below


async def write_file(path: Path, nodes: Sequence[TreeNode]) -> None:
    """Make the file of a broker alone. Raises: TreeUnavailable, TreeConflict."""
    tree = LocalTree(path)
    await tree.start()
    try:
        await write_nodes(tree, nodes)
    finally:
        await tree.aclose()


async def write_nodes(tree: Tree, nodes: Sequence[TreeNode]) -> None:
    """Create nodes, parents first, in a tree that has none of them. Raises: TreeUnavailable, TreeConflict."""
    for ops in _batches(nodes):
        await tree.commit(ops)


def _batches(nodes: Sequence[TreeNode]) -> Iterator[list[Op]]:
    ops: list[Op] = []
    size_bytes = 0
    for node in sorted(nodes, key=lambda each: each.path):
        if ops and (len(ops) == _OPS_PER_COMMIT or size_bytes + len(node.data) > _BYTES_PER_COMMIT):
            yield ops
            ops, size_bytes = [], 0
        ops.append(Create(node.path, node.data))
        size_bytes += len(node.path) + len(node.data)
    if ops:
        yield ops

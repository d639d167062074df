"""The metadata tree: ZooKeeper's data model, kept by ZooKeeper or by a file of this process.

The values are `contracts.tree`; everything that is told of a `Tree` is named here once.
"""

from contracts.tree import (
    ANY_VERSION,
    Check,
    CommitResult,
    Conflict,
    Create,
    Delete,
    Node,
    Op,
    SessionState,
    SetData,
    Stat,
    Tree,
    TreeConflict,
    TreeUnavailable,
)

__all__ = [
    "ANY_VERSION",
    "Check",
    "CommitResult",
    "Conflict",
    "Create",
    "Delete",
    "Node",
    "Op",
    "SessionState",
    "SetData",
    "Stat",
    "Tree",
    "TreeConflict",
    "TreeUnavailable",
]

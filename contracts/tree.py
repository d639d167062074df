"""Values of the metadata tree: nodes, writes and refusals, in ZooKeeper's words.

Pure, so that what decides (the controller's core, the simulation) can speak of writes without doing them.
Paths are absolute (`/brokers/ids/1`), never relative and never with a slash at the end.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Final, NamedTuple, Protocol, TypeAlias

ANY_VERSION: Final = -1


class Stat(NamedTuple):
    """What the tree knows of a node besides its data."""

    version: int
    """Grows by one with each SetData; 0 after Create. What a compare-and-set compares."""
    czxid: int
    """The transaction that created the node: larger for each later creation, also of the same path."""
    ephemeral: bool
    """Whether the node goes with its session."""
    owner: int = 0
    """The session of an ephemeral node, else 0: tells whether a Create of unknown outcome was ours."""


class Node(NamedTuple):
    """A node as it was read."""

    data: bytes
    stat: Stat


class Create(NamedTuple):
    """Create a node. Its parent must exist and not be ephemeral.

    Invariant: a sequential node's name gets ten digits that grow with every creation below its parent.
    """

    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequential: bool = False


class SetData(NamedTuple):
    """Replace a node's data, when its version is the given one or ANY_VERSION."""

    path: str
    data: bytes
    version: int = ANY_VERSION


class Delete(NamedTuple):
    """Delete a node without children, when its version is the given one or ANY_VERSION."""

    path: str
    version: int = ANY_VERSION


class Check(NamedTuple):
    """Refuse the whole commit unless a node exists with this version (or ANY_VERSION)."""

    path: str
    version: int


Op: TypeAlias = Create | SetData | Delete | Check


class CommitResult(NamedTuple):
    """What one operation of a commit did."""

    path: str
    """The node's path; of a sequential Create with its digits."""
    stat: Stat | None
    """After Create and SetData; None after Delete and Check."""


class Conflict(StrEnum):
    """Why a commit was refused."""

    NO_NODE = "no_node"
    """The node (or the parent of a Create) does not exist."""
    NODE_EXISTS = "node_exists"
    BAD_VERSION = "bad_version"
    NOT_EMPTY = "not_empty"
    NO_CHILDREN_FOR_EPHEMERALS = "no_children_for_ephemerals"


class TreeConflict(Exception):  # noqa: N818 - a refusal, not a failure
    """A commit was refused as a whole: nothing of it happened."""

    def __init__(self, index: int, path: str, reason: Conflict) -> None:
        super().__init__(f"operation {index} on {path}: {reason}")
        self.index = index
        """Position of the refused operation."""
        self.path = path
        self.reason = reason


class TreeUnavailable(Exception):  # noqa: N818 - a state of the connection
    """The connection is lost or the session expired. The outcome of a write that raises it is unknown."""


class SessionState(StrEnum):
    """What is known of the session."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    """No connection; the session, its ephemeral nodes and its watches may still live."""
    EXPIRED = "expired"
    """The session is over and its ephemeral nodes are gone; a new one follows with CONNECTED."""


class Tree(Protocol):
    """A tree of small nodes with versions, transactions, ephemeral nodes and watches.

    Writes of one caller are applied in the order of the calls. All callbacks run on the event loop.
    """

    @property
    def session_id(self) -> int:
        """The session's id; 0 before the first."""
        ...

    async def start(self) -> None:
        """Open a session. Raises: TreeUnavailable when there is none in time."""
        ...

    async def close_to_others(self) -> None:
        """Keep whoever lacks our secret out of all nodes, where that can be; the tree is known to be ours.

        Raises: TreeUnavailable.
        """
        ...

    async def aclose(self) -> None:
        """End the session: its ephemeral nodes go at once."""
        ...

    async def get(self, path: str) -> Node | None:
        """A node, or None when there is none. Raises: TreeUnavailable."""
        ...

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        """Many nodes, pipelined: not one snapshot. Raises: TreeUnavailable."""
        ...

    async def children(self, path: str) -> list[str] | None:
        """Names of a node's children, sorted; None when there is no such node. Raises: TreeUnavailable."""
        ...

    async def children_many(self, paths: Sequence[str]) -> list[list[str] | None]:
        """Children of many nodes, pipelined. Raises: TreeUnavailable."""
        ...

    async def commit(self, ops: Sequence[Op]) -> list[CommitResult]:
        """Do all operations or none.

        Raises: TreeConflict when one is refused; TreeUnavailable when the outcome is unknown.
        """
        ...

    async def commit_many(self, batches: Sequence[Sequence[Op]]) -> list[list[CommitResult] | TreeConflict]:
        """Commit batches one after the other without waiting in between; each is atomic on its own.

        A refused batch does not stop the next ones. The caller keeps each below ZooKeeper's jute.maxbuffer
        (1 MiB). Raises: TreeUnavailable when the outcome of any is unknown.
        """
        ...

    def watch_data(self, path: str, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back after each creation, change or deletion of a node; returns what ends the watch.

        Perhaps spuriously, and after every reconnect: read the node in answer.
        """
        ...

    def watch_children(self, path: str, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back after a child came or went; otherwise as `watch_data`."""
        ...

    def on_session(self, callback: Callable[[SessionState], None]) -> None:
        """Call back with every change of the session, in order. The tree starts without a session."""
        ...

"""What the core asks of its shell, one effect after the other.

The core's handlers are generators: each effect is yielded, carried out, and its result sent back in before
the next. So an effect's place is its durability contract: what was yielded after a Commit leaves when the
commit is in the tree, and a handler stopped anywhere has done exactly its effects so far. Events are handled
one at a time; those that come meanwhile wait.
"""

from collections.abc import Generator, Iterable, Sequence
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias, TypeVar

from contracts.cluster import Command, LiveBroker
from contracts.tree import CommitResult, Node, Op, TreeConflict

Result = TypeVar("Result")


class Read(NamedTuple):
    """Result: list[Node | None]."""

    paths: Sequence[str]


class ListChildren(NamedTuple):
    """Result: list[list[str] | None]."""

    paths: Sequence[str]


class Commit(NamedTuple):
    """Each batch is atomic. Result: list[list[CommitResult] | TreeConflict]."""

    batches: Sequence[Sequence[Op]]


class WatchKind(StrEnum):
    """What of a node is watched."""

    DATA = "data"
    CHILDREN = "children"


class Watch(NamedTuple):
    """From now on a change there is the event `Changed(path)`."""

    kind: WatchKind
    path: str


class Unwatch(NamedTuple):
    """No more."""

    path: str


class Connect(NamedTuple):
    """The brokers to keep command channels to; what waits for others is dropped."""

    brokers: tuple[LiveBroker, ...]


class Send(NamedTuple):
    """Deliver to a broker, after what was sent to it before; retried while this life of it is registered."""

    broker_id: int
    request: Command


class Answer(NamedTuple):
    """The result of a call of the API."""

    call_id: int
    result: Any


class Resign(NamedTuple):
    """Another controller has taken over: nothing more is to be done in this one's name."""


class Cause(StrEnum):
    """Why something of the cluster changed, or did not: what log lines and metrics count."""

    TOOK_OVER = "took_over"
    DEPOSED = "deposed"
    BROKER_STARTED = "broker_started"
    BROKER_FAILED = "broker_failed"
    BROKER_BOUNCED = "broker_bounced"
    BROKER_UNCLEAN = "broker_unclean"
    REGISTRATION_DAMAGED = "registration_damaged"
    NODE_DAMAGED = "node_damaged"
    LOG_DIRECTORY_FAILED = "log_directory_failed"
    LEADERS_ELECTED = "leaders_elected"
    NO_ELIGIBLE_LEADER = "no_eligible_leader"
    UNCLEAN_ELECTION = "unclean_election"
    STATE_RACED = "state_raced"
    TOPIC_CREATED = "topic_created"
    INTERNAL_TOPIC_REFUSED = "internal_topic_refused"
    TOPIC_APPEARED = "topic_appeared"
    TOPIC_VANISHED = "topic_vanished"
    TOPIC_GREW = "topic_grew"
    DELETION_RECORDED = "deletion_recorded"
    DELETION_STARTED = "deletion_started"
    LOGS_LEFT_BEHIND = "logs_left_behind"
    TOPIC_DELETED = "topic_deleted"
    CONFIGS_CHANGED = "configs_changed"
    REASSIGNMENT_STARTED = "reassignment_started"
    REASSIGNMENT_CANCELLED = "reassignment_cancelled"
    REASSIGNMENT_REFUSED = "reassignment_refused"
    REASSIGNMENT_FINISHED = "reassignment_finished"
    PREFERRED_ELECTION = "preferred_election"
    LEADERS_UNBALANCED = "leaders_unbalanced"
    CONTROLLED_SHUTDOWN = "controlled_shutdown"
    COMMAND_REFUSED = "command_refused"


class Note(NamedTuple):
    """One line for the log."""

    cause: Cause
    fields: dict[str, Any]


Effect: TypeAlias = Read | ListChildren | Commit | Watch | Unwatch | Connect | Send | Answer | Resign | Note
Steps: TypeAlias = Generator[Effect, Any, Result]
"""A handler, or a part of one, that ends with a result."""


def note(cause: Cause, **fields: Any) -> Note:
    """A line for the log."""
    return Note(cause, fields)


def read(paths: Iterable[str]) -> Steps[list[Node | None]]:
    """Nodes, in the order of their paths."""
    asked = tuple(paths)
    if not asked:
        return []
    nodes: list[Node | None] = yield Read(asked)
    return nodes


def read_one(path: str) -> Steps[Node | None]:
    """One node."""
    nodes = yield from read((path,))
    return nodes[0]


def children(path: str) -> Steps[list[str]]:
    """Names of a node's children; none when there is no such node."""
    lists: list[list[str] | None] = yield ListChildren((path,))
    return lists[0] or []


def commit(batches: Sequence[Sequence[Op]]) -> Steps[list[list[CommitResult] | TreeConflict]]:
    """Each batch's results or refusal."""
    if not batches:
        return []
    results: list[list[CommitResult] | TreeConflict] = yield Commit(batches)
    return results

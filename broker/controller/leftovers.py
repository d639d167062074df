"""Logs that brokers have yet to delete, kept in the tree so that no dead broker holds up a deletion.

A log is deleted only when the controller says so by topic id, never because nobody names it: a controller
that read a damaged tree must not cost data. So what a dead broker should delete is written down before the
topic, or the replica, is forgotten; when the broker comes back it is told first of all.
"""

from collections.abc import Iterable, Mapping
from uuid import UUID

import msgspec

from broker.controller.context import ControllerContext, LeftoverRecord, Log
from broker.controller.effects import Cause, Send, Steps, children, note, read, read_one
from broker.controller.states import Group, commit_groups
from broker.metadata.znode_paths import LEFTOVER_REPLICAS, leftover_replicas_path
from contracts.cluster import (
    EPOCH_DURING_DELETE,
    StopReplicaPartitionState,
    StopReplicaRequest,
)
from contracts.tree import Create, Delete, Node, Op, SetData, TreeConflict


class _TopicLogs(msgspec.Struct, frozen=True):
    topic: str
    topic_id: UUID
    partitions: tuple[int, ...]


class _Leftovers(msgspec.Struct, frozen=True):
    topics: tuple[_TopicLogs, ...]
    version: int = 1


def load_leftovers(context: ControllerContext) -> Steps[None]:
    """Read what was written down. Raises: Deposed."""
    names = [name for name in (yield from children(LEFTOVER_REPLICAS)) if name.isdecimal()]
    nodes = yield from read(leftover_replicas_path(int(name)) for name in names)
    for name, node in zip(names, nodes, strict=True):
        yield from _take(context, int(name), node)


def _take(context: ControllerContext, broker_id: int, node: Node | None) -> Steps[None]:
    context.leftovers.pop(broker_id, None)
    if node is None:
        return
    try:
        topics = msgspec.json.decode(node.data, type=_Leftovers).topics
    except msgspec.MsgspecError as error:
        yield note(Cause.NODE_DAMAGED, path=leftover_replicas_path(broker_id), reason=str(error))
        topics = ()
    logs = {(each.topic, each.topic_id, index) for each in topics for index in each.partitions}
    context.leftovers[broker_id] = LeftoverRecord(node.stat.version, logs)


def leave_behind(context: ControllerContext, added: Mapping[int, set[Log]]) -> Steps[None]:
    """Write down logs that these brokers have to delete one day. Raises: Deposed."""
    for broker_id, logs in added.items():
        if logs:
            yield note(Cause.LOGS_LEFT_BEHIND, broker=broker_id, logs=len(logs))
            yield from _change(context, broker_id, add=logs, remove=set())


def _change(context: ControllerContext, broker_id: int, *, add: set[Log], remove: set[Log]) -> Steps[None]:
    path = leftover_replicas_path(broker_id)
    while True:
        known = context.leftovers.get(broker_id)
        logs = ((known.logs if known else set()) | add) - remove
        if logs == (known.logs if known else set()):
            return
        op: Op = Create(path, _encoded(logs))
        if known is not None:
            op = SetData(path, _encoded(logs), known.version) if logs else Delete(path, known.version)
        outcome = (yield from commit_groups(context, [Group(path, [op])]))[path]
        if isinstance(outcome, TreeConflict):
            yield from _take(context, broker_id, (yield from read_one(path)))
            continue
        stat = outcome[0].stat
        if stat is None:
            del context.leftovers[broker_id]
        else:
            context.leftovers[broker_id] = LeftoverRecord(stat.version, logs)
        return


def _encoded(logs: set[Log]) -> bytes:
    topics: dict[tuple[str, UUID], list[int]] = {}
    for topic, topic_id, index in sorted(logs):
        topics.setdefault((topic, topic_id), []).append(index)
    left = _Leftovers(tuple(_TopicLogs(*key, tuple(indexes)) for key, indexes in topics.items()))
    return msgspec.json.encode(left)


def tell_leftovers(context: ControllerContext, brokers: Iterable[int]) -> Steps[None]:
    """Have live brokers delete what they left behind, before they hear anything else. Raises: Deposed."""
    for broker_id in sorted(brokers):
        record, broker = context.leftovers.get(broker_id), context.brokers.get(broker_id)
        if record is None or broker is None:
            continue
        wanted_again = {log for log in record.logs if _is_assigned(context, broker_id, *log)}
        left = sorted(record.logs - wanted_again)
        yield from _change(context, broker_id, add=set(), remove=wanted_again)
        states = tuple(
            StopReplicaPartitionState(
                topic=topic,
                topic_id=topic_id,
                partition=index,
                leader_epoch=EPOCH_DURING_DELETE,
                delete_partition=True,
            )
            for topic, topic_id, index in left
        )
        request = StopReplicaRequest(
            controller_id=context.broker_id,
            controller_epoch=context.controller_epoch,
            broker_epoch=broker.live.broker_epoch,
            number=context.stop_number,
            partition_states=states,
        )
        if left:
            for log in left:
                context.await_deletion(broker_id, log)
            context.stop_number += 1
            yield Send(broker_id, request)


def _is_assigned(
    context: ControllerContext, broker_id: int, topic_name: str, topic_id: UUID, index: int
) -> bool:
    topic = context.topics.get(topic_name)
    if topic is None or topic.topic_id != topic_id or index not in topic.partitions:
        return False
    return broker_id in topic.partitions[index].assignment.replicas


def on_leftovers_deleted(context: ControllerContext, broker_id: int, deleted: set[Log]) -> Steps[None]:
    """What a broker deleted is nothing to remember. Raises: Deposed."""
    if broker_id in context.leftovers:
        yield from _change(context, broker_id, add=set(), remove=deleted)

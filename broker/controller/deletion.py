"""Deleting topics: hide, delete the logs on every replica, then the nodes.

The mark in /admin/delete_topics is written first and removed last, so a controller that dies in between has a
successor that goes on. Dead brokers are not waited for: what they have yet to delete is written down.
"""

from collections.abc import Iterable

from kio.schema.errors import ErrorCode

from broker.controller.api import OK, DeletedTopicName, DeletionOutcome, Verdict
from broker.controller.context import (
    ControllerContext,
    DeletionCall,
    DeletionRecord,
    Log,
    TopicRecord,
)
from broker.controller.effects import Answer, Cause, ListChildren, Steps, children, note
from broker.controller.events import DeleteTopics
from broker.controller.leftovers import leave_behind
from broker.controller.states import Group, commit_groups
from broker.metadata.znode_paths import DELETE_TOPICS, delete_topic_path, topic_config_path, topic_path
from contracts.cluster import EPOCH_DURING_DELETE
from contracts.tree import Create, Delete

_DISABLED = Verdict(
    ErrorCode.topic_deletion_disabled,
    "Topic deletion is disabled: the wish is recorded and carried out when delete.topic.enable is true.",
)


def on_delete_topics(context: ControllerContext, call: DeleteTopics) -> Steps[None]:
    """Mark topics and begin; answered when they are gone. Raises: Deposed."""
    topics = [_find(context, asked) for asked in call.topics]
    known = {topic.name: topic for topic in topics if topic is not None}
    yield from commit_groups(context, [Group(name, [Create(delete_topic_path(name))]) for name in known])
    verdict = OK if context.config.delete_topic_enable else _DISABLED
    outcomes = [
        DeletionOutcome(_unknown(asked), asked.name, asked.topic_id)
        if topic is None
        else DeletionOutcome(verdict, topic.name, topic.topic_id)
        for asked, topic in zip(call.topics, topics, strict=True)
    ]
    if not context.config.delete_topic_enable:
        if known:
            yield note(Cause.DELETION_RECORDED, topics=sorted(known))
        context.answers.append(Answer(call.call_id, outcomes))
        return
    context.deletion_calls.append(DeletionCall(call.call_id, outcomes, set(known)))
    yield from begin_deletions(context, known)


def _find(context: ControllerContext, asked: DeletedTopicName) -> TopicRecord | None:
    if asked.name is not None:
        return context.topics.get(asked.name)
    return next((each for each in context.topics.values() if each.topic_id == asked.topic_id), None)


def _unknown(asked: DeletedTopicName) -> Verdict:
    if asked.name is None:
        return Verdict(ErrorCode.unknown_topic_id, "This server does not host this topic ID.")
    return Verdict(ErrorCode.unknown_topic_or_partition, "This server does not host this topic-partition.")


def on_deletions_marked(context: ControllerContext) -> Steps[None]:
    """The children of /admin/delete_topics: begin those that exist, forget marks without a topic."""
    if not context.config.delete_topic_enable:
        return
    marked = set((yield from children(DELETE_TOPICS)))
    stale = marked - context.topics.keys() - context.deletions.keys()
    yield from commit_groups(context, [Group(name, [Delete(delete_topic_path(name))]) for name in stale])
    yield from begin_deletions(context, sorted(marked & context.topics.keys()))


def begin_deletions(context: ControllerContext, names: Iterable[str]) -> Steps[None]:
    """Hide topics from clients and tell their replicas to delete their logs. Raises: Deposed."""
    for name in names:
        topic = context.forget(name)
        context.pending.deleted_topics[topic.topic_id] = name
        replicas = {
            (index, broker_id)
            for index, record in topic.partitions.items()
            for broker_id in record.assignment.replicas
        }
        context.deletions[name] = DeletionRecord(topic, replicas)
        _stop_replicas(context, context.deletions[name], context.brokers)
        yield note(Cause.DELETION_STARTED, topic=name, partitions=len(topic.partitions))
    yield from finish_deletions(context)


def _stop_replicas(context: ControllerContext, record: DeletionRecord, brokers: Iterable[int]) -> None:
    asked = set(brokers)
    for index, broker_id in sorted(record.waiting):
        if broker_id in asked:
            context.stop(record.topic, index, broker_id, leader_epoch=EPOCH_DURING_DELETE, delete=True)


def on_replicas_stopped(
    context: ControllerContext, broker_id: int, deleted: set[Log], failed: set[Log]
) -> Steps[None]:
    """A broker has deleted logs, or could not (a failed directory). Raises: Deposed."""
    undeleted = set()
    for log in deleted | failed:
        name, topic_id, index = log
        record = context.deletions.get(name)
        if record is None or record.topic.topic_id != topic_id or (index, broker_id) not in record.waiting:
            continue
        record.waiting.discard((index, broker_id))
        if log in failed:
            undeleted.add(log)
    yield from leave_behind(context, {broker_id: undeleted})
    yield from finish_deletions(context)


def resume_deletions(context: ControllerContext, started: Iterable[int]) -> None:
    """Brokers came back: those that hold logs of topics being deleted are told again."""
    for record in context.deletions.values():
        _stop_replicas(context, record, started)


def finish_deletions(context: ControllerContext) -> Steps[None]:
    """Remove topics that no live broker has to answer for, and answer calls. Raises: Deposed."""
    for name, record in list(context.deletions.items()):
        if any(broker_id in context.brokers for _, broker_id in record.waiting):
            continue
        undeleted: dict[int, set[Log]] = {}
        for index, broker_id in record.waiting:
            undeleted.setdefault(broker_id, set()).add((name, record.topic.topic_id, index))
        yield from leave_behind(context, undeleted)
        yield from _remove_nodes(context, name)
        del context.deletions[name]
        yield note(Cause.TOPIC_DELETED, topic=name)
    for call in list(context.deletion_calls):
        if call.topics.isdisjoint(context.deletions):
            context.deletion_calls.remove(call)
            context.answers.append(Answer(call.call_id, call.outcomes))


def _remove_nodes(context: ControllerContext, name: str) -> Steps[None]:
    """Everything of the topic, the mark last; what is gone already does not matter."""
    for path in (topic_path(name), topic_config_path(name), delete_topic_path(name)):
        found = yield from _below(path)
        while found:
            yield from commit_groups(context, [Group(each, [Delete(each)]) for each in found])
            found = yield from _below(path)


def _below(path: str) -> Steps[list[str]]:
    """A node and all below it, the deepest first."""
    found: list[str] = []
    level = [path]
    while level:
        lists: list[list[str] | None] = yield ListChildren(level)
        there = [(each, names) for each, names in zip(level, lists, strict=True) if names is not None]
        found += [each for each, _ in there]
        level = [f"{each}/{name}" for each, names in there for name in names]
    return found[::-1]

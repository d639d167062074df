"""Topics that come and grow: by a call, or found in the tree as a tool or a dead controller left them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from kio.schema.errors import ErrorCode

from broker.controller.api import OK, CreatedTopic, NewTopic, PartitionName, Verdict
from broker.controller.context import ControllerContext, PartitionRecord, TopicRecord
from broker.controller.effects import Answer, Cause, Steps, children, note, read, read_one
from broker.controller.elections import first_leader
from broker.controller.events import CreatePartitions, CreateTopics
from broker.controller.leadership import settle
from broker.controller.placement import Placement, Refused, Replicas
from broker.controller.states import Group, commit_groups
from broker.metadata.znode_paths import (
    TOPIC_CONFIGS,
    TOPICS,
    partition_path,
    partitions_path,
    state_path,
    topic_config_path,
    topic_path,
)
from broker.metadata.znodes import (
    Assignment,
    PartitionState,
    TopicNode,
    ZnodeDamaged,
    decode_config,
    decode_state,
    decode_topic,
    encode_config,
    encode_state,
    encode_topic,
)
from contracts.tree import Conflict, Create, Op, SetData, TreeConflict

_PARTITIONS_WITH_TOPIC_MAX: Final = 90
"""Created in one transaction with the topic; the others follow. Not so where leaders begin in a later epoch:
whoever elects afterwards knows of none."""


def on_create_topics(context: ControllerContext, call: CreateTopics) -> Steps[Answer]:
    """Create what can be; the answer is for after the brokers have been told. Raises: Deposed."""
    answers: list[CreatedTopic] = []
    wanted: dict[str, tuple[NewTopic, Replicas]] = {}
    placement = Placement(context)
    for asked in call.topics:
        try:
            if asked.name in wanted:
                raise Refused(ErrorCode.topic_already_exists, f"Topic '{asked.name}' already exists.")
            replicas = placement.topic(asked)
        except Refused as refusal:
            answers.append(CreatedTopic(refusal.verdict))
            continue
        answers.append(CreatedTopic(OK, asked.topic_id, len(replicas), len(replicas[0])))
        wanted[asked.name] = (asked, replicas)
    if call.validate_only:
        return Answer(call.call_id, [answer._replace(topic_id=None) for answer in answers])
    verdicts = yield from create_topics(context, list(wanted.values()))
    for place, asked in enumerate(call.topics):
        if answers[place].verdict is OK and verdicts[asked.name] is not OK:
            answers[place] = CreatedTopic(verdicts[asked.name])
    return Answer(call.call_id, answers)


def create_topics(
    context: ControllerContext, topics: Sequence[tuple[NewTopic, Replicas]]
) -> Steps[dict[str, Verdict]]:
    """Write topics with their configs and first leaders, and have their replicas told. Raises: Deposed."""
    verdicts: dict[str, Verdict] = {}
    configs_exist: set[str] = set()
    pending = list(topics)
    while pending:
        states = {asked.name: _first_states(context, asked, replicas) for asked, replicas in pending}
        groups = [
            Group(asked.name, _creation(asked, replicas, states[asked.name], asked.name in configs_exist))
            for asked, replicas in pending
        ]
        outcomes = yield from commit_groups(context, groups)
        again = []
        for asked, replicas in pending:
            outcome = outcomes[asked.name]
            if not isinstance(outcome, TreeConflict):
                _add(context, asked, replicas, states[asked.name])
                yield note(Cause.TOPIC_CREATED, topic=asked.name, partitions=len(replicas))
                verdicts[asked.name] = OK
            elif outcome.path == topic_config_path(asked.name):
                configs_exist.add(asked.name)  # a tool left them
                again.append((asked, replicas))
            else:
                verdicts[asked.name] = _not_created(asked.name, outcome)
        pending = again
    created = [(asked.name, index) for asked, replicas in topics for index in range(len(replicas))]
    yield from settle(context, [name for name in created if _is_leaderless(context, name)])
    return verdicts


def _first_states(
    context: ControllerContext, asked: NewTopic, replicas: Replicas
) -> dict[int, PartitionState]:
    """States written together with the topic."""
    states = {}
    at_once = len(replicas) if asked.leader_epoch else _PARTITIONS_WITH_TOPIC_MAX
    for index, brokers in enumerate(replicas[:at_once]):
        name = (asked.name, index)
        choice = first_leader(
            brokers,
            lambda broker, name=name: context.is_eligible(broker, name),  # type: ignore[misc]
            lambda broker, name=name: context.is_alive(broker, name),  # type: ignore[misc]
        )
        if choice is not None:
            states[index] = PartitionState(
                choice.leader, asked.leader_epoch, choice.isr, context.controller_epoch
            )
    return states


def _creation(
    asked: NewTopic, replicas: Replicas, states: Mapping[int, PartitionState], has_configs: bool
) -> list[Op]:
    node = TopicNode(asked.topic_id, {index: Assignment(each) for index, each in enumerate(replicas)})
    ops: list[Op] = []
    if has_configs:
        ops.append(SetData(topic_config_path(asked.name), encode_config(asked.configs)))
    elif asked.configs:
        ops.append(Create(topic_config_path(asked.name), encode_config(asked.configs)))
    ops += [Create(topic_path(asked.name), encode_topic(node)), Create(partitions_path(asked.name))]
    for index, state in states.items():
        ops += [
            Create(partition_path(asked.name, index)),
            Create(state_path(asked.name, index), encode_state(state)),
        ]
    return ops


def _not_created(name: str, conflict: TreeConflict) -> Verdict:
    if conflict.reason is Conflict.NODE_EXISTS:
        return Verdict(ErrorCode.topic_already_exists, f"Topic '{name}' already exists.")
    return Verdict(ErrorCode.unknown_server_error, f"The metadata tree refuses the topic: {conflict.reason}.")


def _add(
    context: ControllerContext,
    asked: NewTopic,
    replicas: Replicas,
    states: Mapping[int, PartitionState],
) -> None:
    partitions = {
        index: PartitionRecord(Assignment(each), states.get(index), 0 if index in states else -1)
        for index, each in enumerate(replicas)
    }
    context.topics[asked.name] = TopicRecord(asked.name, asked.topic_id, 0, dict(asked.configs), partitions)
    context.pending.metadata_topics[asked.name] = None
    for index, each in enumerate(replicas):
        context.pending.metadata[asked.name, index] = None
        if index in states:
            context.tell((asked.name, index), to=each, new=each)


def _is_leaderless(context: ControllerContext, name: PartitionName) -> bool:
    record = context.partition(name)
    return record is not None and record.state is None


# -- growing ---------------------------------------------------------------------------------------------


def on_create_partitions(context: ControllerContext, call: CreatePartitions) -> Steps[Answer]:
    """Grow topics; the answer is for after the brokers have been told. Raises: Deposed."""
    verdicts: list[Verdict] = []
    placement = Placement(context)
    for asked in call.topics:
        try:
            replicas = placement.added(asked)
        except Refused as refusal:
            verdicts.append(refusal.verdict)
            continue
        if call.validate_only:
            verdicts.append(OK)
        else:
            verdicts.append((yield from _grow(context, context.topics[asked.topic], replicas)))
    return Answer(call.call_id, verdicts)


def _grow(context: ControllerContext, topic: TopicRecord, added: Replicas) -> Steps[Verdict]:
    present = len(topic.partitions)
    assignments = {index: Assignment(each) for index, each in enumerate(added, present)}
    if not (yield from write_assignments(context, topic, assignments)):
        return Verdict(ErrorCode.unknown_topic_or_partition, "The topic was removed from the tree.")
    yield note(Cause.TOPIC_GREW, topic=topic.name, partitions=len(topic.partitions))
    context.pending.metadata.update(dict.fromkeys((topic.name, index) for index in assignments))
    yield from settle(context, [(topic.name, index) for index in assignments])
    return OK


def write_assignments(
    context: ControllerContext, topic: TopicRecord, changed: Mapping[int, Assignment]
) -> Steps[bool]:
    """Write assignments of partitions, old or new, to the topic's node and to the record.

    A node that a tool wrote meanwhile is read and written again. False: it is gone. Raises: Deposed.
    """
    while changed:
        known = {index: record.assignment for index, record in topic.partitions.items()}
        data = encode_topic(TopicNode(topic.topic_id, known | dict(changed)))
        group = Group(topic.name, [SetData(topic_path(topic.name), data, topic.version)])
        outcome = (yield from commit_groups(context, [group]))[topic.name]
        if not isinstance(outcome, TreeConflict):
            stat = outcome[0].stat
            assert stat is not None, "a write answers with the node's new version"
            topic.version = stat.version
            for index, assignment in changed.items():
                topic.partitions.setdefault(index, PartitionRecord(assignment)).assignment = assignment
            break
        node = yield from read_one(topic_path(topic.name))
        if node is None:
            return False
        topic.version = node.stat.version
    return True


# -- finding ---------------------------------------------------------------------------------------------


def load_topics(context: ControllerContext, names: Sequence[str]) -> Steps[None]:
    """Read topics with their configs and partition states into the context. Raises: Deposed."""
    configured = set((yield from children(TOPIC_CONFIGS)))
    nodes = yield from read(topic_path(name) for name in names)
    with_configs = [name for name in names if name in configured]
    config_nodes = yield from read(topic_config_path(name) for name in with_configs)
    layers = dict(zip(with_configs, config_nodes, strict=True))
    for name, node in zip(names, nodes, strict=True):
        if node is None:
            continue
        try:
            found = decode_topic(node.data)
            layer = layers.get(name)
            configs = {} if layer is None else decode_config(layer.data)
        except ZnodeDamaged as error:
            yield note(Cause.NODE_DAMAGED, path=topic_path(name), reason=str(error))
            continue
        partitions = {
            i: PartitionRecord(each) for i, each in sorted(found.partitions.items()) if each.replicas
        }
        topic_id = found.topic_id or context.draw_id()
        topic = TopicRecord(name, topic_id, node.stat.version, configs, partitions)
        if found.topic_id is None:
            yield from write_assignments(context, topic, found.partitions)
        context.topics[name] = topic
    yield from _load_states(context, [name for name in names if name in context.topics])


def _load_states(context: ControllerContext, topics: Iterable[str]) -> Steps[None]:
    records = [
        ((topic, index), record)
        for topic in topics
        for index, record in context.topics[topic].partitions.items()
    ]
    nodes = yield from read(state_path(*name) for name, _ in records)
    for (name, record), node in zip(records, nodes, strict=True):
        if record.assignment.adding_replicas or record.assignment.removing_replicas:
            context.reassigning.add(name)
        if node is None:
            continue
        try:
            record.state, record.version = decode_state(node.data), node.stat.version
        except ZnodeDamaged as error:
            yield note(Cause.NODE_DAMAGED, path=state_path(*name), reason=str(error))
    stateless = {name[0] for name, record in records if record.state is None}
    yield from commit_groups(
        context, [Group(topic, [Create(partitions_path(topic))]) for topic in sorted(stateless)]
    )  # a tool writes only the topic's node; refused where there is one already


def on_topics_changed(context: ControllerContext) -> Steps[None]:
    """The children of /brokers/topics: take in what a tool created, drop what it removed. Raises: Deposed."""
    there = set((yield from children(TOPICS)))
    vanished = context.topics.keys() - there
    for name in sorted(vanished):
        topic = context.forget(name)
        context.pending.deleted_topics[topic.topic_id] = name
        yield note(Cause.TOPIC_VANISHED, topic=name)
    appeared = sorted(there - context.topics.keys() - context.deletions.keys())
    if not appeared:
        return
    yield from load_topics(context, appeared)
    for name in appeared:
        if name in context.topics:
            topic = context.topics[name]
            yield note(Cause.TOPIC_APPEARED, topic=name, partitions=len(topic.partitions))
            context.pending.metadata_topics[name] = None
            context.pending.metadata.update(dict.fromkeys((name, index) for index in topic.partitions))
            yield from settle(context, [(name, index) for index in topic.partitions])

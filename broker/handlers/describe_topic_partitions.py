"""DescribeTopicPartitions (75), v0 (KIP-966).

Behaviour: the topics named, or all (for a tenant's connection its instance's), by name, and their partitions
up to a limit; the cursor says where the next request goes on. A topic counts as one partition at least, so
that an answer is bounded whatever is asked.
Deliberately not done: eligible leader replicas, which are empty: who may be elected is in the ISR.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple, Protocol

from kio.schema.errors import ErrorCode
from kio.static.protocol import Entity

from broker.metadata.metadata_cache import CachedTopic, MetadataCache
from broker.metadata.topic_names import name_fault
from broker.net.later import Later
from broker.requests.call import Call
from contracts.cluster import NO_LEADER, UpdateMetadataPartitionState
from wire.api_table import ApiKey
from wire.build import ResponseShape, response_shape
from wire.codec import duration
from wire.messages import DescribeTopicPartitionsRequest

_PARTITIONS_MAX: Final = 2_000
"""`max.request.partition.size.limit`."""
_OPERATIONS: Final = sum(1 << bit for bit in (3, 4, 5, 6, 7, 8, 10, 11))
"""Read, Write, Create, Delete, Alter, Describe, DescribeConfigs, AlterConfigs (KIP-430)."""
_NOT_ASKED: Final = -(2**31)


class _Deps(Protocol):
    later: Later
    metadata: MetadataCache


class _Position(NamedTuple):
    """Where an answer begins."""

    topic: str
    partition: int


def handle(call: Call, deps: _Deps) -> None:
    """Answer as soon as any topics are known."""
    deps.later.when_known(call, lambda: _answer(deps.metadata, call))


def _answer(metadata: MetadataCache, call: Call) -> None:
    request: DescribeTopicPartitionsRequest = call.request
    shape = response_shape(ApiKey.DESCRIBE_TOPIC_PARTITIONS, call.api_version)
    cursor = request.cursor
    if cursor is not None and cursor.partition_index < 0:
        names = dict.fromkeys(each.name for each in request.topics)
        refused = tuple(_refused(shape, name, ErrorCode.invalid_request) for name in names)
        call.reply(shape.make(throttle_time=duration(0), topics=refused, next_cursor=None))
        return
    start = _Position("", 0) if cursor is None else _Position(cursor.topic_name, cursor.partition_index)
    limit = max(1, min(_PARTITIONS_MAX, request.response_partition_limit))
    topics, following = _described(shape, metadata, _asked(metadata, call), start, limit)
    call.reply(
        shape.make(
            throttle_time=duration(0),
            topics=tuple(topics),
            next_cursor=following
            and shape.nested("Cursor", topic_name=following.topic, partition_index=following.partition),
        )
    )


def _asked(metadata: MetadataCache, call: Call) -> Iterable[str]:
    if call.request.topics:
        return {each.name for each in call.request.topics}
    topics = metadata if call.instance_id is None else metadata.of_instance(call.instance_id)
    return (topic.name for topic in topics)


def _described(
    shape: ResponseShape, metadata: MetadataCache, asked: Iterable[str], start: _Position, limit: int
) -> tuple[list[Entity], _Position | None]:
    """The entries of the topics from a position on, and where the next answer begins."""
    topics: list[Entity] = []
    left = limit
    for name in sorted(name for name in asked if name >= start.topic):
        if left <= 0:
            return topics, _Position(name, 0)
        topic = metadata.topic(name)
        if topic is None:
            fault = name_fault(name) and ErrorCode.invalid_topic_exception
            topics.append(_refused(shape, name, fault or ErrorCode.unknown_topic_or_partition))
            left -= 1
            continue
        indexes = sorted(topic.partitions)[start.partition if name == start.topic else 0 :]
        topics.append(_topic(shape, metadata, topic, indexes[:left]))
        if len(indexes) > left:
            return topics, _Position(name, indexes[left])
        left -= max(1, len(indexes))
    return topics, None


def _topic(
    shape: ResponseShape, metadata: MetadataCache, topic: CachedTopic, indexes: Iterable[int]
) -> Entity:
    return shape.nested(
        "DescribeTopicPartitionsResponseTopic",
        error_code=ErrorCode.none if topic.partitions else ErrorCode.leader_not_available,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=tuple(_partition(shape, metadata, topic.partitions[index]) for index in indexes),
        topic_authorized_operations=_OPERATIONS,
    )


def _partition(shape: ResponseShape, metadata: MetadataCache, state: UpdateMetadataPartitionState) -> Entity:
    live = metadata.brokers
    return shape.nested(
        "DescribeTopicPartitionsResponsePartition",
        error_code=ErrorCode.none,
        partition_index=state.partition,
        leader_id=state.leader if state.leader in live else NO_LEADER,
        leader_epoch=state.leader_epoch,
        replica_nodes=state.replicas,
        isr_nodes=state.isr,
        eligible_leader_replicas=(),
        last_known_elr=(),
        offline_replicas=tuple(
            each for each in state.replicas if each not in live or each in state.offline_replicas
        ),
    )


def _refused(shape: ResponseShape, name: str, error_code: ErrorCode) -> Entity:
    return shape.nested(
        "DescribeTopicPartitionsResponseTopic",
        error_code=error_code,
        name=name,
        topic_id=None,
        is_internal=False,
        partitions=(),
        topic_authorized_operations=_NOT_ASKED,
    )

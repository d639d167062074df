"""OffsetDelete 0 (KIP-496).

Behaviour: committed offsets go, except of topics that members of the group subscribe to. Topics that do not
exist are refused one by one.
"""

from typing import Protocol

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.coordinators.answering import answering
from broker.coordinators.groups import GroupCoordinators
from broker.groups.messages import OffsetsDeletion, OffsetsDeletionResult
from broker.metadata.metadata_cache import MetadataCache
from broker.requests.call import Call
from wire.api_table import ApiKey
from wire.build import response_shape
from wire.codec import duration
from wire.messages import OffsetDeleteRequest


class _Deps(Protocol):
    groups: GroupCoordinators
    metadata: MetadataCache


def handle(call: Call, deps: _Deps) -> None:
    """Delete, and answer when durable."""
    version, request = call.api_version, call.request
    token = answering(call, lambda result: _response(version, request, result))
    shard = deps.groups.of(request.group_id)
    if isinstance(shard, ErrorCode):
        token(OffsetsDeletionResult(shard, {}))
        return
    partitions = tuple(
        (topic.name, one.partition_index)
        for topic in request.topics
        if deps.metadata.topic(topic.name) is not None
        for one in topic.partitions
    )
    deletion = OffsetsDeletion(request.group_id, partitions)
    shard.submit(shard.core.delete_offsets(deletion, token, shard.now()))


def _response(version: int, request: OffsetDeleteRequest, result: OffsetsDeletionResult) -> Payload:
    shape = response_shape(ApiKey.OFFSET_DELETE, version)
    topics = () if result.error is not ErrorCode.none else request.topics
    return shape.make(
        error_code=result.error,
        throttle_time=duration(0),
        topics=tuple(
            shape.nested(
                "OffsetDeleteResponseTopic",
                name=topic.name,
                partitions=tuple(
                    shape.nested(
                        "OffsetDeleteResponsePartition",
                        partition_index=one.partition_index,
                        error_code=result.errors.get(
                            (topic.name, one.partition_index), ErrorCode.unknown_topic_or_partition
                        ),
                    )
                    for one in topic.partitions
                ),
            )
            for topic in topics
        ),
    )

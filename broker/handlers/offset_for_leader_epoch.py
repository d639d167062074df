"""OffsetForLeaderEpoch (23), v2-4.

Behaviour: the largest epoch of the log at or below the one asked, and where it ends (KIP-279). Only the
leader answers, in the epoch that the request names (KIP-320): consumers that look for truncation, and
followers before they fetch.
Versions: v2 current leader epoch (KIP-320); v3 replica id; v4 flexible.
"""

from typing import Protocol

from kio.schema.errors import ErrorCode
from kio.static.protocol import Entity

from broker.log.errors import LogError
from broker.replication.replicas import Replicas
from broker.requests.call import Call
from wire.api_table import ApiKey
from wire.build import ResponseShape, response_shape
from wire.codec import duration
from wire.messages import OffsetForLeaderPartition


class _Deps(Protocol):
    replicas: Replicas


def handle(call: Call, deps: _Deps) -> None:
    shape = response_shape(ApiKey.OFFSET_FOR_LEADER_EPOCH, call.api_version)
    topics = tuple(
        shape.nested(
            "OffsetForLeaderTopicResult",
            topic=topic.topic,
            partitions=tuple(_partition(deps, shape, topic.topic, asked) for asked in topic.partitions),
        )
        for topic in call.request.topics
    )
    call.reply(shape.make(throttle_time=duration(0), topics=topics))


def _partition(deps: _Deps, shape: ResponseShape, topic: str, asked: OffsetForLeaderPartition) -> Entity:
    leader_epoch, end_offset = -1, -1
    error_code = ErrorCode.none
    try:
        partition = deps.replicas.leader(topic, asked.partition, asked.current_leader_epoch)
        leader_epoch, end_offset = partition.log.end_offset_for_epoch(asked.leader_epoch)
    except LogError as error:
        error_code = error.error_code
    return shape.nested(
        "EpochEndOffset",
        error_code=error_code,
        partition=asked.partition,
        leader_epoch=leader_epoch,
        end_offset=end_offset,
    )

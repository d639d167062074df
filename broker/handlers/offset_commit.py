"""OffsetCommit 2-8.

Behaviour: stored in `__consumer_offsets`, answered when durable. Partitions that do not exist are
refused one by one.
Deliberately not done: v0-1 (offsets in ZooKeeper, commit timestamps), v9+ (KIP-848).
Version notes: v2-4 may carry a retention of their own (KIP-211), v6+ the leader epoch, v7+ static members.
"""

from typing import Final, Protocol

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.coordinators.answering import answering
from broker.coordinators.groups import GroupCoordinators
from broker.groups.messages import CommitRequest, CommitResult, OffsetToCommit
from broker.metadata.metadata_cache import MetadataCache
from broker.requests.call import Call
from wire.api_table import ApiKey
from wire.build import response_shape
from wire.codec import duration, milliseconds
from wire.messages import OffsetCommitRequest

_RETENTION_UNTIL: Final = 4


class _Deps(Protocol):
    groups: GroupCoordinators
    metadata: MetadataCache


def handle(call: Call, deps: _Deps) -> None:
    """Commit what exists."""
    version, request = call.api_version, call.request
    errors: dict[tuple[str, int], ErrorCode] = {}
    offsets = []
    shard = deps.groups.of(request.group_id)
    for topic in request.topics:
        for one in topic.partitions:
            if isinstance(shard, ErrorCode):
                errors[topic.name, one.partition_index] = shard
            elif deps.metadata.partition(topic.name, one.partition_index) is None:
                errors[topic.name, one.partition_index] = ErrorCode.unknown_topic_or_partition
            else:
                leader_epoch = getattr(one, "committed_leader_epoch", -1)
                metadata = one.committed_metadata or ""
                offsets.append(
                    OffsetToCommit(
                        topic.name, one.partition_index, one.committed_offset, leader_epoch, metadata
                    )
                )
    token = answering(call, lambda result: _response(version, request, errors | result.errors))
    if isinstance(shard, ErrorCode) or (request.topics and not offsets):
        token(CommitResult({}))
        return
    commit = CommitRequest(
        group_id=request.group_id,
        generation_id=request.generation_id_or_member_epoch,
        member_id=request.member_id,
        group_instance_id=getattr(request, "group_instance_id", None),
        retention_ms=_retention_ms(version, request),
        offsets=tuple(offsets),
    )
    shard.submit(shard.core.commit_offsets(commit, token, shard.now()))


def _retention_ms(version: int, request: OffsetCommitRequest) -> int | None:
    if version > _RETENTION_UNTIL:
        return None
    retention_ms = milliseconds(request.retention_time)
    return None if retention_ms < 0 else retention_ms


def _response(
    version: int, request: OffsetCommitRequest, errors: dict[tuple[str, int], ErrorCode]
) -> Payload:
    shape = response_shape(ApiKey.OFFSET_COMMIT, version)
    return shape.make(
        throttle_time=duration(0),
        topics=tuple(
            shape.nested(
                "OffsetCommitResponseTopic",
                name=topic.name,
                partitions=tuple(
                    shape.nested(
                        "OffsetCommitResponsePartition",
                        partition_index=one.partition_index,
                        error_code=errors[topic.name, one.partition_index],
                    )
                    for one in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )

"""OffsetCommit 2-10.

Behaviour: stored in `__consumer_offsets`, answered when durable. Partitions that do not exist are
refused one by one.
Deliberately not done: v0-1 (offsets in ZooKeeper, commit timestamps).
Version notes: v2-4 may carry a retention of their own (KIP-211), v6+ the leader epoch, v7+ static members;
v9 has a word for epochs of members that only other groups have; v10 names topics by id.
"""

from typing import Final, Protocol

from kio.schema.errors import ErrorCode

from broker.coordinators.groups import GroupCoordinators
from broker.coordinators.offset_commits import answering_commit, sort_offsets
from broker.groups.messages import CommitRequest, CommitResult
from broker.metadata.metadata_cache import MetadataCache
from broker.requests.call import Call
from wire.codec import milliseconds
from wire.messages import OffsetCommitRequest

_RETENTION_UNTIL: Final = 4


class _Deps(Protocol):
    groups: GroupCoordinators
    metadata: MetadataCache


def handle(call: Call, deps: _Deps) -> None:
    request = call.request
    shard = deps.groups.of(request.group_id)
    wanted = sort_offsets(request, deps.metadata, shard if isinstance(shard, ErrorCode) else None)
    token = answering_commit(call, wanted)
    if isinstance(shard, ErrorCode) or (request.topics and not wanted.offsets):
        token(CommitResult({}))
        return
    commit = CommitRequest(
        group_id=request.group_id,
        generation_id=request.generation_id_or_member_epoch,
        member_id=request.member_id,
        group_instance_id=getattr(request, "group_instance_id", None),
        retention_ms=_retention_ms(call.api_version, request),
        offsets=wanted.offsets,
    )
    shard.submit(shard.core.commit_offsets(commit, token, shard.now()))


def _retention_ms(version: int, request: OffsetCommitRequest) -> int | None:
    if version > _RETENTION_UNTIL:
        return None
    retention_ms = milliseconds(request.retention_time)
    return None if retention_ms < 0 else retention_ms

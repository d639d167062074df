"""OffsetFetch 1-7.

Behaviour: committed offsets; -1 without error where there is none. v2+ null topics are all of the group.
With require_stable (v7, KIP-447) partitions whose offset an open transaction has committed anew are
UNSTABLE_OFFSET_COMMIT, and the client asks again.
Deliberately not done: v0 (ZooKeeper), v8+ (several groups).
Version notes: v2+ has an error for the whole request, before it stands in every partition.
"""

from typing import Final, Protocol, TypeAlias

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.coordinators.answering import answering
from broker.coordinators.groups import GroupCoordinators
from broker.groups.coordinator import GroupCoordinator
from broker.groups.records import OffsetAndMetadata
from broker.requests.call import Call
from wire.api_table import ApiKey
from wire.build import ResponseShape, response_shape
from wire.codec import duration
from wire.messages import OffsetFetchRequest

_NONE: Final = OffsetAndMetadata(-1, -1, "", -1)
_Answer: TypeAlias = dict[str, dict[int, tuple[OffsetAndMetadata, ErrorCode]]]


class _Deps(Protocol):
    groups: GroupCoordinators


def handle(call: Call, deps: _Deps) -> None:
    shape = response_shape(ApiKey.OFFSET_FETCH, call.api_version)
    request = call.request
    shard = deps.groups.of(request.group_id)
    if isinstance(shard, ErrorCode):
        error, fetched = shard, _refused(request, shard)
    else:
        error, fetched = ErrorCode.none, _fetched(shard.core, request)
    answering(call, lambda topics: _response(shape, topics, error))(fetched)


def _refused(request: OffsetFetchRequest, error: ErrorCode) -> _Answer:
    return {
        topic.name: dict.fromkeys(topic.partition_indexes, (_NONE, error)) for topic in request.topics or ()
    }


def _fetched(core: GroupCoordinator, request: OffsetFetchRequest) -> _Answer:
    group_id = request.group_id
    stored = core.fetch_all_offsets(group_id)
    if request.topics is None:
        wanted = {name: tuple(partitions) for name, partitions in stored.items()}
    else:
        wanted = {topic.name: tuple(topic.partition_indexes) for topic in request.topics}
    require_stable = getattr(request, "require_stable", False)
    answer: _Answer = {}
    for name, indexes in wanted.items():
        known = stored.get(name, {})
        partitions = answer.setdefault(name, {})
        for index in indexes:
            if require_stable and core.is_unstable(group_id, name, index):
                partitions[index] = (_NONE, ErrorCode.unstable_offset_commit)
            else:
                partitions[index] = (known.get(index, _NONE), ErrorCode.none)
    return answer


def _response(shape: ResponseShape, fetched: _Answer, error: ErrorCode) -> Payload:
    return shape.make(
        throttle_time=duration(0),
        error_code=error,
        topics=tuple(
            shape.nested(
                "OffsetFetchResponseTopic",
                name=name,
                partitions=tuple(
                    shape.nested(
                        "OffsetFetchResponsePartition",
                        partition_index=index,
                        committed_offset=value.offset,
                        committed_leader_epoch=value.leader_epoch,
                        metadata=value.metadata,
                        error_code=one_error,
                    )
                    for index, (value, one_error) in partitions.items()
                ),
            )
            for name, partitions in fetched.items()
        ),
    )

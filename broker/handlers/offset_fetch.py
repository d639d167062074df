"""OffsetFetch 1-10.

Behaviour: committed offsets; -1 without error where there is none. v2+ null topics are all of the group.
With require_stable (v7, KIP-447) partitions whose offset an open transaction has committed anew are
UNSTABLE_OFFSET_COMMIT, and the client asks again. Members may name themselves and their epoch (v9): in
consumer groups (KIP-848) it must be theirs, in classic ones nothing is held against them.
Deliberately not done: v0 (ZooKeeper).
Version notes: v2+ has an error for the whole request, before it stands in every partition; v8 several groups
(KIP-709); v10 topics by id: one that is nobody's is UNKNOWN_TOPIC_ID, and of all topics those that are gone
are left out.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.static.protocol import Entity, Payload

from broker.coordinators.answering import answering
from broker.coordinators.groups import GroupCoordinators
from broker.groups.coordinator import GroupCoordinator
from broker.groups.records import OffsetAndMetadata
from broker.metadata.metadata_cache import MetadataCache
from broker.requests.call import Call
from wire.api_table import ApiKey
from wire.build import ResponseShape, response_shape
from wire.codec import duration
from wire.messages import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

_NONE: Final = OffsetAndMetadata(-1, -1, "", -1)
_SEVERAL_FROM: Final = 8
_IDS_FROM: Final = 10
_ONE_TOPIC: Final = "OffsetFetchResponseTopic"


class _Deps(Protocol):
    groups: GroupCoordinators
    metadata: MetadataCache


class _Topic(NamedTuple):
    """One topic of a request, or of a group's offsets."""

    name: str | None
    """None: the id is nobody's."""
    topic_id: UUID | None
    indexes: tuple[int, ...]


class _Answered(NamedTuple):
    """One group's part of the answer."""

    group_id: str
    error_code: ErrorCode
    topics: list[tuple[_Topic, dict[int, tuple[OffsetAndMetadata, ErrorCode]]]]


def handle(call: Call, deps: _Deps) -> None:
    shape = response_shape(ApiKey.OFFSET_FETCH, call.api_version)
    request: OffsetFetchRequest = call.request
    if call.api_version >= _SEVERAL_FROM:
        groups = [_group(deps, call, each) for each in request.groups]
        answering(call, lambda told: _of_several(shape, told))(groups)
    else:
        answering(call, lambda told: _of_one(shape, told))(_group(deps, call, request))


def _group(deps: _Deps, call: Call, asked: OffsetFetchRequest | OffsetFetchRequestGroup) -> _Answered:
    """`asked` is a group of a request of several, or the request of one, which has the same fields."""
    shard = deps.groups.of(asked.group_id)
    named = None if asked.topics is None else [_topic(deps, each) for each in asked.topics]
    if isinstance(shard, ErrorCode):
        topics = () if call.api_version >= _SEVERAL_FROM else named or ()
        refused = [(topic, dict.fromkeys(topic.indexes, (_NONE, shard))) for topic in topics]
        return _Answered(asked.group_id, shard, refused)
    member_id, member_epoch = getattr(asked, "member_id", None), getattr(asked, "member_epoch", -1)
    fault = shard.core.member_fault(asked.group_id, member_id, member_epoch)
    if fault is not None:
        return _Answered(asked.group_id, fault, [])
    require_stable = getattr(call.request, "require_stable", False)
    stored = shard.core.fetch_all_offsets(asked.group_id)
    wanted = _all(deps, call, stored) if named is None else named
    fetched = [
        (topic, _offsets(shard.core, asked.group_id, topic, stored, require_stable)) for topic in wanted
    ]
    return _Answered(asked.group_id, ErrorCode.none, fetched)


def _topic(deps: _Deps, asked: OffsetFetchRequestTopic | OffsetFetchRequestTopics) -> _Topic:
    indexes = tuple(asked.partition_indexes)
    topic_id = getattr(asked, "topic_id", None)
    if hasattr(asked, "name"):
        return _Topic(asked.name, topic_id, indexes)
    known = None if topic_id is None else deps.metadata.topic_by_id(topic_id)
    return _Topic(None if known is None else known.name, topic_id, indexes)


def _all(deps: _Deps, call: Call, stored: dict[str, dict[int, OffsetAndMetadata]]) -> Iterable[_Topic]:
    """Every topic that the group has offsets of."""
    for name, partitions in stored.items():
        topic = deps.metadata.topic(name)
        if topic is not None or call.api_version < _IDS_FROM:
            yield _Topic(name, None if topic is None else topic.topic_id, tuple(partitions))


def _offsets(
    core: GroupCoordinator,
    group_id: str,
    topic: _Topic,
    stored: dict[str, dict[int, OffsetAndMetadata]],
    require_stable: bool,
) -> dict[int, tuple[OffsetAndMetadata, ErrorCode]]:
    name = topic.name
    if name is None:
        return dict.fromkeys(topic.indexes, (_NONE, ErrorCode.unknown_topic_id))
    known = stored.get(name, {})
    answer = {}
    for index in topic.indexes:
        if require_stable and core.is_unstable(group_id, name, index):
            answer[index] = (_NONE, ErrorCode.unstable_offset_commit)
        else:
            answer[index] = (known.get(index, _NONE), ErrorCode.none)
    return answer


def _of_one(shape: ResponseShape, told: _Answered) -> Payload:
    return shape.make(
        throttle_time=duration(0),
        error_code=told.error_code,
        topics=_topics(shape, told, _ONE_TOPIC, "OffsetFetchResponsePartition"),
    )


def _of_several(shape: ResponseShape, told: list[_Answered]) -> Payload:
    return shape.make(
        throttle_time=duration(0),
        groups=tuple(
            shape.nested(
                "OffsetFetchResponseGroup",
                group_id=each.group_id,
                error_code=each.error_code,
                topics=_topics(shape, each, "OffsetFetchResponseTopics", "OffsetFetchResponsePartitions"),
            )
            for each in told
        ),
    )


def _topics(
    shape: ResponseShape, told: _Answered, topic_kind: str, partition_kind: str
) -> tuple[Entity, ...]:
    def identity(topic: _Topic) -> dict[str, object]:
        by_name: dict[str, object] = {"name": topic.name}
        return by_name if topic_kind == _ONE_TOPIC else by_name | {"topic_id": topic.topic_id}

    return tuple(
        shape.nested(
            topic_kind,
            **identity(topic),
            partitions=tuple(
                shape.nested(
                    partition_kind,
                    partition_index=index,
                    committed_offset=value.offset,
                    committed_leader_epoch=value.leader_epoch,
                    metadata=value.metadata,
                    error_code=error_code,
                )
                for index, (value, error_code) in partitions.items()
            ),
        )
        for topic, partitions in told.topics
    )

"""OffsetFetch 1-7.

Behaviour: committed offsets; -1 without error where there is none. v2+ null topics are all of the group.
Deliberately not done: v0 (ZooKeeper), v8+ (several groups). There are no transactions yet, so every offset is
stable and require_stable (v7) changes nothing.
Version notes: v2+ has an error for the whole request, before it stands in every partition.
"""

from typing import TYPE_CHECKING, Any, Final

from kio.schema.errors import ErrorCode

from broker.coordination import answering
from broker.entities import ResponseShape, response_shape
from broker.groups.records import OffsetAndMetadata
from wire.api_table import ApiKey
from wire.codec import duration

if TYPE_CHECKING:
    from broker.app import Broker
    from broker.call import Call

_NONE: Final = OffsetAndMetadata(-1, -1, "", -1)


def handle(broker: "Broker", call: "Call") -> None:
    """Answer at once."""
    coordination = broker.coordination
    shape = response_shape(ApiKey.OFFSET_FETCH, call.api_version)
    request = call.request
    loading = ErrorCode.coordinator_load_in_progress
    error = loading if coordination.is_loading else ErrorCode.none
    fetched: dict[str, dict[int, OffsetAndMetadata]] = {}
    if request.topics is None:
        fetched = {} if coordination.is_loading else coordination.core.fetch_all_offsets(request.group_id)
    else:
        stored = {} if coordination.is_loading else coordination.core.fetch_all_offsets(request.group_id)
        for topic in request.topics:
            known = stored.get(topic.name, {})
            wanted = fetched.setdefault(topic.name, {})
            wanted.update({index: known.get(index, _NONE) for index in topic.partition_indexes})
    answering(call, lambda topics: _response(shape, topics, error))(fetched)


def _response(
    shape: ResponseShape, fetched: dict[str, dict[int, OffsetAndMetadata]], error: ErrorCode
) -> Any:
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
                        error_code=error,
                    )
                    for index, value in partitions.items()
                ),
            )
            for name, partitions in fetched.items()
        ),
    )

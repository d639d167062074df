"""ListOffsets 0, from before offsets had timestamps: offsets where segments begin, newest first.

Source: Kafka's Log.legacyFetchOffsetsBefore. Where it goes by the time a file was last written, this goes by
the latest record of the segment.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from kio.schema.errors import ErrorCode
from kio.static.protocol import Entity, Payload

from broker.log.errors import LogError
from broker.replication.replicas import Replicas
from wire.api_table import ApiKey
from wire.build import ResponseShape, response_shape

_LATEST: Final = -1
_EARLIEST: Final = -2


class SegmentDeps(Protocol):
    """What an answer by segments uses of the broker."""

    replicas: Replicas
    epoch_ms: Callable[[], int]


def offsets_before(
    segments: Sequence[tuple[int, int]],
    timestamp_ms: int,
    count_max: int,
    *,
    log_start_offset: int,
    high_watermark: int,
    now_ms: int,
) -> list[int]:
    """At most `count_max` offsets up to a time, newest first. `segments`: base offset and latest time each.

    The end counts as an offset of now. Pure.
    """
    if timestamp_ms == _EARLIEST:
        return [log_start_offset][: max(count_max, 0)]
    begun = [(min(max(base, log_start_offset), high_watermark), time_ms) for base, time_ms in segments]
    known = [
        offset
        for offset, time_ms in [*begun, (high_watermark, now_ms)]
        if timestamp_ms == _LATEST or time_ms <= timestamp_ms
    ]
    return sorted(set(known), reverse=True)[: max(count_max, 0)]


def segment_offsets(request: Any, deps: SegmentDeps) -> Payload:
    """The response to a ListOffsets 0."""
    shape = response_shape(ApiKey.LIST_OFFSETS, 0)
    return shape.make(
        topics=tuple(
            shape.nested(
                "ListOffsetsTopicResponse",
                name=topic.name,
                partitions=tuple(_partition(deps, shape, topic.name, asked) for asked in topic.partitions),
            )
            for topic in request.topics
        )
    )


def _partition(deps: SegmentDeps, shape: ResponseShape, topic: str, asked: Any) -> Entity:
    error_code, found = ErrorCode.none, []
    try:
        log = deps.replicas.leader(topic, asked.partition_index).log
        found = offsets_before(
            log.reading.segment_starts(),
            asked.timestamp,
            asked.max_num_offsets,
            log_start_offset=log.log_start_offset,
            high_watermark=log.high_watermark,
            now_ms=deps.epoch_ms(),
        )
    except LogError as error:
        error_code = error.error_code
    return shape.nested(
        "ListOffsetsPartitionResponse",
        partition_index=asked.partition_index,
        error_code=error_code,
        old_style_offsets=tuple(found),
    )

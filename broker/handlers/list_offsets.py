"""ListOffsets (2), v0-6.

Behaviour: timestamp -2 earliest, -1 latest (the high watermark, or the last stable offset with
read_committed), else the first committed record at or after the timestamp (KAFKA-5522). While a new leader's
high watermark has not come to where it began, the latest offset would seem to go back: OFFSET_NOT_AVAILABLE
(KIP-207; LEADER_NOT_AVAILABLE to those who do not know it).
Deliberately not done: -3 max timestamp (v7, KIP-734).
Versions: v0 offsets of segments (`broker.legacy_offsets`); v2 isolation level; v4 leader epoch and its
fencing (KIP-320); v5 OFFSET_NOT_AVAILABLE; v6 flexible.
"""

from typing import TYPE_CHECKING, Any, Final

from kio.schema.errors import ErrorCode

from broker import legacy_offsets
from broker.entities import ResponseShape, response_shape
from broker.log.errors import LogError
from broker.replication.partition import Partition
from wire.api_table import ApiKey
from wire.codec import duration

if TYPE_CHECKING:
    from broker.app import Broker
    from broker.call import Call

_LATEST: Final = -1
_EARLIEST: Final = -2
_READ_COMMITTED: Final = 1
_OFFSET_NOT_AVAILABLE_FROM: Final = 5


def handle(broker: "Broker", call: "Call") -> None:
    """Look up each partition."""
    if call.api_version == 0:
        call.reply(legacy_offsets.answer(broker, call.request))
        return
    shape = response_shape(ApiKey.LIST_OFFSETS, call.api_version)
    read_committed = getattr(call.request, "isolation_level", 0) == _READ_COMMITTED
    topics = tuple(
        shape.nested(
            "ListOffsetsTopicResponse",
            name=topic.name,
            partitions=tuple(
                _partition(broker, call, shape, topic.name, asked, read_committed)
                for asked in topic.partitions
            ),
        )
        for topic in call.request.topics
    )
    call.reply(shape.make(throttle_time=duration(0), topics=topics))


def _partition(
    broker: "Broker", call: "Call", shape: ResponseShape, topic: str, asked: Any, read_committed: bool
) -> Any:
    timestamp_ms = offset = leader_epoch = -1
    error_code = ErrorCode.none
    try:
        partition = broker.replicas.leader(
            topic, asked.partition_index, getattr(asked, "current_leader_epoch", -1)
        )
        timestamp_ms, offset, leader_epoch = _look_up(partition, asked.timestamp, read_committed)
    except LogError as error:
        error_code = error.error_code
        if error_code is ErrorCode.offset_not_available and call.api_version < _OFFSET_NOT_AVAILABLE_FROM:
            error_code = ErrorCode.leader_not_available
    return shape.nested(
        "ListOffsetsPartitionResponse",
        partition_index=asked.partition_index,
        error_code=error_code,
        timestamp=timestamp_ms,
        offset=offset,
        leader_epoch=leader_epoch,
    )


def _look_up(partition: Partition, timestamp_ms: int, read_committed: bool) -> tuple[int, int, int]:
    """(timestamp, offset, its leader epoch), all -1 when there is no such record. Raises: LogError."""
    log = partition.log
    latest = log.last_stable_offset if read_committed else log.high_watermark
    if timestamp_ms == _EARLIEST:
        return -1, log.log_start_offset, log.epoch_of(log.log_start_offset)
    if timestamp_ms >= 0:
        found = log.offset_for_timestamp(timestamp_ms, up_to=latest)
        if found is not None:
            return found.timestamp_ms, found.offset, log.epoch_of(found.offset)
    if timestamp_ms >= _LATEST and not partition.has_reached_epoch:
        raise LogError(ErrorCode.offset_not_available, "a new leader has not committed yet")
    if timestamp_ms == _LATEST:
        return -1, latest, partition.leader_epoch
    return -1, -1, -1

"""ListOffsets (2), v1-6.

Behaviour: timestamp -2 earliest, -1 latest (the high watermark, or the last stable offset with
read_committed), else the first record at or after the timestamp.
Deliberately not done: -3 max timestamp (v7, KIP-734).
Versions: v2 isolation level; v4 leader epoch and its fencing (KIP-320); v6 flexible.
"""

from typing import TYPE_CHECKING, Any, Final

from kio.schema.errors import ErrorCode

from broker.entities import ResponseShape, response_shape
from broker.leadership import LEADER_EPOCH, epoch_fault
from broker.log.errors import LogError
from broker.log.partition_log import PartitionLog
from wire.api_table import ApiKey
from wire.codec import duration

if TYPE_CHECKING:
    from broker.app import Broker
    from broker.call import Call

_LATEST: Final = -1
_EARLIEST: Final = -2
_READ_COMMITTED: Final = 1


def handle(broker: "Broker", call: "Call") -> None:
    """Look up each partition."""
    shape = response_shape(ApiKey.LIST_OFFSETS, call.api_version)
    read_committed = getattr(call.request, "isolation_level", 0) == _READ_COMMITTED
    topics = tuple(
        shape.nested(
            "ListOffsetsTopicResponse",
            name=topic.name,
            partitions=tuple(
                _partition(broker, shape, topic.name, asked, read_committed) for asked in topic.partitions
            ),
        )
        for topic in call.request.topics
    )
    call.reply(shape.make(throttle_time=duration(0), topics=topics))


def _partition(broker: "Broker", shape: ResponseShape, topic: str, asked: Any, read_committed: bool) -> Any:
    log = broker.topics.partition(topic, asked.partition_index)
    timestamp_ms = offset = leader_epoch = -1
    if log is None:
        error_code = ErrorCode.unknown_topic_or_partition
    else:
        error_code = epoch_fault(getattr(asked, "current_leader_epoch", -1))
    if log is not None and error_code is ErrorCode.none:
        try:
            timestamp_ms, offset = _look_up(log, asked.timestamp, read_committed)
            leader_epoch = LEADER_EPOCH if offset >= 0 else -1
        except LogError as error:
            error_code = error.error_code
    return shape.nested(
        "ListOffsetsPartitionResponse",
        partition_index=asked.partition_index,
        error_code=error_code,
        timestamp=timestamp_ms,
        offset=offset,
        leader_epoch=leader_epoch,
    )


def _look_up(log: PartitionLog, timestamp_ms: int, read_committed: bool) -> tuple[int, int]:
    """(timestamp, offset), both -1 when there is no such record. Raises: LogError."""
    latest = log.last_stable_offset if read_committed else log.high_watermark
    if timestamp_ms == _LATEST:
        return -1, latest
    if timestamp_ms == _EARLIEST:
        return -1, log.log_start_offset
    if timestamp_ms < 0:
        return -1, -1
    found = log.offset_for_timestamp(timestamp_ms)
    if found is None or found[1] >= latest:
        return -1, -1
    return found[0], found[1]

"""DeleteRecords (21), v0-2.

Behaviour: moves the leader's log start offset up to the offset asked (-1: the high watermark) and frees whole
segments before it in the request; a log whose start reaches its end gives its active segment back too. An
offset below the log start offset changes nothing and is no error. A topic that is only compacted refuses.
Followers learn the new start with their next fetch.
Deliberately not done: waiting for followers.
Versions: v2 flexible.
"""

from typing import Final, Protocol

from kio.schema.errors import ErrorCode
from kio.static.protocol import Entity

from broker.control.traffic_leaders import TrafficLeaders
from broker.log.errors import LogError
from broker.records.fetching import Fetches
from broker.replication.replicas import Replicas
from broker.requests.call import Call
from contracts.names import owner_of
from wire.api_table import ApiKey
from wire.build import ResponseShape, response_shape
from wire.codec import duration
from wire.messages import DeleteRecordsPartition

_HIGH_WATERMARK: Final = -1


class _Deps(Protocol):
    fetches: Fetches
    leaders: TrafficLeaders
    replicas: Replicas


def handle(call: Call, deps: _Deps) -> None:
    shape = response_shape(ApiKey.DELETE_RECORDS, call.api_version)
    topics = tuple(
        shape.nested(
            "DeleteRecordsTopicResult",
            name=topic.name,
            partitions=tuple(_partition(deps, shape, topic.name, asked) for asked in topic.partitions),
        )
        for topic in call.request.topics
    )
    deps.leaders.measure(owner_of(topic.name) for topic in call.request.topics)
    call.reply(shape.make(throttle_time=duration(0), topics=topics))


def _partition(deps: _Deps, shape: ResponseShape, name: str, asked: DeleteRecordsPartition) -> Entity:
    low_watermark, error_code = _delete(deps, name, asked.partition_index, asked.offset)
    return shape.nested(
        "DeleteRecordsPartitionResult",
        partition_index=asked.partition_index,
        low_watermark=low_watermark,
        error_code=error_code,
    )


def _delete(deps: _Deps, name: str, index: int, offset: int) -> tuple[int, ErrorCode]:
    try:
        log = deps.replicas.leader(name, index).log
        if not log.config.deletes:
            return -1, ErrorCode.policy_violation
        if offset == _HIGH_WATERMARK:
            offset = log.high_watermark
        if not 0 <= offset <= log.high_watermark:
            return -1, ErrorCode.offset_out_of_range
        low_watermark = log.retention.delete_records_before(offset)
    except LogError as error:
        return -1, error.error_code
    deps.fetches.log_start_moved(name, index)
    return low_watermark, ErrorCode.none

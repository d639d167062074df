"""AddOffsetsToTxn (25), v0-4.

Behaviour: adds the partition of the offsets topic that owns the group to the transaction; answered when the
coordinator's record is committed.
Versions: v2 PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH; v3 flexible.
"""

from typing import Final, Protocol

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.coordinators.answering import answering
from broker.coordinators.groups import GroupCoordinators
from broker.coordinators.transactions import TransactionCoordinators
from broker.requests.call import Call
from broker.transactions.messages import Producer
from broker.transactions.state import TopicPartition
from wire.api_table import ApiKey
from wire.build import response_shape
from wire.codec import duration

_FENCED_FROM: Final = 2


class _Deps(Protocol):
    groups: GroupCoordinators
    transactions: TransactionCoordinators


def handle(call: Call, deps: _Deps) -> None:
    version, request = call.api_version, call.request
    token = answering(call, lambda error: _response(version, error))
    index = deps.groups.partition_of(request.group_id)
    shard = deps.transactions.of(request.transactional_id)
    if request.transactional_id == "":
        token(ErrorCode.invalid_request)
    elif isinstance(shard, ErrorCode):
        token(shard)
    elif index is None:
        token(ErrorCode.coordinator_not_available)
    else:
        producer = Producer(request.producer_id, request.producer_epoch)
        partitions = frozenset({TopicPartition(deps.groups.topic, index)})
        shard.submit(
            shard.core.add_partitions(request.transactional_id, producer, partitions, token, shard.now())
        )


def _response(version: int, error: ErrorCode) -> Payload:
    if error is ErrorCode.producer_fenced and version < _FENCED_FROM:
        error = ErrorCode.invalid_producer_epoch
    shape = response_shape(ApiKey.ADD_OFFSETS_TO_TXN, version)
    return shape.make(throttle_time=duration(0), error_code=error)

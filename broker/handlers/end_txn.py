"""EndTxn (26), v0-5.

Behaviour: answered when the decision is committed; from then on the transaction ends that way, and until all
markers are written a new one gets CONCURRENT_TRANSACTIONS.
Versions: v2 PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH; v3 flexible; v5 the answer says with which
epoch, or new producer id, the producer goes on (transactions of version 2), and one without partitions is
aborted, too.
"""

from typing import Final, Protocol

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.coordinators.answering import answering
from broker.coordinators.transactions import TransactionCoordinators
from broker.requests.call import Call
from broker.transactions.messages import EndRequest, EndResult, Producer
from wire.api_table import ApiKey
from wire.build import response_shape
from wire.codec import duration

_FENCED_FROM: Final = 2
_BUMPS_FROM: Final = 5


class _Deps(Protocol):
    transactions: TransactionCoordinators


def handle(call: Call, deps: _Deps) -> None:
    version, request = call.api_version, call.request
    if version >= _BUMPS_FROM:
        _end_with_bump(call, deps)
        return
    token = answering(call, lambda error: _response(version, error))
    shard = deps.transactions.of(request.transactional_id)
    if request.transactional_id == "":
        token(ErrorCode.invalid_request)
    elif isinstance(shard, ErrorCode):
        token(shard)
    else:
        producer = Producer(request.producer_id, request.producer_epoch)
        shard.submit(
            shard.core.end(request.transactional_id, producer, request.committed, token, shard.now())
        )


def _end_with_bump(call: Call, deps: _Deps) -> None:
    request = call.request
    token = answering(call, lambda result: _told(call.api_version, result))
    shard = deps.transactions.of(request.transactional_id)
    if request.transactional_id == "":
        token(EndResult(ErrorCode.invalid_request))
    elif isinstance(shard, ErrorCode):
        token(EndResult(shard))
    else:
        producer = Producer(request.producer_id, request.producer_epoch)
        wanted = EndRequest(request.transactional_id, producer, request.committed)
        shard.submit(shard.core.end_with_bump(wanted, token, shard.now()))


def _told(version: int, result: EndResult) -> Payload:
    return response_shape(ApiKey.END_TXN, version).make(
        throttle_time=duration(0),
        error_code=result.error,
        producer_id=result.producer.producer_id,
        producer_epoch=result.producer.producer_epoch,
    )


def _response(version: int, error: ErrorCode) -> Payload:
    if error is ErrorCode.producer_fenced and version < _FENCED_FROM:
        error = ErrorCode.invalid_producer_epoch
    return response_shape(ApiKey.END_TXN, version).make(throttle_time=duration(0), error_code=error)

"""EndTxn (26), v0-4.

Behaviour: answered when the decision is committed; from then on the transaction ends that way, and until all
markers are written a new one gets CONCURRENT_TRANSACTIONS.
Deliberately not done: v5 (transactions of version 2, which bump the epoch with each transaction).
Versions: v2 PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH; v3 flexible.
"""

from typing import Final, Protocol

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.coordinators.answering import answering
from broker.coordinators.transactions import TransactionCoordinators
from broker.requests.call import Call
from broker.transactions.messages import Producer
from wire.api_table import ApiKey
from wire.build import response_shape
from wire.codec import duration

_FENCED_FROM: Final = 2


class _Deps(Protocol):
    transactions: TransactionCoordinators


def handle(call: Call, deps: _Deps) -> None:
    version, request = call.api_version, call.request
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


def _response(version: int, error: ErrorCode) -> Payload:
    if error is ErrorCode.producer_fenced and version < _FENCED_FROM:
        error = ErrorCode.invalid_producer_epoch
    return response_shape(ApiKey.END_TXN, version).make(throttle_time=duration(0), error_code=error)

"""InitProducerId (22), v0-5.

Behaviour: without a transactional id a new producer id with epoch 0, never given before. With one the
coordinator gives its producer id with a new epoch, which fences whoever had the former; an open transaction
is aborted first (CONCURRENT_TRANSACTIONS until it is). A producer that brings id and epoch (v3, KIP-360) goes
on only if nobody has come since. An empty transactional id is INVALID_REQUEST. An instance that draws ids
faster than `producer_id_rates` allow asks again (COORDINATOR_LOAD_IN_PROGRESS).
Versions: v2 flexible; v3 producer id and epoch; v4 PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH.
"""

from collections.abc import Callable
from typing import Final, Protocol

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.coordinators.answering import answering
from broker.coordinators.producer_ids import ProducerIds
from broker.coordinators.transactions import TransactionCoordinators
from broker.requests.call import Call
from broker.transactions.messages import InitRequest, InitResult, Producer
from broker.transactions.state import NO_PRODUCER_ID
from wire.api_table import ApiKey
from wire.build import response_shape
from wire.codec import duration, milliseconds
from wire.messages import InitProducerIdRequest

_FENCED_FROM: Final = 4


class _Deps(Protocol):
    now_ms: Callable[[], int]
    producer_ids: ProducerIds
    transactions: TransactionCoordinators


def handle(call: Call, deps: _Deps) -> None:
    """Draw an id, or ask the coordinator."""
    version, request = call.api_version, call.request
    token = answering(call, lambda result: _response(version, result))
    if request.transactional_id is None:
        if not deps.producer_ids.rates.allow(call.instance_id, deps.now_ms()):
            token(_without_transactions(None))
            return
        deps.producer_ids.draw(lambda producer_id: token(_without_transactions(producer_id)))
        return
    shard = deps.transactions.of(request.transactional_id)
    if request.transactional_id == "":
        token(InitResult(ErrorCode.invalid_request))
    elif isinstance(shard, ErrorCode):
        token(InitResult(shard))
    else:
        init = InitRequest(
            request.transactional_id, milliseconds(request.transaction_timeout), _expected(request)
        )
        shard.submit(shard.core.init(init, token, shard.now()))


def _without_transactions(producer_id: int | None) -> InitResult:
    if producer_id is None:
        return InitResult(ErrorCode.coordinator_load_in_progress)
    return InitResult(ErrorCode.none, Producer(producer_id, 0))


def _expected(request: InitProducerIdRequest) -> Producer | None:
    producer_id = getattr(request, "producer_id", NO_PRODUCER_ID)
    return None if producer_id == NO_PRODUCER_ID else Producer(producer_id, request.producer_epoch)


def _response(version: int, result: InitResult) -> Payload:
    error = result.error
    if error is ErrorCode.producer_fenced and version < _FENCED_FROM:
        error = ErrorCode.invalid_producer_epoch
    return response_shape(ApiKey.INIT_PRODUCER_ID, version).make(
        throttle_time=duration(0),
        error_code=error,
        producer_id=result.producer.producer_id,
        producer_epoch=result.producer.producer_epoch,
    )

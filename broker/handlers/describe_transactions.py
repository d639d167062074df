"""DescribeTransactions (65), v0.

Behaviour: state, producer, timeout, start and partitions (of a transaction that ends: those without marker)
of each transactional id that is coordinated here; TRANSACTIONAL_ID_NOT_FOUND for one nothing is known of.
"""

from typing import Protocol

from kio.schema.errors import ErrorCode
from kio.static.protocol import Entity

from broker.coordinators.transactions import TransactionCoordinators
from broker.requests.call import Call
from broker.transactions.messages import NO_PRODUCER, DescribedTransaction
from broker.transactions.state import NO_TIMESTAMP, State
from wire.api_table import ApiKey
from wire.build import ResponseShape, response_shape
from wire.codec import duration


class _Deps(Protocol):
    transactions: TransactionCoordinators


def handle(call: Call, deps: _Deps) -> None:
    shape = response_shape(ApiKey.DESCRIBE_TRANSACTIONS, call.api_version)
    states = tuple(_described(deps, shape, each) for each in dict.fromkeys(call.request.transactional_ids))
    call.reply(shape.make(throttle_time=duration(0), transaction_states=states))


def _described(deps: _Deps, shape: ResponseShape, transactional_id: str) -> Entity:
    shard = deps.transactions.of(transactional_id)
    if transactional_id == "":
        return _state(shape, ErrorCode.invalid_request, transactional_id, None)
    if isinstance(shard, ErrorCode):
        return _state(shape, shard, transactional_id, None)
    found = shard.core.known.describe(transactional_id)
    error = ErrorCode.transactional_id_not_found if found is None else ErrorCode.none
    return _state(shape, error, transactional_id, found)


def _state(
    shape: ResponseShape, error: ErrorCode, transactional_id: str, found: DescribedTransaction | None
) -> Entity:
    if found is None:
        found = DescribedTransaction(transactional_id, State.EMPTY, NO_PRODUCER, 0, NO_TIMESTAMP, frozenset())
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(found.partitions):
        topics.setdefault(topic, []).append(index)
    return shape.nested(
        "TransactionState",
        error_code=error,
        transactional_id=transactional_id,
        transaction_state=found.state.label if error is ErrorCode.none else "",
        transaction_timeout=duration(found.timeout_ms),
        transaction_start_time=found.start_ms,
        producer_id=found.producer.producer_id,
        producer_epoch=found.producer.producer_epoch,
        topics=tuple(
            shape.nested("TopicData", topic=name, partitions=tuple(indexes))
            for name, indexes in topics.items()
        ),
    )

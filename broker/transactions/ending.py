"""EndTxn of version 2 transactions: each ends with a bump, so that nothing late of it gets into the next.

The epoch that the producer goes on with is the epoch that the markers carry. When epochs are used up it goes
on with a new producer id, which it learns at once and the log has when the markers are written.
Source: Kafka TransactionCoordinator.endTransaction, TransactionMetadata.prepareAbortOrCommit (4.3), KIP-890,
KAFKA-20785.
"""

from enum import Enum, auto

from kio.schema.errors import ErrorCode

from broker.transactions.messages import EndRequest, EndResult, Producer
from broker.transactions.state import (
    AT_REST,
    ENDING,
    EPOCH_MAX,
    LAST_USABLE_EPOCH,
    NO_PRODUCER_ID,
    State,
    Transaction,
)
from wire.control import BUMPS_EPOCH_FROM


class Step(Enum):
    """What must happen before there is a decision."""

    NEW_PRODUCER_ID = auto()


def decide_with_bump(
    value: Transaction, request: EndRequest, now_ms: int, fresh_id: int | None
) -> Transaction | EndResult | Step:
    """What the id becomes, or what the client gets, or what must happen first.

    An attempt whose answer was lost comes again with the epoch in front of the current one.
    """
    producer = request.producer
    prepare = State.PREPARE_COMMIT if request.is_commit else State.PREPARE_ABORT
    complete = State.COMPLETE_COMMIT if request.is_commit else State.COMPLETE_ABORT
    if value.next_producer_id == producer.producer_id != NO_PRODUCER_ID:
        return EndResult(ErrorCode.concurrent_transactions)
    is_retry = _is_retry(value, producer)
    if not is_retry:
        if value.producer_id != producer.producer_id:
            return EndResult(ErrorCode.invalid_producer_id_mapping)
        if value.producer_epoch != producer.producer_epoch or producer.producer_epoch >= EPOCH_MAX:
            return EndResult(ErrorCode.producer_fenced)
    if value.state in ENDING:
        goes_on = not is_retry or value.state is prepare
        return EndResult(ErrorCode.concurrent_transactions if goes_on else _other_outcome(request))
    if is_retry:
        if value.state not in AT_REST or value.producer_epoch >= EPOCH_MAX:
            return EndResult(ErrorCode.producer_fenced)
        if value.state is not complete:
            return EndResult(_other_outcome(request))
        return EndResult(ErrorCode.none, Producer(value.producer_id, value.producer_epoch))
    if value.state is not State.ONGOING and request.is_commit:
        return EndResult(ErrorCode.invalid_txn_state)
    if value.is_epoch_exhausted and fresh_id is None:
        return Step.NEW_PRODUCER_ID
    return value._replace(
        state=prepare,
        producer_epoch=value.producer_epoch + 1,
        last_producer_id=NO_PRODUCER_ID,
        last_producer_epoch=value.producer_epoch,
        next_producer_id=NO_PRODUCER_ID if fresh_id is None else fresh_id,
        start_ms=value.start_ms if value.state is State.ONGOING else now_ms,
        last_update_ms=now_ms,
        version=BUMPS_EPOCH_FROM,
    )


def _other_outcome(request: EndRequest) -> ErrorCode:
    """Who asks again asks for the same. A commit that finds an abort came too late: the coordinator aborted
    by itself. INVALID_TXN_STATE would end a Kafka Streams; one that is fenced begins anew."""
    return ErrorCode.producer_fenced if request.is_commit else ErrorCode.invalid_txn_state


def _is_retry(value: Transaction, producer: Producer) -> bool:
    if value.version < BUMPS_EPOCH_FROM or producer.producer_epoch < 0:
        return False
    if producer.producer_id == value.producer_id:
        return producer.producer_epoch == value.producer_epoch - 1
    was_exhausted = producer == (value.last_producer_id, LAST_USABLE_EPOCH)
    return was_exhausted and value.producer_epoch == 0


def told_with(value: Transaction) -> EndResult:
    """The answer to who decided: the producer that it goes on as."""
    if value.next_producer_id != NO_PRODUCER_ID:
        return EndResult(ErrorCode.none, Producer(value.next_producer_id, 0))
    return EndResult(ErrorCode.none, Producer(value.producer_id, value.producer_epoch))


def ended(value: Transaction, now_ms: int) -> Transaction:
    """What a decided transaction becomes when every marker is written."""
    assert value.state in ENDING
    after = value._replace(
        state=State.COMPLETE_COMMIT if value.state is State.PREPARE_COMMIT else State.COMPLETE_ABORT,
        partitions=frozenset(),
        last_update_ms=now_ms,
    )
    if value.next_producer_id == NO_PRODUCER_ID:
        return after
    return after._replace(
        producer_id=value.next_producer_id,
        producer_epoch=0,
        last_producer_id=value.producer_id,
        next_producer_id=NO_PRODUCER_ID,
    )

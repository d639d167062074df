"""InitProducerId with a transactional id: who may go on, with which epoch.

Source: Kafka TransactionCoordinator.prepareInitProducerIdTransit, KIP-98, KIP-360.
"""

from enum import Enum, auto

from kio.schema.errors import ErrorCode

from broker.transactions.messages import InitRequest, Producer
from broker.transactions.state import (
    ENDING,
    EPOCH_MAX,
    LAST_USABLE_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    State,
    Transaction,
)


class Step(Enum):
    """What must happen before there is a new epoch."""

    ABORT = auto()
    """The transaction of the former producer is fenced and aborted; the client asks again."""
    NEW_PRODUCER_ID = auto()
    """A producer id is needed."""


def begin_anew(
    value: Transaction | None, request: InitRequest, now_ms: int, fresh_id: int | None
) -> Transaction | ErrorCode | Step:
    """What the id becomes, or what the client gets, or what must happen first."""
    if value is None:
        if fresh_id is None:
            return Step.NEW_PRODUCER_ID
        return _anew(Producer(fresh_id, 0), request, now_ms)
    expected = request.expected
    if expected is not None and not _is_ours(value, expected):
        return ErrorCode.producer_fenced
    if value.state in ENDING:
        return ErrorCode.concurrent_transactions
    if value.state is State.ONGOING:
        return Step.ABORT
    if value.is_epoch_exhausted and expected in (None, value[:2]):
        if fresh_id is None:
            return Step.NEW_PRODUCER_ID
        last = NO_PRODUCER_EPOCH if expected is None else value.producer_epoch
        return _anew(Producer(fresh_id, 0), request, now_ms, Producer(value.producer_id, last))
    return _bumped(value, request, now_ms)


def _is_ours(value: Transaction, expected: Producer) -> bool:
    """Whether the producer id is the current one, the one after it, or the one before it was exhausted."""
    if expected.producer_id in (value.producer_id, value.next_producer_id):
        return True
    return expected.producer_id == value.last_producer_id and expected.producer_epoch >= LAST_USABLE_EPOCH


def _bumped(value: Transaction, request: InitRequest, now_ms: int) -> Transaction | ErrorCode:
    expected = request.expected
    producer = Producer(value.producer_id, value.producer_epoch)
    if expected is None:
        last = Producer(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
        return _anew(producer._replace(producer_epoch=value.producer_epoch + 1), request, now_ms, last)
    if expected == producer:
        last = producer
        return _anew(producer._replace(producer_epoch=value.producer_epoch + 1), request, now_ms, last)
    former_id = value.producer_id if value.last_producer_id == NO_PRODUCER_ID else value.last_producer_id
    if expected == (former_id, value.last_producer_epoch) and expected.producer_epoch >= 0:
        # The answer to the first attempt was lost: give it again.
        last = Producer(value.last_producer_id, value.last_producer_epoch)
        return _anew(producer, request, now_ms, last)
    return ErrorCode.producer_fenced


def _anew(
    producer: Producer,
    request: InitRequest,
    now_ms: int,
    last: Producer = Producer(NO_PRODUCER_ID, NO_PRODUCER_EPOCH),
) -> Transaction:
    assert 0 <= producer.producer_epoch < EPOCH_MAX, "the last epoch is for fencing"
    return Transaction(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        timeout_ms=request.timeout_ms,
        state=State.EMPTY,
        partitions=frozenset(),
        last_update_ms=now_ms,
        start_ms=NO_TIMESTAMP,
        last_producer_id=last.producer_id,
        last_producer_epoch=last.producer_epoch,
    )

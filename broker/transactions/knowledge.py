"""What is known of transactional ids, for those who only ask."""

from collections.abc import Iterable
from typing import Final

from kio.schema.errors import ErrorCode

from broker.transactions.messages import DescribedTransaction, ListedTransaction, Producer
from broker.transactions.registry import Entry, Registry
from broker.transactions.state import (
    AT_REST,
    ENDING,
    EPOCH_MAX,
    NO_TIMESTAMP,
    State,
    TopicPartition,
    Transaction,
)

NO_PARTITIONS: Final[frozenset[TopicPartition]] = frozenset()


class Knowledge:
    """The ids of one partition; nothing here changes them."""

    def __init__(self, registry: Registry) -> None:
        self._registry: Final = registry

    def current(
        self, transactional_id: str, producer: Producer, *, must_rest: bool
    ) -> tuple[Entry, Transaction] | ErrorCode:
        """The id as its current producer sees it, or what anyone else gets."""
        if transactional_id == "":
            return ErrorCode.invalid_request
        entry = self._registry.get(transactional_id)
        value = None if entry is None else entry.value
        if entry is None or value is None:
            return ErrorCode.invalid_producer_id_mapping
        if value.producer_id != producer.producer_id:
            comes = value.state in ENDING and value.next_producer_id == producer.producer_id
            return ErrorCode.concurrent_transactions if comes else ErrorCode.invalid_producer_id_mapping
        if value.producer_epoch != producer.producer_epoch or producer.producer_epoch >= EPOCH_MAX:
            return ErrorCode.producer_fenced  # the last epoch fences, and is nobody's
        if must_rest and entry.is_busy:
            return ErrorCode.concurrent_transactions
        return entry, value

    def verify(
        self, transactional_id: str, producer: Producer, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Whether the producer's open transaction has the partitions: a batch that comes late must not open
        one that nobody will end (KIP-890)."""
        found = self.current(transactional_id, producer, must_rest=False)
        if isinstance(found, ErrorCode):
            return dict.fromkeys(partitions, found)
        _, value = found
        if value.state in ENDING:
            return dict.fromkeys(partitions, ErrorCode.concurrent_transactions)
        known = value.partitions if value.state is State.ONGOING else NO_PARTITIONS
        return {each: ErrorCode.none if each in known else ErrorCode.invalid_txn_state for each in partitions}

    def describe(self, transactional_id: str) -> DescribedTransaction | None:
        """DescribeTransactions; None for an id nothing is known of."""
        entry = self._registry.get(transactional_id)
        value = None if entry is None else entry.value
        if entry is None or value is None:
            return None
        return DescribedTransaction(
            transactional_id,
            value.state,
            Producer(value.producer_id, value.producer_epoch),
            value.timeout_ms,
            _open_since_ms(value),
            frozenset(entry.awaited) if value.state in ENDING else value.partitions,
        )

    def list_transactions(self) -> list[ListedTransaction]:
        """Every id that is known."""
        return [
            ListedTransaction(transactional_id, value.producer_id, value.state, _open_since_ms(value))
            for transactional_id, entry in self._registry
            if (value := entry.value) is not None
        ]


def _open_since_ms(value: Transaction) -> int:
    return NO_TIMESTAMP if value.state in AT_REST else value.start_ms

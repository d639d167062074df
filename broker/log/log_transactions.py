"""What handlers ask of a log about transactions and producers."""

from typing import NamedTuple

from broker.log.log_truncation import TruncatedLog
from broker.log.results import LogSlice
from broker.log.txn_index import AbortedTransaction


class ActiveProducer(NamedTuple):
    """One producer of a log (DescribeProducers)."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    """-1 when it is not known."""
    last_active_ms: int
    """By our clock."""
    coordinator_epoch: int
    """-1 before the first marker."""
    txn_start_offset: int
    """Of the open transaction, -1 without one."""


class TransactionalLog(TruncatedLog):
    """A log that tells what is open, what was aborted, and who may begin a transaction."""

    def needs_verification(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether the coordinator must confirm the transaction before a batch of it is appended (KIP-890)."""
        return not self._producers.is_ongoing(producer_id, producer_epoch)

    def begin_verification(
        self, producer_id: int, producer_epoch: int, base_sequence: int, now_ms: int
    ) -> int | None:
        """The guard to show to `append` once the coordinator has confirmed; None when none is needed.

        A marker that is appended meanwhile makes it void.
        """
        if not self.needs_verification(producer_id, producer_epoch):
            return None
        return self._producers.verifications.begin(producer_id, producer_epoch, base_sequence, now_ms)

    def aborted_transactions(self, fetch_offset: int, upper_offset: int) -> list[AbortedTransaction]:
        """Those with records in `fetch_offset`..`upper_offset`, exclusive. Raises: StorageFailed."""
        try:
            return self._segments.aborted(fetch_offset, upper_offset)
        except OSError as error:
            raise self._storage_failed(error) from error

    def aborted_in(self, found: LogSlice, up_to: int) -> list[AbortedTransaction]:
        """Those with records in a slice that was read up to `up_to` (the last stable offset).

        Perhaps a few more: the index says only about where the slice ends. Raises: StorageFailed.
        """
        try:
            segment = self._segments[self._segments.number_of(found.base_offset)]
            behind = segment.index.first_offset_from(found.position + found.size_bytes)
            upper_offset = up_to if behind is None else min(up_to, behind)
            return self._segments.aborted(found.base_offset, upper_offset)
        except OSError as error:
            raise self._storage_failed(error) from error

    def describe_producers(self) -> list[ActiveProducer]:
        """Every producer that the log remembers (DescribeProducers, find-hanging)."""
        transactions = self._producers.transactions
        producers = []
        for producer_id, entry in self._producers.entries.items():
            first_offset = transactions.first_offset(producer_id)
            producers.append(
                ActiveProducer(
                    producer_id,
                    entry.epoch,
                    entry.last_sequence,
                    entry.active_ms,
                    entry.coordinator_epoch,
                    -1 if first_offset is None else first_offset,
                )
            )
        return producers

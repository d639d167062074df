"""Transactions as compaction passes through them: what was aborted goes, markers go when nothing needs them.

A marker stays while any batch of its transaction is in the log, even an empty one.
Pure. Source: Kafka CleanedTransactionMetadata.
"""

from collections.abc import Iterable

from broker.log.txn_index import AbortedTransaction
from wire.batch import BatchHeader
from wire.control import EndMarker


class CleanedTransactions:
    """Give it the batches in their order. `still_aborted` are those whose markers stay."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._coming = sorted(aborted, key=lambda entry: entry.first_offset, reverse=True)
        self._aborted: dict[int, AbortedTransaction] = {}
        self._with_batches: set[int] = set()
        """Producers whose transaction, however it ends, has batches in the log."""
        self.still_aborted: list[AbortedTransaction] = []

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether this data batch belongs to an aborted transaction."""
        if not header.is_transactional:
            return False
        self._advance(header.last_offset)
        self._with_batches.add(header.producer_id)
        entry = self._aborted.get(header.producer_id)
        return entry is not None and header.base_offset < entry.last_offset

    def may_drop_marker(self, header: BatchHeader, marker: EndMarker | None) -> bool:
        """Whether nothing of the transaction that this control batch ends is left."""
        self._advance(header.last_offset)
        if header.record_count == 0:
            return True
        if marker is None:
            return False
        had_batches = header.producer_id in self._with_batches
        self._with_batches.discard(header.producer_id)
        aborted = self._aborted.pop(header.producer_id, None)
        if aborted is not None and had_batches:
            self.still_aborted.append(aborted)
        return not had_batches

    def take_still_aborted(self) -> list[AbortedTransaction]:
        """Transactions found since it was last asked: the index of the segment just written."""
        found, self.still_aborted = self.still_aborted, []
        return found

    def _advance(self, offset: int) -> None:
        while self._coming and self._coming[-1].first_offset <= offset:
            entry = self._coming.pop()
            self._aborted[entry.producer_id] = entry

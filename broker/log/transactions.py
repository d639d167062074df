"""Transactions of one log: which are open, which ended but are not yet committed to the replicas. Pure.

Consumers with isolation level read_committed read up to the last stable offset: below the first record of
every open transaction, and of every ended one whose marker is not below the high watermark.
Source: Kafka ProducerStateManager (ongoingTxns, unreplicatedTxns), KIP-98.
"""

from typing import NamedTuple


class EndedTransaction(NamedTuple):
    """A transaction with records in this log that a marker ended."""

    producer_id: int
    first_offset: int
    last_offset: int
    """Offset of the marker."""
    is_aborted: bool


class Transactions:
    """Invariant: `_open` is in the order of first offsets, `ended` in the order of markers.

    `ended` are those whose markers are not known to be below the high watermark.
    """

    __slots__ = ("_open", "ended", "first_unstable_offset")

    def __init__(self) -> None:
        self._open: dict[int, int] = {}
        self.ended: list[EndedTransaction] = []
        self.first_unstable_offset: int | None = None
        """The last stable offset where it is below the high watermark."""

    def __len__(self) -> int:
        return len(self._open)

    def first_offset(self, producer_id: int) -> int | None:
        """Where the producer's open transaction began."""
        return self._open.get(producer_id)

    def begin(self, producer_id: int, first_offset: int) -> None:
        """A transactional batch at `first_offset`; the first one opens the transaction."""
        if producer_id not in self._open:
            self._open[producer_id] = first_offset
            if self.first_unstable_offset is None:
                self.first_unstable_offset = first_offset

    def restore(self, open_transactions: dict[int, int]) -> None:
        """From a snapshot: producer id to first offset."""
        self._open = dict(sorted(open_transactions.items(), key=lambda item: item[1]))
        self._renew()

    def end(self, producer_id: int, marker_offset: int, *, is_aborted: bool) -> EndedTransaction | None:
        """A marker; None where no record of the transaction is in this log."""
        first_offset = self._open.pop(producer_id, None)
        if first_offset is None:
            return None
        ended = EndedTransaction(producer_id, first_offset, marker_offset, is_aborted)
        self.ended.append(ended)
        self._renew()
        return ended

    def last_stable_offset_at(self, ended: EndedTransaction) -> int:
        """What was stable once `ended` had ended, whatever the high watermark: for the aborted index."""
        return next(iter(self._open.values()), ended.last_offset + 1)

    def committed_to(self, high_watermark: int) -> None:
        """Markers below the high watermark no longer hold the last stable offset back."""
        if self.ended and self.ended[0].last_offset < high_watermark:
            self.ended = [ended for ended in self.ended if ended.last_offset >= high_watermark]
            self._renew()

    def _renew(self) -> None:
        first = next(iter(self._open.values()), None)
        for ended in self.ended:
            if first is None or ended.first_offset < first:
                first = ended.first_offset
        self.first_unstable_offset = first

"""What a log remembers of idempotent producers. Pure.

Per producer id: its epoch and its last five batches, so that a repeated batch is answered with the offset
it got the first time (KIP-98), a gap is refused, and a producer id that is not known may start anywhere
(KIP-360).
Source: Kafka ProducerStateManager, ProducerAppendInfo.
"""

from typing import Final, NamedTuple, NoReturn

from kio.schema.errors import ErrorCode

from broker.log.errors import AppendRefused
from wire.batch import NO_PRODUCER_EPOCH, NO_SEQUENCE, SEQUENCE_MAX, BatchHeader

BATCHES_KEPT: Final = 5
PRODUCERS_MAX: Final = 10_000
"""Beyond it the producer silent for longest is forgotten: hostile clients must not grow the process."""


class CachedBatch(NamedTuple):
    """One of the last batches of a producer."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp_ms: int


class ProducerEntry:
    """One producer id. `batches` is empty after an epoch bump, oldest first otherwise."""

    __slots__ = ("active_ms", "batches", "coordinator_epoch", "epoch")

    def __init__(self, epoch: int, active_ms: int, coordinator_epoch: int = -1) -> None:
        self.epoch = epoch
        self.batches: list[CachedBatch] = []
        self.active_ms = active_ms
        """When it last wrote, by our clock: clients choose record timestamps freely (KAFKA-9144)."""
        self.coordinator_epoch = coordinator_epoch

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


class ProducerStates:
    """All producers of one log, the most recently active last."""

    __slots__ = ("entries", "producers_max")

    def __init__(self, producers_max: int = PRODUCERS_MAX) -> None:
        self.entries: dict[int, ProducerEntry] = {}
        self.producers_max = producers_max

    def check(self, header: BatchHeader) -> CachedBatch | None:
        """The batch of which this one is a repetition, None when it is the producer's next.

        Raises: AppendRefused INVALID_PRODUCER_EPOCH (fenced) or OUT_OF_ORDER_SEQUENCE_NUMBER.
        """
        entry = self.entries.get(header.producer_id)
        if entry is None:
            return None
        if header.producer_epoch == entry.epoch:
            duplicate = _find(entry.batches, header.base_sequence, header.last_sequence)
            if duplicate is not None:
                return duplicate
            if not entry.batches or _follows(entry.last_sequence, header.base_sequence):
                return None
            self._refuse_sequence(header, f"current end sequence number {entry.last_sequence}")
        if header.producer_epoch < entry.epoch:
            raise AppendRefused(
                ErrorCode.invalid_producer_epoch,
                f"epoch of producer {header.producer_id} is {header.producer_epoch}, "
                f"which is smaller than the last seen epoch {entry.epoch}",
            )
        if header.base_sequence != 0 and entry.epoch != NO_PRODUCER_EPOCH:
            self._refuse_sequence(header, f"new epoch {header.producer_epoch} must start with 0")
        return None

    @staticmethod
    def _refuse_sequence(header: BatchHeader, reason: str) -> NoReturn:
        raise AppendRefused(
            ErrorCode.out_of_order_sequence_number,
            f"out of order sequence number {header.base_sequence} "
            f"for producer {header.producer_id}: {reason}",
        )

    def record(self, header: BatchHeader, base_offset: int, active_ms: int) -> None:
        """Note a batch that is in the log, checked before or (in recovery) long ago."""
        entry = self.entries.pop(header.producer_id, None)
        if entry is None or entry.epoch < header.producer_epoch:
            entry = ProducerEntry(header.producer_epoch, active_ms)
        self.entries[header.producer_id] = entry
        entry.active_ms = max(entry.active_ms, active_ms)
        if not header.is_control and header.producer_epoch == entry.epoch:
            last_offset = base_offset + header.last_offset_delta
            batch = CachedBatch(
                header.base_sequence, header.last_sequence, base_offset, last_offset, header.max_timestamp_ms
            )
            entry.batches.append(batch)
            if len(entry.batches) > BATCHES_KEPT:
                del entry.batches[0]
        if len(self.entries) > self.producers_max:
            del self.entries[next(iter(self.entries))]

    def adopt(self, newer: "ProducerStates") -> None:
        """Take over what was replayed from the end of the log: it knows more than a snapshot's last batch."""
        for producer_id, entry in newer.entries.items():
            known = self.entries.pop(producer_id, None)
            if known is not None:
                entry.active_ms = max(entry.active_ms, known.active_ms)
            self.entries[producer_id] = entry

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers silent for so long; how many."""
        expired = [pid for pid, entry in self.entries.items() if now_ms - entry.active_ms >= expiration_ms]
        for producer_id in expired:
            del self.entries[producer_id]
        return len(expired)


def _find(batches: list[CachedBatch], first_sequence: int, last_sequence: int) -> CachedBatch | None:
    for batch in reversed(batches):
        if batch.first_sequence == first_sequence and batch.last_sequence == last_sequence:
            return batch
    return None


def _follows(last_sequence: int, next_sequence: int) -> bool:
    return next_sequence == last_sequence + 1 or (next_sequence == 0 and last_sequence == SEQUENCE_MAX)

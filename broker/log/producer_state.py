"""What a log remembers of idempotent and transactional producers. Pure.

Per producer id: its epoch and its last five batches, so that a repeated batch is answered with the offset
it got the first time (KIP-98), a gap is refused, and a producer id that is not known may start anywhere
(KIP-360); whether it has a transaction open, and which coordinator ended its last one. A transactional batch
is taken only into an open transaction, or once the coordinator has confirmed that there is one (KIP-890).
Source: Kafka ProducerStateManager, ProducerAppendInfo.
"""

from typing import Final, NamedTuple, NoReturn, Protocol

from kio.schema.errors import ErrorCode

from broker.log.errors import AppendRefused
from broker.log.transactions import EndedTransaction, Transactions
from broker.log.verification import Verifications
from wire.batch import NO_PRODUCER_EPOCH, NO_SEQUENCE, SEQUENCE_MAX, BatchHeader
from wire.control import BUMPS_EPOCH_FROM, EndMarker

BATCHES_KEPT: Final = 5
PRODUCERS_MAX: Final = 10_000
"""Producers of one log. Beyond it the one silent for longest is forgotten: clients must not grow the
process. What all logs of an instance have together is bounded by its share."""


class CachedBatch(NamedTuple):
    """One of the last batches of a producer."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp_ms: int


class ProducerEntry:
    """One producer id. `batches` is empty when a marker brought the epoch, oldest first otherwise."""

    __slots__ = ("active_ms", "batches", "coordinator_epoch", "epoch")

    def __init__(self, epoch: int, active_ms: int, coordinator_epoch: int = -1) -> None:
        self.epoch = epoch
        self.batches: list[CachedBatch] = []
        self.active_ms = active_ms
        """When it last wrote, by our clock: clients choose record timestamps freely (KAFKA-9144)."""
        self.coordinator_epoch = coordinator_epoch
        """Coordinator epoch of the last marker, -1 before the first."""

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


class Share(Protocol):
    """What all logs of an instance may remember together (`instance_shares`)."""

    def joined(self, states: "ProducerStates") -> None: ...

    def left(self, states: "ProducerStates") -> None: ...

    def grew(self, count: int) -> None:
        """May forget others, never the newest."""

    def shrank(self, count: int) -> None: ...

    def transaction_ended(self) -> None: ...

    def admits(self) -> bool:
        """Whether one more producer may come."""


class ProducerStates:
    """All producers of one log, the most recently active last."""

    __slots__ = ("_share", "entries", "producers_max", "transactions", "verifications")

    def __init__(self, producers_max: int = PRODUCERS_MAX) -> None:
        self.entries: dict[int, ProducerEntry] = {}
        self.producers_max = producers_max
        self.transactions = Transactions()
        self.verifications = Verifications()
        self._share: Share | None = None

    def join(self, share: Share) -> None:
        """Count in an instance's share from now on."""
        assert self._share is None
        self._share = share
        share.joined(self)

    def leave(self) -> None:
        """Count there no longer."""
        share, self._share = self._share, None
        if share is not None:
            share.left(self)

    def become(self, other: "ProducerStates") -> None:
        """Know what `other` knows instead; a share counts that."""
        assert other._share is None
        share = self._share
        self.leave()
        self.entries, self.transactions, self.verifications = (
            other.entries,
            other.transactions,
            other.verifications,
        )
        if share is not None:
            self.join(share)

    def is_ongoing(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether the producer has a transaction open here in this epoch."""
        entry = self.entries.get(producer_id)
        return (
            entry is not None
            and entry.epoch == producer_epoch
            and self.transactions.first_offset(producer_id) is not None
        )

    def check(self, header: BatchHeader, verification: int | None = None) -> CachedBatch | None:
        """The batch of which this one of a client is a repetition, None when it is the producer's next.

        Raises: AppendRefused INVALID_PRODUCER_EPOCH (fenced), OUT_OF_ORDER_SEQUENCE_NUMBER,
        INVALID_TXN_STATE, or POLICY_VIOLATION where the instance has no room for one more producer.
        """
        entry = self.entries.get(header.producer_id)
        if entry is not None and header.producer_epoch == entry.epoch:
            duplicate = _find(entry.batches, header.base_sequence, header.last_sequence)
            if duplicate is not None:
                return duplicate
            is_plain = not header.is_transactional and not self.transactions
            if is_plain and _follows(entry.last_sequence, header.base_sequence):
                return None  # what nearly every batch is
        self.check_own(header, verification)
        if entry is None:
            if self._share is not None and not self._share.admits():
                raise AppendRefused(
                    ErrorCode.policy_violation,
                    "the instance has too many producers with open transactions at this broker",
                )
            if header.is_transactional and not self.verifications.in_order(header):
                self._refuse_sequence(header, "an earlier batch of the transaction is on its way")
        elif header.producer_epoch == entry.epoch:
            if not _follows(entry.last_sequence, header.base_sequence):
                self._refuse_sequence(header, f"current end sequence number {entry.last_sequence}")
        elif header.base_sequence != 0 and entry.epoch != NO_PRODUCER_EPOCH:
            self._refuse_sequence(header, f"new epoch {header.producer_epoch} must start with 0")
        return None

    def check_own(self, header: BatchHeader, verification: int | None) -> None:
        """What a client's and a coordinator's data have in common: epoch and transaction.

        Raises: AppendRefused INVALID_PRODUCER_EPOCH or INVALID_TXN_STATE.
        """
        self._check_epoch(header)
        if not header.is_transactional:
            if self.transactions.first_offset(header.producer_id) is not None:
                raise AppendRefused(
                    ErrorCode.invalid_txn_state,
                    f"producer {header.producer_id} has a transaction open and may write nothing beside it",
                )
        elif not self.is_ongoing(header.producer_id, header.producer_epoch) and not self.verifications.allow(
            header.producer_id, verification
        ):
            raise AppendRefused(
                ErrorCode.invalid_txn_state,
                f"producer {header.producer_id} has no ongoing transaction with this partition",
            )

    def check_marker(self, header: BatchHeader, marker: EndMarker) -> None:
        """Of a transaction that has an epoch of its own, a marker in the epoch of what is open here is a late
        copy: it ended the transaction before. With nothing open it is the same attempt again, and harmless.
        Any other transaction has the epoch of its marker, so what is being asked about it is void.

        Raises: AppendRefused INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED.
        """
        self._check_epoch(header)
        bumps = marker.transaction_version >= BUMPS_EPOCH_FROM
        if bumps and self.is_ongoing(header.producer_id, header.producer_epoch):
            raise AppendRefused(
                ErrorCode.invalid_producer_epoch,
                f"a marker of epoch {header.producer_epoch} does not end what producer {header.producer_id} "
                "has open in the same epoch",
            )
        entry = self.entries.get(header.producer_id)
        if entry is not None and marker.coordinator_epoch < entry.coordinator_epoch:
            raise AppendRefused(
                ErrorCode.transaction_coordinator_fenced,
                f"a marker of coordinator epoch {marker.coordinator_epoch}, the last one for producer "
                f"{header.producer_id} had {entry.coordinator_epoch}",
            )
        if not bumps:
            self.verifications.forget(header.producer_id)

    def _check_epoch(self, header: BatchHeader) -> None:
        entry = self.entries.get(header.producer_id)
        if entry is not None and header.producer_epoch < entry.epoch:
            raise AppendRefused(
                ErrorCode.invalid_producer_epoch,
                f"epoch of producer {header.producer_id} is {header.producer_epoch}, "
                f"which is smaller than the last seen epoch {entry.epoch}",
            )

    @staticmethod
    def _refuse_sequence(header: BatchHeader, reason: str) -> NoReturn:
        raise AppendRefused(
            ErrorCode.out_of_order_sequence_number,
            f"out of order sequence number {header.base_sequence} "
            f"for producer {header.producer_id}: {reason}",
        )

    def record(self, header: BatchHeader, base_offset: int, active_ms: int) -> None:
        """Note a data batch that is in the log, checked before or (in recovery) long ago."""
        entry = self.entries.pop(header.producer_id, None)
        is_new = entry is None
        if entry is None or entry.epoch != header.producer_epoch:
            entry = self._renewed(entry, header, active_ms)
        self.entries[header.producer_id] = entry
        entry.active_ms = max(entry.active_ms, active_ms)
        if header.producer_epoch == entry.epoch:
            last_offset = base_offset + header.last_offset_delta
            batch = CachedBatch(
                header.base_sequence, header.last_sequence, base_offset, last_offset, header.max_timestamp_ms
            )
            entry.batches.append(batch)
            if len(entry.batches) > BATCHES_KEPT:
                del entry.batches[0]
        if header.is_transactional and header.record_count > 0:  # compaction keeps empty ones
            self.transactions.begin(header.producer_id, base_offset)
            self.verifications.forget(header.producer_id)
        if is_new:
            self._one_more()

    def _one_more(self) -> None:
        if len(self.entries) > self.producers_max:
            self._forget_silent()
        if self._share is not None:
            self._share.grew(1)

    def record_marker(
        self, header: BatchHeader, base_offset: int, active_ms: int, marker: EndMarker
    ) -> EndedTransaction | None:
        """Note a marker that is in the log; the transaction that it ended if it has records here."""
        known = self.entries.pop(header.producer_id, None)
        entry = self._renewed(known, header, active_ms)
        self.entries[header.producer_id] = entry
        entry.active_ms = max(entry.active_ms, active_ms)
        entry.coordinator_epoch = max(entry.coordinator_epoch, marker.coordinator_epoch)
        self.verifications.forget_before(header.producer_id, header.producer_epoch)
        ended = self.transactions.end(header.producer_id, base_offset, is_aborted=not marker.is_commit)
        if known is None:
            self._one_more()
        if self._share is not None:
            self._share.transaction_ended()
        return ended

    @staticmethod
    def _renewed(entry: ProducerEntry | None, header: BatchHeader, active_ms: int) -> ProducerEntry:
        """The entry, of this epoch if that is newer."""
        if entry is None:
            return ProducerEntry(header.producer_epoch, active_ms)
        if entry.epoch < header.producer_epoch:
            entry.epoch = header.producer_epoch
            entry.batches.clear()
        return entry

    def _forget_silent(self) -> None:
        for producer_id in self.entries:
            if self.transactions.first_offset(producer_id) is None:
                del self.entries[producer_id]
                if self._share is not None:
                    self._share.shrank(1)
                return

    def remember_batches(self, earlier: "ProducerStates") -> None:
        """Take over batches from in front of a snapshot, which holds only the last one of each producer."""
        for producer_id, entry in self.entries.items():
            before = earlier.entries.get(producer_id)
            if before is not None and before.epoch == entry.epoch:
                first = entry.batches[0].base_offset if entry.batches else 0
                older = [batch for batch in before.batches if batch.base_offset < first]
                entry.batches = [*older, *entry.batches][-BATCHES_KEPT:]

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers silent for so long; how many. One with an open transaction stays."""
        self.verifications.expire(now_ms, expiration_ms)
        expired = [
            producer_id
            for producer_id, entry in self.entries.items()
            if now_ms - entry.active_ms >= expiration_ms
            and self.transactions.first_offset(producer_id) is None
        ]
        for producer_id in expired:
            del self.entries[producer_id]
        if expired and self._share is not None:
            self._share.shrank(len(expired))
        return len(expired)


def _find(batches: list[CachedBatch], first_sequence: int, last_sequence: int) -> CachedBatch | None:
    for batch in reversed(batches):
        if batch.first_sequence == first_sequence and batch.last_sequence == last_sequence:
            return batch
    return None


def _follows(last_sequence: int, next_sequence: int) -> bool:
    return next_sequence == last_sequence + 1 or (next_sequence == 0 and last_sequence == SEQUENCE_MAX)

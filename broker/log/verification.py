"""Which producers are being asked about at the transaction coordinator (KIP-890). Pure.

Before the first batch of a transaction is appended, the coordinator confirms that the partition is in it. A
marker that arrives meanwhile takes the verification away, so that a late batch never opens a transaction that
nobody will end. Where each transaction has an epoch of its own, the marker of the one before has the epoch of
the next one, may come after its first batch, and takes nothing from it.
Source: Kafka VerificationStateEntry, VerificationGuard.
"""

from itertools import count
from typing import Final

from wire.batch import BatchHeader

PENDING_MAX: Final = 10_000
"""Beyond it the oldest one is forgotten, and its batch refused."""


class _Pending:
    __slots__ = ("begun_ms", "guard", "lowest_sequence", "producer_epoch")

    def __init__(self, guard: int, producer_epoch: int, lowest_sequence: int, begun_ms: int) -> None:
        self.guard = guard
        self.producer_epoch = producer_epoch
        self.lowest_sequence = lowest_sequence
        self.begun_ms = begun_ms


class Verifications:
    """Verifications of one log. A guard stands for one verification and is never given twice."""

    __slots__ = ("_guards", "_pending")

    def __init__(self) -> None:
        self._pending: dict[int, _Pending] = {}
        self._guards = count(1)

    def begin(
        self,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        now_ms: int,
        *,
        starts_at_zero: bool = False,
    ) -> int:
        """The guard that the append must show. `starts_at_zero`: no batch but that of sequence 0 comes
        first."""
        pending = self._pending.get(producer_id)
        if starts_at_zero:
            base_sequence = 0
        if pending is None or pending.producer_epoch < producer_epoch:
            pending = _Pending(next(self._guards), producer_epoch, base_sequence, now_ms)
            self._pending[producer_id] = pending
            if len(self._pending) > PENDING_MAX:
                self.forget(next(iter(self._pending)))
        elif pending.producer_epoch == producer_epoch:
            pending.lowest_sequence = min(pending.lowest_sequence, base_sequence)
        return pending.guard

    def allow(self, producer_id: int, guard: int | None) -> bool:
        """Whether nothing has ended the verification since."""
        pending = self._pending.get(producer_id)
        return pending is not None and pending.guard == guard

    def in_order(self, header: BatchHeader) -> bool:
        """Whether no batch with a lower sequence is being verified: it would be out of order then."""
        pending = self._pending.get(header.producer_id)
        return pending is None or header.base_sequence <= pending.lowest_sequence

    def forget(self, producer_id: int) -> None:
        self._pending.pop(producer_id, None)

    def forget_before(self, producer_id: int, producer_epoch: int) -> None:
        """What is asked about in this epoch stays."""
        pending = self._pending.get(producer_id)
        if pending is not None and pending.producer_epoch < producer_epoch:
            self.forget(producer_id)

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        for producer_id, pending in list(self._pending.items()):
            if now_ms - pending.begun_ms >= expiration_ms:
                self.forget(producer_id)

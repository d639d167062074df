"""Which requests of an instance are hit by the faults its tenant has injected (ADR 30). Pure.

Nothing acknowledged is ever touched: an error is given instead of passing a request on, or the connection
ends. Chance is drawn per request by what the caller hands in.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from contracts.injected_faults import FaultKind, InjectedFault
from wire.api_table import ApiKey

LINGER_MS: Final = 10_000
"""So long after the last fault, what followed a refused batch of an idempotent producer is told apart."""
LEADER_APIS: Final = frozenset({ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS})
"""APIs that only a partition's leader answers."""
_REFUSING: Final = frozenset({FaultKind.LEADER_LOSS, FaultKind.MESSAGE_TOO_LARGE, FaultKind.CORRUPT_CHECKSUM})
_KINDS: Final = frozenset(FaultKind)


class _Running(NamedTuple):
    fault: InjectedFault
    ends_ms: int
    """Monotonic."""


class Taken(NamedTuple):
    """What taking a spec's faults has changed."""

    changed: bool
    """Whether one has begun or ended."""
    resets_all: bool
    """Whether one has begun that resets every connection once."""


class ActiveFaults:
    """Faults of one instance on one worker. `draw` answers a number below 1, evenly.

    Units: `now_ms` is monotonic, `epoch_ms` the wall clock. A fault ends when the wall clock says so or when
    its duration has passed here, whichever is first: a wrong clock shortens it, and never makes it longer.
    """

    def __init__(self, draw: Callable[[], float], affected: Counter[str]) -> None:
        self._draw = draw
        self._running: dict[str, _Running] = {}
        self._affected = affected
        self._over_ms = 0
        """When what the last fault has left behind is over, too; 0: a fault runs."""
        self.refuses = False
        """Whether requests may be refused, or follow one that was."""
        self.decodes = False
        """Whether a Produce has to be seen whole."""

    def take(self, faults: Iterable[InjectedFault], now_ms: int, epoch_ms: int) -> Taken:
        """The faults that the spec tells of now."""
        before = self._running
        self._running = {}
        for fault in faults:
            left_ms = min(fault.ends_at_ms - epoch_ms, fault.duration_ms)
            known = before.get(fault.id)
            ends_ms = now_ms + left_ms if known is None else min(known.ends_ms, now_ms + left_ms)
            if ends_ms > now_ms and fault.kind in _KINDS:
                self._running[fault.id] = _Running(fault, ends_ms)
        self._settle(bool(before), now_ms)
        new = self._running.keys() - before.keys()
        return Taken(self._running.keys() != before.keys(), any(self._running[one].fault.once for one in new))

    def end_overdue(self, now_ms: int, epoch_ms: int) -> Taken:
        """Forget what is over."""
        return self.take([one.fault for one in self._running.values()], now_ms, epoch_ms)

    def _settle(self, had_some: bool, now_ms: int) -> None:
        if self._running:
            self._over_ms = 0
        elif had_some:
            self._over_ms = now_ms + LINGER_MS
        kinds = {one.fault.kind for one in self._running.values()}
        self.refuses = bool(kinds & _REFUSING) or (self.refuses and self.is_kept(now_ms))
        self.decodes = self.refuses or FaultKind.CONNECTION_RESET in kinds

    def is_kept(self, now_ms: int) -> bool:
        """Whether there is still something to look after."""
        return bool(self._running) or now_ms < self._over_ms

    @property
    def kinds(self) -> tuple[str, ...]:
        """What acts now. May be called from any thread."""
        return tuple(one.fault.kind for one in tuple(self._running.values()))

    def count(self, kind: FaultKind, requests: int = 1) -> None:
        """So many requests or connections were hit."""
        self._affected[kind] += requests

    def _of(self, kind: FaultKind, now_ms: int) -> InjectedFault | None:
        for one in self._running.values():
            if one.fault.kind == kind and one.ends_ms > now_ms:
                return one.fault
        return None

    def _hits(self, kind: FaultKind, now_ms: int) -> InjectedFault | None:
        """The fault of this kind, when chance says that it hits."""
        fault = self._of(kind, now_ms)
        if fault is None or (fault.share_percent < 100 and self._draw() * 100 >= fault.share_percent):
            return None
        return fault

    # --- what is asked for a request --------------------------------------------------------------

    def delay_ms(self, api_key: int, now_ms: int) -> int:
        """How long it is held back for latency."""
        fault = self._of(FaultKind.LATENCY, now_ms)
        if fault is None or (fault.apis and api_key not in fault.apis):
            return 0
        if self._hits(FaultKind.LATENCY, now_ms) is None:
            return 0
        self.count(FaultKind.LATENCY)
        return fault.delay_ms

    def throttle_ms(self, now_ms: int) -> int:
        """throttle_time_ms of an answer, as if above the quota."""
        fault = self._of(FaultKind.THROTTLING, now_ms)
        return 0 if fault is None else fault.delay_ms

    def resets(self, now_ms: int) -> bool:
        """Whether the connection of this request is reset."""
        fault = self._of(FaultKind.CONNECTION_RESET, now_ms)
        if fault is None or fault.once or self._hits(FaultKind.CONNECTION_RESET, now_ms) is None:
            return False
        self.count(FaultKind.CONNECTION_RESET)
        return True

    def loses_the_answer(self) -> bool:
        """Whether the broker gets a request that is reset all the same, as often as not."""
        return self._draw() < 0.5

    def refusal(self, api_key: int, now_ms: int) -> ErrorCode | None:
        """What is answered for all of a request instead of passing it on."""
        if api_key not in LEADER_APIS:
            return None
        if self._hits(FaultKind.LEADER_LOSS, now_ms) is not None:
            self.count(FaultKind.LEADER_LOSS)
            return ErrorCode.not_leader_or_follower
        if api_key == ApiKey.PRODUCE and self._hits(FaultKind.CORRUPT_CHECKSUM, now_ms) is not None:
            self.count(FaultKind.CORRUPT_CHECKSUM)
            return ErrorCode.corrupt_message
        return None

    def is_too_large(self, records_bytes: int, now_ms: int) -> bool:
        """Whether one partition's records are answered MESSAGE_TOO_LARGE."""
        fault = self._of(FaultKind.MESSAGE_TOO_LARGE, now_ms)
        if fault is None or records_bytes <= fault.above_bytes:
            return False
        if self._hits(FaultKind.MESSAGE_TOO_LARGE, now_ms) is None:
            return False
        self.count(FaultKind.MESSAGE_TOO_LARGE)
        return True


SEQUENCES_HELD_MAX: Final = 1_000
"""Refused batches of idempotent producers that one connection has to bring again; more: it is reset."""
_SEQUENCES: Final = 2**31


class Sent(NamedTuple):
    """Who has sent a batch of an idempotent producer, and where to."""

    producer_id: int
    producer_epoch: int
    topic: str
    partition: int


class HeldSequences:
    """Batches of one connection that were refused by chance. What the producer has sent behind them before
    it could know must be refused too, or a broker that has not seen the producer yet would take it: then the
    batch that comes again is out of order for ever."""

    def __init__(self) -> None:
        self._refused: dict[Sent, tuple[int, ErrorCode]] = {}

    def error(self, sent: Sent, sequence: int) -> ErrorCode | None:
        """What to answer for a batch behind a refused one. The refused one itself is free to go again."""
        held = self._refused.get(sent)
        if held is None:
            return None
        first, error_code = held
        if sequence == first:
            del self._refused[sent]
            return None
        return error_code if _is_behind(sequence, first) else None

    def hold(self, sent: Sent, sequence: int, error_code: ErrorCode) -> bool:
        """A batch was refused. False when it is one too many to remember."""
        held = self._refused.get(sent)
        if held is not None and _is_behind(sequence, held[0]):
            return True
        if held is None and len(self._refused) >= SEQUENCES_HELD_MAX:
            return False
        # What a client gives up does not come again; those behind it wait for a new epoch, as at a broker.
        follows = (
            ErrorCode.out_of_order_sequence_number
            if error_code is ErrorCode.message_too_large
            else error_code
        )
        self._refused[sent] = (sequence, follows)
        return True


def _is_behind(sequence: int, first: int) -> bool:
    """Sequences begin anew at 0 behind the largest."""
    return 0 < (sequence - first) % _SEQUENCES < _SEQUENCES // 2

"""What every coordinator's core gives back: answers that may leave, records to write. Pure values.

The contract between a core and the shard that runs it (`broker.coordinators.shard`):

* Every request method of a core takes the time and returns `Effects`. Its replies may leave at once. Its
  appends are written in order; each is reported once, in order: to `committed` when its records are below
  the high watermark, or to `refused` when they could not be written. Both return further effects.
* An append that stays above the high watermark for too long is also told to `overdue`: those who wait learn
  it, the records may still be committed later.
* `tick` is called when `next_deadline_ms` is reached. Late is allowed, never is not.
* Recovery: `replay` every batch of the log in order, then `activate`. Live operation changes durable state
  by the same code, in `committed`.
* Every reply token is named once, sooner or later; `resigned` names what is left when leadership ends.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from kio.schema.errors import ErrorCode

from wire.batch import BatchHeader, Record
from wire.control import EndMarker

Token: TypeAlias = Callable[[Any], None]
"""Where an answer goes. Opaque to a core, which only hands it back."""


class Moment(NamedTuple):
    """Now, on both clocks: deadlines count on the one that never jumps, records carry the wall clock."""

    monotonic_ms: int
    epoch_ms: int


class Reply(NamedTuple):
    """An answer that may leave now."""

    token: Token
    result: Any


A = TypeVar("A")


@dataclass(slots=True)
class Effects(Generic[A]):
    """What one step of a core leads to."""

    replies: list[Reply] = field(default_factory=list)
    """May leave at once."""
    appends: list[A] = field(default_factory=list)
    """Must be written, in order."""
    commands: list[Any] = field(default_factory=list)
    """What else the shard's owner does for this kind of core, after the replies."""


class Turn(Generic[A]):
    """One step of a core: when it happens, and the effects it gathers."""

    __slots__ = ("effects", "now")

    def __init__(self, now: Moment) -> None:
        self.now = now
        self.effects: Effects[A] = Effects()

    def reply(self, token: Token, result: Any) -> None:
        """Let an answer leave at the end of this step."""
        self.effects.replies.append(Reply(token, result))


class Batch(NamedTuple):
    """What an append looks like in the log."""

    records: bytearray
    """One record batch."""
    verification: int | None = None
    """The guard that lets it begin a transaction in the log (KIP-890)."""
    key: str = ""
    """The group or transactional id that it is about: its instance pays for the bytes."""
    transaction_version: int = 0
    """Of what it ends, where it is a marker."""


class Core(Protocol[A]):
    """What a shard runs: one coordinator's decisions about the keys of one partition."""

    def replay(self, header: BatchHeader, records: Iterator[Record]) -> None:
        """Apply a batch of the log; before `activate` only."""

    def replay_marker(self, producer_id: int, marker: EndMarker) -> None:
        """Apply a control batch of the log; before `activate` only."""

    def activate(self, now: Moment) -> Effects[A]:
        """The log was read to its end, and that is below the high watermark."""

    def encode(self, append: A, now: Moment) -> Batch:
        """The append as one record batch."""

    def committed(self, append: A, base_offset: int, now: Moment) -> Effects[A]:
        """The append's records, from `base_offset` on, are below the high watermark."""

    def refused(self, append: A, error: ErrorCode, now: Moment) -> Effects[A]:
        """The append's records could not be written: nothing changed."""

    def overdue(self, append: A, error: ErrorCode, now: Moment) -> tuple[A, Effects[A]]:
        """The append is written, but not committed in time. Returns what to report instead when it is."""

    def resigned(self, pending: Iterable[A]) -> list[Reply]:
        """This broker leads the partition no longer: everyone who waits is sent away. The core's end."""

    def next_deadline_ms(self) -> int | None:
        """When `tick` is due, on the monotonic clock; None while nothing is awaited."""

    def tick(self, now: Moment) -> Effects[A]:
        """Handle every deadline that is reached."""

    def sweep(self, now: Moment) -> Effects[A]:
        """Every few minutes: what has expired goes."""

"""Faults that a tenant has injected into its own instance, for a time, to see how its clients cope (ADR 30).

Gateways carry them out. An end is absolute, so a gateway that hears nothing more ends a fault by itself.
"""

from enum import StrEnum
from typing import Annotated, Final

import msgspec


class FaultKind(StrEnum):
    """What clients are made to feel."""

    LATENCY = "latency"
    """Requests are held back for `delay_ms` before anything is done with them."""
    THROTTLING = "throttling"
    """Answers say `throttle_time_ms`, and the connection is left unread for so long, as above the quota."""
    LEADER_LOSS = "leader_loss"
    """Produce, Fetch and ListOffsets are answered NOT_LEADER_OR_FOLLOWER."""
    CONNECTION_RESET = "connection_reset"
    """Connections are reset, before a request was passed on or when its answer comes."""
    MESSAGE_TOO_LARGE = "message_too_large"
    """Produce is answered MESSAGE_TOO_LARGE."""
    CORRUPT_CHECKSUM = "corrupt_checksum"
    """Produce is answered CORRUPT_MESSAGE."""


DELAY_MS_MAX: Final = 10_000
"""What a fault holds one request back at most, or tells as throttle time."""
DURATION_S_MAX: Final = 15 * 60
"""After that a fault ends by itself, whatever it was ordered with."""

Percent = Annotated[int, msgspec.Meta(ge=1, le=100)]
DelayMs = Annotated[int, msgspec.Meta(ge=0, le=DELAY_MS_MAX)]


class InjectedFault(msgspec.Struct, frozen=True, kw_only=True):
    """One fault, as the feed tells it. Times are epoch ms of the control plane's clock."""

    id: str
    kind: str
    """A `FaultKind`; one that a gateway does not know does nothing there."""
    begins_at_ms: int
    ends_at_ms: int
    share_percent: Percent = 100
    """Share of requests that fail or wait, drawn for each."""
    delay_ms: DelayMs = 0
    """How long latency and throttling hold a request back."""
    apis: tuple[int, ...] = ()
    """API keys that latency is for; empty: all."""
    above_bytes: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Record batches up to this size are not too large."""
    once: bool = False
    """Every connection is reset when a gateway hears of the fault, and none later."""

    @property
    def duration_ms(self) -> int:
        """From begin to end, whatever the clock of the reader says."""
        return self.ends_at_ms - self.begins_at_ms

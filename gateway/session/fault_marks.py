"""What injected faults have left behind on one connection (ADR 30).

A request that is held back stays unread in front of its connection, of which no more is read meanwhile: a
fault holds no memory that back-pressure does not hold anyhow.
"""

from typing import Final, Protocol

from gateway.rules.injected_faults import HeldSequences

HELD_BACK_BYTES_MAX: Final = 64 * 1024 * 1024
"""What injected faults keep of an instance's requests on one worker; what would be more is not held back."""


class HeldBack(Protocol):
    """The instance's account of what waits."""

    held_back_bytes: int


class FaultMarks:
    """Marks of one connection."""

    __slots__ = ("held", "held_back_bytes", "muted_until_ms", "released_at_bytes")

    def __init__(self) -> None:
        self.held = HeldSequences()
        self.held_back_bytes = 0
        self.muted_until_ms = 0
        self.released_at_bytes = -1
        """Up to here the client's bytes have waited: what came with them came as early."""

    def hold(self, instance: HeldBack, size_bytes: int) -> bool:
        """Keep so much of what was read waiting; False: the instance has too much waiting."""
        if instance.held_back_bytes + size_bytes > HELD_BACK_BYTES_MAX:
            return False
        self.held_back_bytes = size_bytes
        instance.held_back_bytes += size_bytes
        return True

    def release(self, instance: HeldBack) -> None:
        """Nothing waits any more."""
        instance.held_back_bytes -= self.held_back_bytes
        self.held_back_bytes = 0

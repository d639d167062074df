"""What happens to a Produce request of an instance that has, or has not, reached its capacity."""

from dataclasses import dataclass
from typing import Final

from contracts.specs import FullBehaviour

STALL_MS_MAX: Final = 10_000
"""How long `full_behaviour: stall` waits: half the producer's own time-out for room, at most so long."""


@dataclass(frozen=True, slots=True)
class Admit:
    """Append the records."""


@dataclass(frozen=True, slots=True)
class Full:
    """Append nothing. `reject`: POLICY_VIOLATION with `message` now; acks=0 closes the connection.

    `stall`: drop the records, leave the channel unread, and answer REQUEST_TIMED_OUT after `stall_ms`.
    """

    message: str
    behaviour: FullBehaviour


ADMIT: Final = Admit()


def full_message(instance_id: str, stored_bytes: int, capacity_bytes: int) -> str:
    """What the tenant reads in the refused partition's error message (quota.md, Safety)."""
    return (
        f"instance {instance_id} is full: {stored_bytes} of {capacity_bytes} bytes stored; "
        "delete data, shorten retention or resize"
    )


def stall_ms(request_timeout_ms: int) -> int:
    """How long a stalled produce waits for its REQUEST_TIMED_OUT."""
    return max(0, min(request_timeout_ms // 2, STALL_MS_MAX))

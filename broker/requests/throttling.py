"""From a charge to a muted channel (quota.md: Throttle)."""

from collections.abc import Callable, Iterable

from contracts.quota import Direction
from traffic.flow import REPORTED_THROTTLE_MS_MAX, Flow
from traffic.point import TrafficPoint

Mute = Callable[[int], int]
"""Milliseconds for which a channel must still stay unread, asked with the monotonic time; 0 ends it."""


class Debt:
    """What an instance owes in one bucket, up to a ticket."""

    __slots__ = ("_flow", "_ticket")

    def __init__(self, flow: Flow, ticket: int) -> None:
        self._flow = flow
        self._ticket = ticket

    def remaining_ms(self, now_ms: int) -> int:
        """How long paying takes."""
        return self._flow.unmute_at_ms(now_ms, self._ticket) - now_ms

    def throttle_time_ms(self, now_ms: int) -> int:
        """What an answer says of it."""
        return min(self.remaining_ms(now_ms), REPORTED_THROTTLE_MS_MAX)

    def mute(self, now_ms: int) -> Mute | None:
        """What keeps a channel unread until it is paid."""
        return self.remaining_ms if self.remaining_ms(now_ms) > 0 else None


class Reservation:
    """A frame that is charged already and waits to be carried."""

    __slots__ = ("_flow", "_size_bytes", "_ticket")

    def __init__(self, flow: Flow, size_bytes: int, ticket: int) -> None:
        self._flow = flow
        self._size_bytes = size_bytes
        self._ticket = ticket

    def remaining_ms(self, now_ms: int) -> int:
        """How long what was charged before takes to be paid."""
        return self._flow.unmute_at_ms(now_ms, self._ticket) - now_ms

    def carry(self, size_bytes: int, now_ms: int) -> Debt:
        """The frame was carried and came to so many bytes; what it leaves to be paid."""
        return Debt(self._flow, self._flow.carry(self._ticket, self._size_bytes, size_bytes, now_ms))

    def release(self, now_ms: int) -> None:
        """The frame is not carried."""
        self._flow.release(self._size_bytes, now_ms)


def charge(
    traffic: TrafficPoint, direction: Direction, sizes: Iterable[tuple[str, int]], now_ms: int
) -> tuple[int, Mute | None]:
    """Charge each instance its part of a frame of a connection that belongs to none.

    `sizes` are (instance id, bytes on the wire). Answers throttle_time_ms, and what keeps the channel unread.
    """
    charge_one = traffic.charge_produce if direction is Direction.PRODUCE else traffic.charge_fetch
    throttle_time_ms = 0
    owing: list[tuple[str, int]] = []
    for instance_id, size_bytes in sizes:
        throttle_ms = charge_one(instance_id, size_bytes, now_ms)
        if throttle_ms > 0:
            owing.append((instance_id, traffic.ticket(instance_id, direction)))
            throttle_time_ms = max(throttle_time_ms, throttle_ms)
    if not owing:
        return 0, None

    def remaining_ms(at_ms: int) -> int:
        return max(
            traffic.unmute_at_ms(instance_id, direction, at_ms, ticket) - at_ms
            for instance_id, ticket in owing
        )

    return throttle_time_ms, remaining_ms

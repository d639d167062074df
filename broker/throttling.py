"""From a charge to a muted channel (quota.md: Throttle)."""

from collections.abc import Iterable

from broker.call import Mute
from contracts.quota import Direction
from traffic.point import TrafficPoint


def charge(
    traffic: TrafficPoint, direction: Direction, sizes: Iterable[tuple[str, int]], now_ms: int
) -> tuple[int, Mute | None]:
    """Charge each instance its part of a frame: throttle_time_ms, and what keeps the channel unread.

    `sizes` are (instance id, bytes on the wire).
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

"""When a frame that does not get complete closes its connection. Pure."""

from broker.causes import CloseCause
from broker.config import BrokerConfig


def slow_frame(
    config: BrokerConfig, frame_ms: int, stalled_ms: int, received_bytes: int
) -> CloseCause | None:
    """`frame_ms` since its first byte and `stalled_ms` since its last one, while we were reading."""
    if stalled_ms > config.frame_progress_timeout_ms:
        return CloseCause.FRAME_STALLED
    earned_ms = received_bytes * 1000 // config.frame_rate_min_bytes_per_s
    if frame_ms > config.frame_progress_timeout_ms + earned_ms:
        return CloseCause.FRAME_TOO_SLOW
    return None

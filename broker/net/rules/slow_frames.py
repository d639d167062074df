"""When a frame that does not get complete closes its connection. Pure."""

from broker.config import BrokerConfig
from broker.requests.causes import CloseCause


def slow_frame(
    config: BrokerConfig, frame_ms: int, stalled_ms: int, received_bytes: int, frame_bytes: int
) -> CloseCause | None:
    """`frame_ms` since its first byte and `stalled_ms` since its last one, while we were reading.

    What has come earns the time for what is missing, at a rate that grows with the frame: so the largest one
    that drips is gone after `frame_progress_timeout_ms` and `frame_time_max_ms`.
    """
    if stalled_ms > config.frame_progress_timeout_ms:
        return CloseCause.FRAME_STALLED
    rate_min = max(config.frame_rate_min_bytes_per_s, frame_bytes * 1000 // config.frame_time_max_ms)
    if frame_ms > config.frame_progress_timeout_ms + received_bytes * 1000 // rate_min:
        return CloseCause.FRAME_TOO_SLOW
    return None

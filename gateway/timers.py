"""Which connections are overdue. Pure but for reading a connection's counters and moving its mark.

The data path only counts bytes and frames; the windows are computed here, about twice a second.
"""

from typing import TYPE_CHECKING

from gateway.causes import DisconnectCause
from gateway.config import Timeouts

if TYPE_CHECKING:
    from gateway.connection import Connection


def overdue(connection: "Connection", timeouts: Timeouts, now_ms: int) -> DisconnectCause | None:
    """Why a connection must be closed now, or None. Moves the connection's mark when it made progress."""
    if connection.client_waits or connection.upstream_waits or connection.requests.is_held_back:
        # It is ours to go on.
        connection.mark_ms, connection.mark_bytes = now_ms, connection.bytes_in
        return None
    waited_ms = now_ms - connection.mark_ms
    upstream = connection.upstream
    if connection.client_ended or connection.upstream_ended:
        return DisconnectCause.DRAIN_TIMEOUT if waited_ms >= timeouts.drain_ms else None
    if not connection.requests.frames:
        return DisconnectCause.FIRST_BYTE_TIMEOUT if waited_ms >= timeouts.first_byte_ms else None
    if upstream is not None and upstream.held:
        return DisconnectCause.UPSTREAM_UNREACHABLE if waited_ms >= timeouts.connect_ms else None
    if not connection.reading_client or len(connection.queue):
        connection.mark_ms, connection.mark_bytes = now_ms, connection.bytes_in
        return None
    if (
        connection.requests.in_frame != connection.mark_in_frame
        or connection.requests.frames != connection.mark_frames
    ):
        _mark(connection, now_ms)
        return None
    progress_bytes = connection.bytes_in - connection.mark_bytes
    if not connection.mark_in_frame:
        return DisconnectCause.IDLE_TIMEOUT if waited_ms >= timeouts.idle_ms else None
    share_bytes = connection.requests.frame_bytes * timeouts.frame_ms // timeouts.frame_time_max_ms
    if progress_bytes >= max(timeouts.frame_progress_bytes, share_bytes):
        _mark(connection, now_ms)
        return None
    return DisconnectCause.FRAME_TIMEOUT if waited_ms >= timeouts.frame_ms else None


def _mark(connection: "Connection", now_ms: int) -> None:
    """A new window begins."""
    connection.mark_ms = now_ms
    connection.mark_bytes = connection.bytes_in
    connection.mark_frames = connection.requests.frames
    connection.mark_in_frame = connection.requests.in_frame

"""Which segments may go. Pure.

Segments go from the oldest on, whole ones only, and only below the high watermark.
Source: Kafka UnifiedLog.deleteOldSegments.
"""

from collections.abc import Sequence
from typing import NamedTuple

from broker.log.log_config import LogConfig


class SegmentFacts(NamedTuple):
    """What the choice needs to know of one segment."""

    next_offset: int
    """Base offset of the segment behind it, the log end offset for the last."""
    size_bytes: int
    largest_timestamp_ms: int
    """Largest timestamp of its records; time of the last write where records have none."""
    written_ms: int
    """Of the last write. It is looked up of those alone that expired by their timestamps."""


def timestamps_expired(largest_timestamp_ms: int, config: LogConfig, now_ms: int) -> bool:
    """Whether a segment is older than `retention.ms` by what its records say."""
    return config.retention_ms >= 0 and now_ms - largest_timestamp_ms > config.retention_ms


def segments_to_delete(
    segments: Sequence[SegmentFacts],
    config: LogConfig,
    *,
    log_start_offset: int,
    high_watermark: int,
    now_ms: int,
    readable_ms: int = 0,
) -> int:
    """How many segments, from the first, retention deletes. All of them means: roll first.

    Records whose timestamps are old already when they are written stay for `readable_ms`, or for
    `retention.ms` where that is less.
    """
    by_start = _leading(segments, high_watermark, [s.next_offset <= log_start_offset for s in segments])
    if not config.deletes:
        return by_start
    excess_bytes = sum(s.size_bytes for s in segments) - config.retention_bytes
    by_size_flags = []
    for segment in segments:
        excess_bytes -= segment.size_bytes
        by_size_flags.append(config.retention_bytes >= 0 and excess_bytes >= 0)
    expired = [
        timestamps_expired(s.largest_timestamp_ms, config, now_ms)
        and abs(now_ms - s.written_ms) > min(config.retention_ms, readable_ms)  # the clock may be set back
        for s in segments
    ]
    return max(
        by_start,
        _leading(segments, high_watermark, by_size_flags),
        _leading(segments, high_watermark, expired),
    )


def _leading(segments: Sequence[SegmentFacts], high_watermark: int, flags: list[bool]) -> int:
    """Length of the leading run that is flagged and committed; an empty last segment stays."""
    count = 0
    for number, (segment, flag) in enumerate(zip(segments, flags, strict=True)):
        last = number == len(segments) - 1
        if not flag or segment.next_offset > high_watermark or (last and segment.size_bytes == 0):
            break
        count += 1
    return count

"""From timestamp to offset (ListOffsets).

Source: Kafka UnifiedLog.fetchOffsetByTimestamp, FileRecords.
"""

from broker.log.payload import records_of
from broker.log.results import TimestampOffset
from broker.log.segment import Segment
from broker.log.segment_list import SegmentList
from wire.batch import DELETE_HORIZON_BIT, BatchError, BatchHeader
from wire.compression import PayloadUnreadable


def offset_for_timestamp(
    segments: SegmentList, timestamp_ms: int, log_start_offset: int, up_to: int
) -> TimestampOffset | None:
    """The first record in `log_start_offset`..`up_to` (exclusive) whose timestamp is at least `timestamp_ms`.

    A batch whose records cannot be looked at answers with its first offset, never with a later one.
    Raises: OSError.
    """
    for number, segment in enumerate(segments):
        if segment.base_offset >= up_to:
            return None
        if segment.largest_timestamp[0] < timestamp_ms:
            continue
        from_offset = max(segment.time_index.lookup(timestamp_ms), log_start_offset)
        if number < len(segments) - 1:
            segments.files.keep_warm(segment)
        for position, header in segment.headers(segment.index.lookup(from_offset)):
            if header.base_offset >= up_to:
                return None
            if header.max_timestamp_ms < timestamp_ms or header.last_offset < log_start_offset:
                continue
            found = _within(segment, position, header, timestamp_ms, log_start_offset)
            if found is not None:
                return found if found.offset < up_to else None
    return None


def _within(
    segment: Segment, position: int, header: BatchHeader, timestamp_ms: int, log_start_offset: int
) -> TimestampOffset | None:
    first_offset = max(header.base_offset, log_start_offset)
    if header.is_log_append_time:
        return TimestampOffset(header.max_timestamp_ms, first_offset)
    dated = not header.attributes & DELETE_HORIZON_BIT
    if dated and header.base_timestamp_ms >= timestamp_ms and first_offset == header.base_offset:
        return TimestampOffset(header.base_timestamp_ms, first_offset)
    try:
        for record in records_of(segment.read(position, header.size_bytes), header):
            if record.timestamp_ms >= timestamp_ms and record.offset >= log_start_offset:
                return TimestampOffset(record.timestamp_ms, record.offset)
    except (PayloadUnreadable, BatchError):
        return TimestampOffset(header.base_timestamp_ms, first_offset)
    return None

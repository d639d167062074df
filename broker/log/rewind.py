"""Taking a segment back to an offset: its indexes say what is below and nothing else.

For recovery, which then checks what follows, and for truncation, which cuts it off.
"""

from broker.log.batch_scan import walk_headers
from broker.log.log_config import LogConfig
from broker.log.segment import Segment


def rewind(segment: Segment, config: LogConfig, offset: int, file_size: int) -> tuple[int, int]:
    """(position, next offset) of the first batch at `offset` or later, with the indexes valid up to it.

    What the indexes do not cover below it is noted from headers alone: they are not synced, so a power cut
    may have shortened them, or spoilt them, and then the whole segment is gone through and they are made
    anew. Raises: OSError.
    """
    handle = segment.handle()
    position, next_offset = 0, segment.base_offset
    index, times = segment.index, segment.time_index
    if offset > segment.base_offset and index.is_sound(file_size) and times.is_sound():
        indexed = index.lookup(min(offset - 1, times.last[1]))
        first = next(walk_headers(handle.fd, indexed, file_size), None)
        if first is not None and index.lookup(first[1].last_offset) == indexed:
            position, next_offset = indexed, first[1].base_offset
        else:
            offset = segment.base_offset
    else:
        offset = segment.base_offset
    segment.reset_indexes(position, next_offset)
    for at, header in walk_headers(handle.fd, position, file_size):
        if header.base_offset >= offset:
            return at, next_offset
        segment.note(header, config.index_interval_bytes)
        position, next_offset = at + header.size_bytes, header.next_offset
    return position, next_offset

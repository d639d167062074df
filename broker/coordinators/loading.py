"""Reading an internal partition from its start to its end, a piece at a time."""

from collections.abc import Callable, Iterator
from typing import Final

from broker.log.partition_log import PartitionLog
from broker.log.payload import records_of
from wire.batch import HEADER_SIZE, BatchHeader, Record, parse_header

READ_BYTES: Final = 1024 * 1024

Replay = Callable[[BatchHeader, Iterator[Record]], None]


def replay_log(log: PartitionLog, replay: Replay) -> Iterator[int]:
    """Replay every batch of every segment; yields the records of each piece, so that others get their turn.

    Raises: StorageFailed, and what `replay` raises.
    """
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        piece = memoryview(log.read_bytes(offset, READ_BYTES, up_to=log.log_end_offset, min_one_batch=True))
        records = 0
        at = 0
        while len(piece) - at >= HEADER_SIZE:
            header = parse_header(piece, at)
            if header.size_bytes > len(piece) - at:
                break  # cut off: only the last batch of a piece may be
            if header.record_count:  # the cleaner leaves empty ones
                replay(header, records_of(piece[at : at + header.size_bytes], header))
                records += header.record_count
            at += header.size_bytes
            offset = header.next_offset
        assert at > 0, "a piece has at least one whole batch"
        yield records

"""Reading an internal partition from its start to its end, a piece at a time."""

from collections.abc import Iterator
from typing import Any, Final

from broker.coordination.effects import Core
from broker.log.partition_log import PartitionLog
from broker.log.payload import records_of
from wire.batch import HEADER_SIZE, BatchHeader, parse_header
from wire.control import parse_marker

READ_BYTES: Final = 64 * 1024
"""Some hundred records, a few milliseconds: what tenants made a coordinator write is read on the loop."""


def replay_log(log: PartitionLog, core: Core[Any]) -> Iterator[int]:
    """Replay every batch of every segment; yields the records of each piece, so that others get their turn.

    Raises: StorageFailed, and what the core raises for records it cannot read.
    """
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        piece = memoryview(
            log.reading.read_bytes(offset, READ_BYTES, up_to=log.log_end_offset, min_one_batch=True)
        )
        records = 0
        at = 0
        while len(piece) - at >= HEADER_SIZE:
            header = parse_header(piece, at)
            if header.size_bytes > len(piece) - at:
                break  # cut off: only the last batch of a piece may be
            _replay_batch(piece[at : at + header.size_bytes], header, core)
            records += header.record_count
            at += header.size_bytes
            offset = header.next_offset
        assert at > 0, "a piece has at least one whole batch"
        yield records


def _replay_batch(piece: memoryview, header: BatchHeader, core: Core[Any]) -> None:
    if header.is_control:
        marker = parse_marker(piece, header)
        if marker is not None:
            core.replay_marker(header.producer_id, marker)
    elif header.record_count:  # the cleaner leaves empty batches
        core.replay(header, records_of(piece, header))

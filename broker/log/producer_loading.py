"""Producers of a log: from the newest snapshot and the batches around and behind it."""

from collections.abc import Iterator
from typing import Final

from broker.log.producer_state import ProducerStates
from broker.log.segment_list import SegmentList
from broker.log.snapshot_files import SnapshotFiles
from wire.batch import BatchHeader

REPLAY_BYTES: Final = 16 * 1024 * 1024
"""How far in front of a snapshot producers are replayed: it holds only the last batch of each, but a client
whose answers a crash swallowed repeats its last five."""
REPLAY_ACTIVE_MS: Final = 600_000
"""Nobody repeats batches older than that (delivery.timeout.ms is two minutes)."""


def load_producers(
    segments: SegmentList, snapshots: SnapshotFiles, log_end_offset: int, now_ms: int
) -> ProducerStates:
    """What the log knows of its producers at its end. Snapshots of what lies behind it are removed.

    Raises: OSError.
    """
    newest = snapshots.load_newest(log_end_offset)
    offset, states = newest or (segments.first.base_offset, ProducerStates())
    recent = any(now_ms - entry.active_ms < REPLAY_ACTIVE_MS for entry in states.entries.values())
    if offset == log_end_offset and not recent:
        return states
    replayed = ProducerStates()
    for header in _headers_around(segments, offset):
        if header.producer_id >= 0:
            replayed.record(header, header.base_offset, now_ms)
    states.adopt(replayed)
    return states


def _headers_around(segments: SegmentList, offset: int) -> Iterator[BatchHeader]:
    """Headers to the end of the log, from `REPLAY_BYTES` in front of `offset` on."""
    number = segments.number_of(offset)
    found = segments[number].find(offset)
    bytes_in_front = segments[number].size_bytes if found is None else found[0]
    while number > 0 and bytes_in_front < REPLAY_BYTES:
        number -= 1
        bytes_in_front += segments[number].size_bytes
    first = segments[number]
    position = first.index.floor_position(max(0, bytes_in_front - REPLAY_BYTES))
    for segment in segments.since(first.base_offset):
        for _, header in segment.headers(position):
            yield header
        position = 0

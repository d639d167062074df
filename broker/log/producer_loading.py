"""Producers and transactions of a log: from a snapshot and the batches around and behind it."""

from collections.abc import Iterator
from typing import Final

from broker.log.producer_state import ProducerStates
from broker.log.segment import Segment
from broker.log.segment_list import SegmentList
from broker.log.snapshot_files import SnapshotFiles
from broker.log.transactions import EndedTransaction, Transactions
from broker.log.txn_index import AbortedTransaction
from wire.batch import BatchHeader
from wire.control import parse_marker

REPLAY_BYTES: Final = 16 * 1024 * 1024
"""How far in front of a snapshot batches are looked at: it holds only the last batch of each producer, but a
client whose answers a crash swallowed repeats its last five."""
REPLAY_ACTIVE_MS: Final = 600_000
"""Nobody repeats batches older than that (delivery.timeout.ms is two minutes)."""


def load_producers(
    segments: SegmentList,
    snapshots: SnapshotFiles,
    log_end_offset: int,
    now_ms: int,
    *,
    index_from: int,
    until: int,
) -> ProducerStates:
    """What the log knows of its producers at its end. From `until` on no batch has one.

    Aborted transactions whose markers are at `index_from` or later are put into their segments' indexes,
    which must hold none of them. Snapshots of what lies behind the end are removed. Raises: OSError.
    """
    snapshots.remove_after(log_end_offset)
    newest = snapshots.load_newest(index_from)
    offset, states = newest or (segments.first.base_offset, ProducerStates())
    recent = any(now_ms - entry.active_ms < REPLAY_ACTIVE_MS for entry in states.entries.values())
    for segment, position, header in _headers_from(segments, offset):
        if header.base_offset >= until:
            break
        if header.base_offset >= offset and header.producer_id >= 0:
            _replay(states, segment, position, header, now_ms, index_from)
    if recent:
        states.remember_batches(_batches_in_front(segments, offset))
    return states


def _replay(
    states: ProducerStates, segment: Segment, position: int, header: BatchHeader, now_ms: int, index_from: int
) -> None:
    if not header.is_control:
        states.record(header, header.base_offset, now_ms)
        return
    marker = parse_marker(segment.read(position, header.size_bytes), header)
    if marker is None:
        return
    ended = states.record_marker(header, header.base_offset, now_ms, marker)
    if ended is not None and ended.is_aborted and ended.last_offset >= index_from:
        segment.aborted_file.note(aborted_transaction(ended, states.transactions))


def aborted_transaction(ended: EndedTransaction, transactions: Transactions) -> AbortedTransaction:
    """The index entry of a transaction that has just ended."""
    return AbortedTransaction(
        ended.producer_id,
        ended.first_offset,
        ended.last_offset,
        transactions.last_stable_offset_at(ended),
    )


def _headers_from(segments: SegmentList, offset: int) -> Iterator[tuple[Segment, int, BatchHeader]]:
    number = segments.number_of(offset)
    position = segments[number].index.lookup(offset)
    for segment in segments.since(segments[number].base_offset):
        for at, header in segment.headers(position):
            yield segment, at, header
        position = 0


def _batches_in_front(segments: SegmentList, offset: int) -> ProducerStates:
    """Producers as the last `REPLAY_BYTES` in front of `offset` show them."""
    number = segments.number_of(offset)
    found = segments[number].find(offset)
    bytes_in_front = segments[number].size_bytes if found is None else found[0]
    while number > 0 and bytes_in_front < REPLAY_BYTES:
        number -= 1
        bytes_in_front += segments[number].size_bytes
    first = segments[number]
    position = first.index.floor_position(max(0, bytes_in_front - REPLAY_BYTES))
    states = ProducerStates()
    for segment in segments.since(first.base_offset):
        for _, header in segment.headers(position):
            if header.base_offset >= offset:
                return states
            if header.producer_id >= 0 and not header.is_control:
                states.record(header, header.base_offset, 0)
        position = 0
    return states

"""The records inside a batch as compaction looks at them: keys, and runs of records that stay. Pure.

A record: length varint, attributes i8, timestamp delta varlong, offset delta varint, key length varint, key,
value length varint, value, header count varint, headers. Only what stands in front of the value is looked at,
once per record and without making objects beside the key, for this is what compaction spends its time on;
what stays is copied as it is, in runs.
"""

from collections.abc import Iterator
from hashlib import blake2b
from typing import Final, NamedTuple

from wire.varint import read_varint, write_varint

_KEY_BYTES_MAX: Final = 32
"""Longer keys stand in the map as digests, which are one byte longer and so never equal to a key."""


class Runs(NamedTuple):
    """Which records of a batch stay."""

    spans: list[tuple[int, int]]
    """(start, end) of neighbouring records, in their order."""
    kept: int
    dropped: int
    keeps_tombstone: bool


def map_key(key: bytes) -> bytes:
    """What a key is called in the map of latest offsets: itself, or a digest that nobody can forge."""
    return key if len(key) <= _KEY_BYTES_MAX else blake2b(key, digest_size=_KEY_BYTES_MAX + 1).digest()


def note_latest(
    data: bytes, at: int, end: int, base_offset: int, from_offset: int, latest: dict[bytes, int]
) -> None:
    """Note the offset of each key among the records at `at`..`end`, from `from_offset` on.

    Raises: ValueError where the bytes are not records.
    """
    for _, _, offset, key, _ in _keys(data, at, end, base_offset):
        if key is not None and offset >= from_offset:
            latest[key if len(key) <= _KEY_BYTES_MAX else map_key(key)] = offset


def find_runs(
    data: bytes,
    at: int,
    end: int,
    base_offset: int,
    up_to: int,
    latest: dict[bytes, int],
    *,
    drop_tombstones: bool,
) -> Runs:
    """The records at `at`..`end` that compaction leaves: everything from `up_to` on; below it those that are
    the latest of their key, among them tombstones unless they are due, but none without a key.

    Raises: ValueError where the bytes are not records.
    """
    spans: list[tuple[int, int]] = []
    kept = dropped = 0
    keeps_tombstone = False
    run_start = run_end = at
    for start, following, offset, key, is_tombstone in _keys(data, at, end, base_offset):
        if offset >= up_to:
            keep = True
        elif key is None or (is_tombstone and drop_tombstones):
            keep = False
        else:
            keep = offset >= latest.get(key if len(key) <= _KEY_BYTES_MAX else map_key(key), -1)
        if not keep:
            dropped += 1
            continue
        kept += 1
        keeps_tombstone = keeps_tombstone or is_tombstone
        if start != run_end:
            if run_end > run_start:
                spans.append((run_start, run_end))
            run_start = start
        run_end = following
    if run_end > run_start:
        spans.append((run_start, run_end))
    return Runs(spans, kept, dropped, keeps_tombstone)


def _keys(
    data: bytes, at: int, end: int, base_offset: int
) -> Iterator[tuple[int, int, int, bytes | None, bool]]:
    """(start, end, offset, key, whether its value is null) of each record. Varints of one and two bytes are
    read in place. Raises: ValueError."""
    try:
        while at < end:
            start = at
            byte = data[at]
            if byte < 0x80:
                following = at + 1 + (byte >> 1)
                at += 2
            elif data[at + 1] < 0x80:
                following = at + 2 + ((byte & 0x7F | data[at + 1] << 7) >> 1)
                at += 3
            else:
                length, at = read_varint(data, at)
                following = at + length
                at += 1
            while data[at] >= 0x80:
                at += 1
            at += 1
            byte = data[at]
            if byte < 0x80:
                offset = base_offset + (byte >> 1)
                at += 1
            elif data[at + 1] < 0x80:
                offset = base_offset + ((byte & 0x7F | data[at + 1] << 7) >> 1)
                at += 2
            else:
                delta, at = read_varint(data, at)
                offset = base_offset + delta
            byte = data[at]
            if byte < 0x80 and not byte & 1:
                key_at = at + 1
                at = key_at + (byte >> 1)
            else:
                size, key_at = read_varint(data, at)
                at = max(key_at, key_at + size)
            if not at < following <= end:
                raise ValueError(f"a record ends at {following} of {end}, its key at {at}")
            yield start, following, offset, None if byte == 1 else data[key_at:at], data[at] == 1
            at = following
    except IndexError as error:
        raise ValueError("the records are cut off") from error


def largest_timestamp_delta(data: bytes, spans: list[tuple[int, int]]) -> int:
    """The largest delta of the records in these runs, of which there is one at least."""
    largest: int | None = None
    for at, end in spans:
        while at < end:
            length, at = read_varint(data, at)
            delta, _ = read_varint(data, at + 1)
            largest = delta if largest is None or delta > largest else largest
            at += length
    assert largest is not None
    return largest


def shift_timestamps(data: bytes, spans: list[tuple[int, int]], shift_ms: int) -> bytes:
    """The records in these runs with `shift_ms` added to their timestamp deltas."""
    out = bytearray()
    for at, end in spans:
        while at < end:
            length, at = read_varint(data, at)
            following = at + length
            delta, rest_at = read_varint(data, at + 1)
            head = bytearray(data[at : at + 1])
            write_varint(head, delta + shift_ms)
            write_varint(out, len(head) + following - rest_at)
            out += head
            out += data[rest_at:following]
            at = following
    return bytes(out)

"""Whether the records of a batch that is not compressed fill it, by their lengths. Pure.

Every such batch pays for it, so that each record costs as little as it can: 0.06 us, 0.02 us where neighbours
are equally long. The first and the last record are looked at as a whole.
"""

import struct
from itertools import repeat
from typing import Final

from wire.batch import HEADER_SIZE, LOG_OVERHEAD, BatchHeader, Buffer
from wire.record_walk import BODY_BYTES_MIN, check_record, malformed
from wire.varint import read_varint

_HEAD: Final = struct.Struct("6B")
"""As many bytes as there are in front of a record's value, or of its key, whose lengths are of two bytes."""
_LONG: Final = 0x80
"""A byte of a varint from here on has others behind it."""
_FAR: Final = 1 << 62
"""Behind every batch: where a step leads that a byte does not tell."""
_STEPS: Final = tuple(
    _FAR if byte & 1 or byte < 2 * BODY_BYTES_MIN else 1 + (byte >> 1)
    if byte < _LONG else 2 + ((byte & 0x7F) >> 1)
    for byte in range(256)
)  # fmt: skip
"""By the first byte of a record's length: how far the next record is, or what of it this byte tells."""
_MORE: Final = tuple(byte << 6 if 0 < byte < _LONG else _FAR for byte in range(256))
"""By the second of two bytes: the rest."""
_BLOCK: Final = 256
"""Records between two looks whether neighbours are alike."""
_RUN_FIRST: Final = 64
"""So many records that are alike otherwise have offset deltas of one byte."""
_RUN_MIN: Final = 8


def check_lengths(batch: Buffer, header: BatchHeader) -> None:
    """Go from record to record. Raises: BatchError (INVALID_RECORD). `check_count` has passed."""
    end, count = header.batch_length + LOG_OVERHEAD, header.record_count
    try:
        first_end = _plain_end(batch) or check_record(batch, HEADER_SIZE, end, 0)[0]
        if count > 1:
            _check_delta(batch, _last_of(batch, end, count), count - 1)
        elif first_end != end:
            raise ValueError(f"{end - first_end} bytes follow the only record")
    except (IndexError, ValueError) as error:
        raise malformed(error) from error


def _plain_end(data: Buffer) -> int:
    """Where the first record ends if it has the deltas 0, a small or no key, no headers, and fills its
    length: what most do, told by the shortest way. 0: it is another, or none."""
    try:
        size, more, third, fourth, fifth, sixth = _HEAD.unpack_from(data, HEADER_SIZE)
    except struct.error:
        return 0
    if size < _LONG:
        behind = HEADER_SIZE + 1 + (size >> 1)
        deltas, key, at = third | fourth, fifth, HEADER_SIZE + 5
    else:
        behind = HEADER_SIZE + 2 + ((size & 0x7F | more << 7) >> 1)
        deltas, key, at = fourth | fifth | more & _LONG, sixth, HEADER_SIZE + 6
    if size & 1 or deltas or key >= _LONG or (key & 1 and key != 1):
        return 0
    at += key >> 1
    value = data[at]
    if value < _LONG:
        at += value >> 1
    elif (more := data[at + 1]) < _LONG:
        at += 1 + ((value & 0x7F | more << 7) >> 1)
    else:
        return 0
    return behind if at + 2 == behind and not (value & 1 or data[at + 1]) else 0


def _check_delta(data: Buffer, at: int, offset_delta: int) -> None:
    """Whether the record at `at` has this offset delta. Raises: ValueError, IndexError."""
    while data[at] >= _LONG:
        at += 1
    at += 2
    while data[at] >= _LONG:
        at += 1
    found = data[at + 1]
    if found >= _LONG and data[at + 2] < _LONG:
        found = found & 0x7F | data[at + 2] << 7
    if found != offset_delta << 1 and read_varint(data, at + 1)[0] != offset_delta:
        raise ValueError(f"the offset delta of the last record is not {offset_delta}")


def _last_of(data: Buffer, end: int, count: int) -> int:
    """Where the last of `count` records begins, which end at `end`. Raises: ValueError, IndexError."""
    last = at = HEADER_SIZE
    left, run_max = count, _RUN_FIRST
    while left:
        byte = data[at]
        step = _STEPS[byte] if byte < _LONG else _STEPS[byte] + _MORE[data[at + 1]]
        if at + step < end and data[at + step] == byte:
            run = min(left, run_max, (end - at) // step)
            run -= _unlike(data[at : at + run * step : step], run)
            if byte >= _LONG:
                run -= _unlike(data[at + 1 : at + run * step : step], run)
            at += run * step
            left -= run
            last = at - step
            if run >= _RUN_MIN:
                run_max = left
                continue
        if left:
            last = at
            some = min(left - 1, _BLOCK) or 1
            at = _pass(data, at, end, some)
            left -= some
    if at != end:
        raise ValueError(f"{end - at} bytes follow the last record")
    return last


def _unlike(lengths: Buffer, count: int) -> int:
    """How many of so many bytes are left from the first on that is another than the one in front."""
    found = bytes(lengths)
    first = found[:1]
    return 0 if found == first * count else len(found.lstrip(first))


def _pass(data: Buffer, at: int, end: int, count: int) -> int:
    """Where the next `count` records end. Raises: ValueError, IndexError."""
    steps, more = _STEPS, _MORE
    start = at
    try:
        for _ in repeat(None, count):
            byte = data[at]
            at += steps[byte] if byte < _LONG else steps[byte] + more[data[at + 1]]
    except IndexError:
        at = _FAR
    return at if at <= end else _pass_slowly(data, start, end, count)


def _pass_slowly(data: Buffer, at: int, end: int, count: int) -> int:
    """The same with lengths of any number of bytes."""
    for _ in range(count):
        size, at = read_varint(data, at)
        if size < BODY_BYTES_MIN:
            raise ValueError("a record's length is negative or too small")
        at += size
        if at > end:
            raise ValueError(f"a record ends {at - end} bytes behind the batch")
    return at

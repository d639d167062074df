"""Whether the records of a batch that is not compressed fill it, by their lengths. Pure.

Every such batch pays for it, so that each record costs as little as it can: 0.04 us, a tenth of that where
neighbours are equally long. The first and the last record are looked at as a whole.
"""

import struct
from itertools import repeat
from typing import Final

from wire.batch import HEADER_SIZE, LOG_OVERHEAD, BatchHeader, Buffer
from wire.record_walk import BODY_BYTES_MIN, check_record, malformed
from wire.varint import read_varint

_HEAD: Final = struct.Struct("6B")
"""Bytes in front of a record's value, or of its key, whose lengths are of two bytes."""
_LONG: Final = 0x80
"""A byte of a varint from here on has others behind it."""
WALKED_HERE_MAX: Final = 50_000
"""Uncompressed records of one batch that an event loop goes along: 2 ms, and 20 ms where lengths are written
with more bytes than they need. Of more, each is looked at in the scanning process."""
_FAR: Final = 1 << 62
"""Behind every batch: where a step leads that a byte does not tell."""


def _steps(byte: int) -> tuple[int, ...]:
    """How far the next record is, by a record's second byte, if the first byte of its length is this."""
    if byte & 1 or byte < 2 * BODY_BYTES_MIN:
        return (_FAR,) * 256
    if byte < _LONG:
        return (1 + (byte >> 1),) * 256
    return tuple(2 + ((byte & 0x7F | more << 7) >> 1) if 0 < more < _LONG else _FAR for more in range(256))


_STEPS: Final = tuple(_steps(byte) for byte in range(256))
_BLOCK: Final = 256
"""Records between two looks whether neighbours are alike."""
_FEW: Final = 40
"""Records that are too few to ask whether they are alike."""
_RUN_FIRST: Final = 64
"""So many records that are alike otherwise have offset deltas of one byte."""
_RUN_GROWTH: Final = 16
"""After a run that was whole so many times as many records are compared at once, and not all that are left: a
batch of many short runs would have its square compared."""


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
    behind = data[1:]
    last = at = HEADER_SIZE
    left, run_max = count, _RUN_FIRST
    while left > _FEW:
        byte = data[at]
        step = _STEPS[byte][behind[at]]
        if at + step < end and data[at + step] == byte:
            asked = run = min(left, run_max, (end - at) // step)
            run -= _unlike(data[at : at + run * step : step], run)
            if byte >= _LONG:
                run -= _unlike(behind[at : at + run * step : step], run)
            at += run * step
            left -= run
            last = at - step
            if run == asked:
                run_max *= _RUN_GROWTH
                continue
            run_max = _RUN_FIRST
        some = min(left - 1, _BLOCK)
        at = _pass(data, behind, at, end, some)
        left -= some
    if left:
        last = _pass(data, behind, at, end, left - 1)
        at = _pass(data, behind, last, end, 1)
    if at != end:
        raise ValueError(f"{end - at} bytes follow the last record")
    return last


def _unlike(lengths: Buffer, count: int) -> int:
    """How many of so many bytes are left from the first on that is another than the one in front."""
    first = bytes(lengths[:1])
    return 0 if lengths == first * count else len(bytes(lengths).lstrip(first))


def _pass(data: Buffer, behind: Buffer, at: int, end: int, count: int) -> int:
    """Where the next `count` records end; `behind` is `data` from its second byte on. Raises: ValueError,
    IndexError."""
    steps = _STEPS
    start = at
    try:
        for _ in repeat(None, count):
            at += steps[data[at]][behind[at]]
    except IndexError:
        at = _FAR
    return at if at <= end else _pass_slowly(data, start, end, count)


def _pass_slowly(data: Buffer, at: int, end: int, count: int) -> int:
    """Passes records with lengths of any number of bytes."""
    for _ in range(count):
        size, at = read_varint(data, at)
        if size < BODY_BYTES_MIN:
            raise ValueError("a record's length is negative or too small")
        at += size
        if at > end:
            raise ValueError(f"a record ends {at - end} bytes behind the batch")
    return at

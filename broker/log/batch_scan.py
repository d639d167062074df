"""Walking the batches of a `.log` file: headers only, or every byte with its CRC-32C."""

import os
from collections.abc import Iterator
from typing import Final

from crc32c import crc32c

from wire.batch import BATCH_LENGTH_MIN, HEADER_SIZE, LOG_OVERHEAD, MAGIC_V2, BatchHeader, parse_header

_WINDOW_SMALL: Final = 4096
_WINDOW_LARGE: Final = 64 * 1024
_WINDOW_CRC: Final = 1024 * 1024
_CRC_FROM: Final = 21


def is_whole(header: BatchHeader, bytes_left: int) -> bool:
    """Whether the header is a batch's and its batch lies within the bytes that are left."""
    return (
        header.magic == MAGIC_V2
        and header.batch_length >= BATCH_LENGTH_MIN
        and header.batch_length <= bytes_left - LOG_OVERHEAD
        and header.base_offset >= 0
        and header.last_offset_delta >= 0
    )


def walk_headers(fd: int, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of the whole batches in `position`..`end`; stops at the first that is none.

    Reads ahead where batches are small and only headers where they are large.
    """
    window = b""
    window_at = position
    window_size = _WINDOW_SMALL
    while position + HEADER_SIZE <= end:
        at = position - window_at
        if at + HEADER_SIZE > len(window):
            window = os.pread(fd, window_size, position)
            window_at, at = position, 0
            if len(window) < HEADER_SIZE:
                return
        header = parse_header(window, at)
        if not is_whole(header, end - position):
            return
        yield position, header
        size_bytes = header.batch_length + LOG_OVERHEAD
        position += size_bytes
        window_size = _WINDOW_LARGE if size_bytes < _WINDOW_SMALL else HEADER_SIZE


def scan_valid(fd: int, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Like `walk_headers`, but reads every byte and also stops at the first wrong CRC-32C."""
    window = memoryview(b"")
    window_at = position
    while position + HEADER_SIZE <= end:
        at = position - window_at
        if at + HEADER_SIZE > len(window):
            window = memoryview(os.pread(fd, _WINDOW_CRC, position))
            window_at, at = position, 0
            if len(window) < HEADER_SIZE:
                return
        header = parse_header(window, at)
        if not is_whole(header, end - position):
            return
        size = header.size_bytes
        if at + size <= len(window):
            crc = crc32c(window[at + _CRC_FROM : at + size])
        else:
            crc = _crc_of_range(fd, position + _CRC_FROM, position + size)
        if crc != header.crc:
            return
        yield position, header
        position += size


def _crc_of_range(fd: int, start: int, end: int) -> int:
    crc = 0
    while start < end:
        chunk = os.pread(fd, min(_WINDOW_CRC, end - start), start)
        if not chunk:
            return -1
        crc = crc32c(chunk, crc)
        start += len(chunk)
    return crc

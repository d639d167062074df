"""Cutting a byte stream into frames: the 4-byte length prefix and its limits."""

import struct
from typing import Final, TypeAlias

from wire.faults import FrameTooLarge, MalformedFrame, NegativeFrameSize

Buffer: TypeAlias = bytes | memoryview

PREFIX_BYTES: Final = 4
_I32: Final = struct.Struct(">i").unpack_from


def frame_size(buffer: bytes | bytearray | memoryview, at: int, *, bytes_min: int, bytes_max: int) -> int:
    """The size of the frame whose length prefix starts at `at`, without the prefix itself (4 bytes).

    The caller makes sure that four bytes are there. `bytes_min` is the shortest header: 10 for requests
    (header v1 with null client id), 4 for responses.
    Raises: NegativeFrameSize, FrameTooLarge, or MalformedFrame for less than `bytes_min`.
    """
    (size,) = _I32(buffer, at)
    if bytes_min <= size <= bytes_max:
        return int(size)
    if size < 0:
        raise NegativeFrameSize(f"a frame of {size} bytes")
    if size > bytes_max:
        raise FrameTooLarge(f"a frame of {size} bytes, at most {bytes_max} are allowed")
    raise MalformedFrame(f"a frame of {size} bytes cannot hold a header")

"""Zigzag varints as records use them: 1-10 bytes, small magnitudes first."""

from typing import Final

_BITS_MAX: Final = 64


def write_varint(out: bytearray, value: int) -> None:
    """Append `value`, within 64 signed bits."""
    encoded = (value << 1) ^ (value >> 63)
    while encoded > 0x7F:
        out.append(encoded & 0x7F | 0x80)
        encoded >>= 7
    out.append(encoded)


def read_varint(buffer: bytes | bytearray | memoryview, at: int) -> tuple[int, int]:
    """The value at `at` and the position behind it.

    Raises: IndexError when the buffer ends in it, ValueError when it is longer than 10 bytes.
    """
    encoded = 0
    for shift in range(0, _BITS_MAX + 6, 7):
        byte = buffer[at]
        at += 1
        encoded |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (encoded >> 1) ^ -(encoded & 1), at
    raise ValueError("a varint is longer than 10 bytes")

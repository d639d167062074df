"""Unsigned varints of at most 32 bits, as flexible versions use them for lengths, counts and tags."""

from typing import Any

from wire.faults import MalformedFrame


def read_uvarint(frame: Any, at: int) -> tuple[int, int]:
    """An unsigned varint and the offset behind it. Raises: MalformedFrame."""
    if at >= len(frame):
        raise MalformedFrame("a varint runs past the end")
    value = frame[at]
    if value < 0x80:
        return value, at + 1
    value &= 0x7F
    for shift in range(7, 35, 7):
        at += 1
        if at >= len(frame):
            raise MalformedFrame("a varint runs past the end")
        byte = frame[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at + 1
    raise MalformedFrame("a varint is longer than 5 bytes")


def pack_uvarint(value: int) -> bytes:
    """The shortest form of an unsigned varint."""
    assert 0 <= value < 1 << 35, value
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)

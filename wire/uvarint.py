"""Unsigned varints of at most 32 bits, as flexible versions use them for lengths, counts and tags."""

from typing import Any, Final

from wire.faults import MalformedFrame

_WIDTH_MAX: Final = 5
_SHORT_END: Final = 0x80
_SHORT: Final = tuple(bytes((value,)) for value in range(_SHORT_END))
"""The forms of one byte."""


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
    if value < _SHORT_END:
        return _SHORT[value]
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def padded_uvarint(value: int, width: int) -> bytes:
    """An unsigned varint of so many bytes: a longer form of the same number, where it needs fewer.

    Raises: MalformedFrame when there is no such form, which a right peer never asks for.
    """
    assert 0 <= value < 1 << (7 * width), (value, width)
    if width == 1:
        return _SHORT[value]
    if width == 2:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if width > _WIDTH_MAX:
        raise MalformedFrame("a varint is longer than 5 bytes")
    head = [(value >> shift) & 0x7F | 0x80 for shift in range(0, 7 * (width - 1), 7)]
    return bytes([*head, value >> (7 * (width - 1))])

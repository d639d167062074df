"""The LZ4 frames of message format v0, whose header checksum old clients computed wrongly (KAFKA-3160).

They hashed the frame's magic along with the descriptor. A right decompressor refuses such a frame, so the
checksum is put right first; Kafka ignores it in format v0, too.
"""

import struct
from typing import Final

FRAME_MAGIC: Final = b"\x04\x22\x4d\x18"
_DESCRIPTOR_AT: Final = 4
_CONTENT_SIZE_BIT: Final = 0x08
_MASK: Final = 0xFFFFFFFF
_PRIME_1: Final = 0x9E3779B1
_PRIME_2: Final = 0x85EBCA77
_PRIME_3: Final = 0xC2B2AE3D
_PRIME_4: Final = 0x27D4EB2F
_PRIME_5: Final = 0x165667B1


def xxh32_short(data: bytes) -> int:
    """XXH32 with seed 0 of less than 16 bytes, which frame descriptors are."""
    assert len(data) < 16
    value = (_PRIME_5 + len(data)) & _MASK
    words = len(data) // 4
    for (word,) in struct.iter_unpack("<I", data[: 4 * words]):
        value = _rotated((value + word * _PRIME_3) & _MASK, 17) * _PRIME_4 & _MASK
    for byte in data[4 * words :]:
        value = _rotated((value + byte * _PRIME_5) & _MASK, 11) * _PRIME_1 & _MASK
    value = (value ^ (value >> 15)) * _PRIME_2 & _MASK
    value = (value ^ (value >> 13)) * _PRIME_3 & _MASK
    return value ^ (value >> 16)


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & _MASK


def with_right_checksum(frame: bytes) -> bytes:
    """The frame with the checksum its descriptor should have. What is no frame is left as it is."""
    if not frame.startswith(FRAME_MAGIC) or len(frame) < _DESCRIPTOR_AT + 3:
        return frame
    checksum_at = _DESCRIPTOR_AT + 2 + (8 if frame[_DESCRIPTOR_AT] & _CONTENT_SIZE_BIT else 0)
    if checksum_at >= len(frame):
        return frame
    checksum = xxh32_short(frame[_DESCRIPTOR_AT:checksum_at]) >> 8 & 0xFF
    return frame[:checksum_at] + bytes((checksum,)) + frame[checksum_at + 1 :]

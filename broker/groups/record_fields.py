"""Fields of the offsets topic's records, written and read: plain ones, and those of flexible versions."""

import struct
from collections.abc import Iterable
from typing import Final
from uuid import UUID

from wire.faults import MalformedFrame
from wire.uvarint import pack_uvarint, read_uvarint

_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")
STRING_BYTES_MAX: Final = 32_767
NO_TAGS: Final = b"\0"
"""The end of a flexible struct without tagged fields."""


class UnreadableRecord(Exception):  # noqa: N818 - a fact about stored bytes
    """A record of the offsets topic that no version we know describes."""


def pack_string(text: str) -> bytes:
    """A string of a version that is not flexible."""
    encoded = text.encode()
    assert len(encoded) <= STRING_BYTES_MAX, "a string too long for a record"
    return _I16.pack(len(encoded)) + encoded


def pack_nullable_string(text: str | None) -> bytes:
    """The same, or null."""
    return _I16.pack(-1) if text is None else pack_string(text)


def pack_bytes(data: bytes) -> bytes:
    """Bytes of a version that is not flexible."""
    return _I32.pack(len(data)) + data


def pack_compact_string(text: str | None) -> bytes:
    """A string of a flexible version, or null."""
    if text is None:
        return b"\0"
    encoded = text.encode()
    return pack_uvarint(len(encoded) + 1) + encoded


def pack_compact_array(entries: Iterable[bytes]) -> bytes:
    """An array of a flexible version."""
    packed = list(entries)
    return pack_uvarint(len(packed) + 1) + b"".join(packed)


class Reader:
    """Reads the fields of one key or value in order. Raises: UnreadableRecord past the end."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int) -> bytes:
        """So many bytes as they are."""
        start, end = self._at, self._at + size
        if size < 0 or end > len(self._data):
            raise UnreadableRecord(f"{size} bytes at {start} of {len(self._data)}")
        self._at = end
        return self._data[start:end]

    def i8(self) -> int:
        return int.from_bytes(self.take(1), signed=True)

    def i16(self) -> int:
        return int.from_bytes(self.take(2), signed=True)

    def i32(self) -> int:
        return int.from_bytes(self.take(4), signed=True)

    def i64(self) -> int:
        return int.from_bytes(self.take(8), signed=True)

    def uuid(self) -> UUID:
        return UUID(bytes=self.take(16))

    def _text(self, size: int) -> str:
        try:
            return self.take(size).decode()
        except UnicodeDecodeError as error:
            raise UnreadableRecord("a string is not UTF-8") from error

    def nullable_string(self) -> str | None:
        size = self.i16()
        return None if size == -1 else self._text(size)

    def string(self) -> str:
        return _not_null(self.nullable_string())

    def sized_bytes(self) -> bytes:
        return self.take(self.i32())

    def uvarint(self) -> int:
        try:
            value, self._at = read_uvarint(self._data, self._at)
        except MalformedFrame as error:
            raise UnreadableRecord(str(error)) from error
        return value

    def compact_nullable_string(self) -> str | None:
        size = self.uvarint()
        return None if size == 0 else self._text(size - 1)

    def compact_string(self) -> str:
        return _not_null(self.compact_nullable_string())

    def compact_count(self) -> int:
        """How many entries an array has."""
        count = self.uvarint() - 1
        if not 0 <= count <= len(self._data):
            raise UnreadableRecord(f"an array of {count} entries")
        return count

    def tags(self) -> dict[int, bytes]:
        """The tagged fields at the end of a flexible struct."""
        return {self.uvarint(): self.take(self.uvarint()) for _ in range(self.uvarint())}


def _not_null(text: str | None) -> str:
    if text is None:
        raise UnreadableRecord("a null string")
    return text

"""The `.timeindex`: from timestamp to offset. Pure: bytes in, bytes out.

Entries of 12 bytes {timestamp i64, relative offset i32}: the largest timestamp so far and the last offset
of the batch that holds it. Timestamps strictly increase.
Source: Kafka TimeIndex.
"""

import struct
from bisect import bisect_right
from typing import Final

_ENTRY: Final = struct.Struct(">qi")
ENTRY_SIZE: Final = _ENTRY.size


class TimeIndex:
    """Entries of one segment, kept as the file's bytes."""

    __slots__ = ("_data", "base_offset")

    def __init__(self, base_offset: int, data: bytes = b"") -> None:
        """`data` is a file's content; a tail of zeros (preallocation) is dropped."""
        self.base_offset = base_offset
        self._data = bytearray(data[: len(data) - len(data) % ENTRY_SIZE])
        empty = bytes(ENTRY_SIZE)
        while self._data and self._data[-ENTRY_SIZE:] == empty:
            del self._data[-ENTRY_SIZE:]

    def __len__(self) -> int:
        return len(self._data) // ENTRY_SIZE

    def entry(self, number: int) -> tuple[int, int]:
        """(timestamp, offset) of entry `number`, from 0."""
        timestamp_ms, relative = _ENTRY.unpack_from(self._data, number * ENTRY_SIZE)
        return timestamp_ms, self.base_offset + relative

    @property
    def last(self) -> tuple[int, int]:
        """(timestamp, offset) of the last entry; (-1, base offset) without one."""
        return self.entry(len(self) - 1) if self._data else (-1, self.base_offset)

    def maybe_append(self, timestamp_ms: int, offset: int) -> None:
        """Add an entry unless the last one is as late already."""
        last_timestamp_ms, last_offset = self.last
        if timestamp_ms > last_timestamp_ms:
            assert offset >= last_offset, "time index offsets must not fall"
            self._data += _ENTRY.pack(timestamp_ms, offset - self.base_offset)

    def lookup(self, timestamp_ms: int) -> int:
        """An offset before which every timestamp is below `timestamp_ms`, the best the index knows."""
        at = bisect_right(range(len(self)), timestamp_ms, key=lambda number: self.entry(number)[0])
        return self.entry(at - 1)[1] if at else self.base_offset

    def is_sound(self) -> bool:
        """Whether timestamps increase and offsets do not fall."""
        before_ms, before_offset = -1, self.base_offset
        for timestamp_ms, relative in _ENTRY.iter_unpack(self._data):
            if timestamp_ms <= before_ms or self.base_offset + relative < before_offset:
                return False
            before_ms, before_offset = timestamp_ms, self.base_offset + relative
        return True

    def truncate(self, offset: int) -> None:
        """Drop the entries of `offset` and later."""
        while self._data and self.last[1] >= offset:
            del self._data[-ENTRY_SIZE:]

    def to_bytes(self, first_entry: int = 0) -> bytes:
        """The file's bytes from `first_entry` on."""
        return bytes(self._data[first_entry * ENTRY_SIZE :])

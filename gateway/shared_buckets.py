"""Buckets that all workers of a machine charge: one file, one number for each instance, no locks.

A bucket is the time at which it is full (`traffic/mutation_rate.py`), eight bytes that are written at once.
Two workers that charge the same one within a microsecond cost it one of the charges, nothing else; nobody
ever waits for another. A bucket that is full stands nowhere, so entries become free by themselves: an entry
is `key 16 bytes | full at, i64 us`, in the window that the key's first bytes choose.
"""

import struct
from pathlib import Path
from typing import Final

from gateway.shared_file import KEY_BYTES, WINDOW_ENTRIES, find_entry, key_of, mapped, window_of

_HEADER_BYTES: Final = 64
"""Which run of the machine the times are of: its clock began anew with it."""
_ENTRY_BYTES: Final = 24
_WINDOWS: Final = 256
_WINDOW_BYTES: Final = WINDOW_ENTRIES * _ENTRY_BYTES
_FILE_BYTES: Final = _HEADER_BYTES + _WINDOWS * _WINDOW_BYTES
_TIME: Final = struct.Struct("=q")


class SharedBuckets:
    """Buckets by name. Times are us of a clock all workers share, which `boot_id` names."""

    def __init__(self, path: Path | None, boot_id: str) -> None:
        self._memory = mapped(path, _FILE_BYTES)
        header = boot_id.encode()[:_HEADER_BYTES].ljust(_HEADER_BYTES, b"\0")
        if self._memory[:_HEADER_BYTES] != header:
            self._memory[:] = header + bytes(_FILE_BYTES - _HEADER_BYTES)

    def full_at_us(self, name: str) -> int:
        """When the bucket is full; 0: it has been for long."""
        key, window_at = _place(name)
        at = find_entry(self._memory, key, window_at, _ENTRY_BYTES)
        return 0 if at is None else self._full_at_us(at)

    def set(self, name: str, full_at_us: int) -> None:
        """Charge a bucket, or give back. Where 32 that are not full share a window, the one that will be
        first makes room."""
        key, window_at = _place(name)
        at = find_entry(self._memory, key, window_at, _ENTRY_BYTES)
        if at is None:
            at = min(range(window_at, window_at + _WINDOW_BYTES, _ENTRY_BYTES), key=self._full_at_us)
            self._memory[at : at + KEY_BYTES] = key
        _TIME.pack_into(self._memory, at + KEY_BYTES, full_at_us)

    def _full_at_us(self, at: int) -> int:
        full_at_us: int = _TIME.unpack_from(self._memory, at + KEY_BYTES)[0]
        return full_at_us

    def close(self) -> None:
        """Unmap the file. What is owed stays in it."""
        self._memory.close()


def _place(name: str) -> tuple[bytes, int]:
    key = key_of(name)
    return key, _HEADER_BYTES + window_of(key, _WINDOWS) * _WINDOW_BYTES

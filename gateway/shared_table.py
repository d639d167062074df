"""Connection counts that all workers of a machine can read: one file, one region per worker, no locks.

A worker writes only its own region and reads all of them, so a worker that dies leaves nothing locked;
its region is cleared by its successor, which has the same number. A region is a table of entries
`key 16 bytes | connections u32 | second u32 | opened in that second u32 | unused u32`.
"""

import struct
from pathlib import Path
from typing import Final

from gateway.shared_file import KEY_BYTES, WINDOW_ENTRIES, find_entry, key_of, mapped, window_of

WORKERS_MAX: Final = 256
"""Their regions are holes in the file until a worker has that number."""
_HEADER_BYTES: Final = 4096
"""One byte per worker number, 1 while its region is in use: readers skip the others."""
_ENTRY_BYTES: Final = 32
_ENTRIES: Final = 32_768
_REGION_BYTES: Final = _ENTRIES * _ENTRY_BYTES
_WINDOW_BYTES: Final = WINDOW_ENTRIES * _ENTRY_BYTES
_FILE_BYTES: Final = _HEADER_BYTES + WORKERS_MAX * _REGION_BYTES
_COUNTS: Final = struct.Struct("=III")
_NO_KEY: Final = b"\0" * KEY_BYTES


def _window_at(key: bytes) -> int:
    return window_of(key, _ENTRIES // WINDOW_ENTRIES) * _WINDOW_BYTES


class SharedTable:
    """Counts by name: an instance, or instance and address. `second` is of a clock all workers share."""

    def __init__(self, path: Path | None, worker: int) -> None:
        assert 0 <= worker < WORKERS_MAX, worker
        self._worker = worker
        self._base = _HEADER_BYTES + worker * _REGION_BYTES
        self._entry_of: dict[str, int] = {}
        self._name_at: dict[int, str] = {}
        self._memory = mapped(path, _FILE_BYTES)
        self._memory[worker] = 1
        self._clear_own_region()

    def _clear_own_region(self) -> None:
        """A predecessor with this number is gone, and its connections with it."""
        empty = bytes(_REGION_BYTES)
        if self._memory[self._base : self._base + _REGION_BYTES] != empty:
            self._memory[self._base : self._base + _REGION_BYTES] = empty

    def total(self, name: str, second: int) -> tuple[int, int]:
        """(connections, connections opened in `second`) of a name over all workers."""
        key = key_of(name)
        window = _window_at(key)
        connections = opened = 0
        worker = self._memory.find(b"\1", 0, WORKERS_MAX)
        while worker >= 0:
            window_at = _HEADER_BYTES + worker * _REGION_BYTES + window
            at = find_entry(self._memory, key, window_at, _ENTRY_BYTES)
            if at is not None:
                count, of_second, in_second = _COUNTS.unpack_from(self._memory, at + KEY_BYTES)
                connections += count
                opened += in_second if of_second == second & 0xFFFFFFFF else 0
            worker = self._memory.find(b"\1", worker + 1, WORKERS_MAX)
        return connections, opened

    @property
    def workers(self) -> int:
        """How many workers of this machine run, this one among them."""
        return self._memory[:WORKERS_MAX].count(1)

    def opened(self, name: str, second: int) -> bool:
        """Count one more connection of a name. False when it could not be: then do not count its end."""
        at = self._own_entry(name)
        if at is None:
            return False
        count, of_second, in_second = _COUNTS.unpack_from(self._memory, at + KEY_BYTES)
        second &= 0xFFFFFFFF
        in_second = in_second + 1 if of_second == second else 1
        _COUNTS.pack_into(self._memory, at + KEY_BYTES, count + 1, second, in_second)
        return True

    def closed(self, name: str) -> None:
        """Count one connection less; the entry of a name without connections may be taken by another."""
        at = self._entry_of[name]
        count, second, in_second = _COUNTS.unpack_from(self._memory, at + KEY_BYTES)
        assert count > 0, name
        _COUNTS.pack_into(self._memory, at + KEY_BYTES, count - 1, second, in_second)

    def _own_entry(self, name: str) -> int | None:
        """The entry of a name, taken if need be. None when 32 live names share the window."""
        at = self._entry_of.get(name)
        if at is not None:
            return at
        key = key_of(name)
        window = self._base + _window_at(key)
        for at in range(window, window + _WINDOW_BYTES, _ENTRY_BYTES):
            if self._memory[at : at + KEY_BYTES] == _NO_KEY:
                break
            if _COUNTS.unpack_from(self._memory, at + KEY_BYTES)[0] == 0:
                del self._entry_of[self._name_at.pop(at)]
                break
        else:
            return None
        _COUNTS.pack_into(self._memory, at + KEY_BYTES, 0, 0, 0)
        self._memory[at : at + KEY_BYTES] = key
        self._entry_of[name] = at
        self._name_at[at] = name
        return at

    def close(self) -> None:
        """Clear this worker's counts and unmap the file."""
        self._clear_own_region()
        self._memory[self._worker] = 0
        self._memory.close()

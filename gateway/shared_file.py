"""A file that all workers of a machine map: tables of entries that are found by a name's key, without locks.

An entry begins with its key and may stand anywhere in the window that the key's first bytes choose, so that a
lookup is one search for 16 bytes in the window.
"""

import mmap
import os
from hashlib import blake2b
from pathlib import Path
from typing import Final

KEY_BYTES: Final = 16
WINDOW_ENTRIES: Final = 32


def key_of(name: str) -> bytes:
    """What stands for a name."""
    return blake2b(name.encode(), digest_size=KEY_BYTES).digest()


def window_of(key: bytes, windows: int) -> int:
    """In which of so many windows a key's entry stands."""
    return int.from_bytes(key[:4], "little") % windows


def find_entry(memory: mmap.mmap, key: bytes, window_at: int, entry_bytes: int) -> int | None:
    """Where in the window that begins there the key's entry is; None: it has none."""
    end = window_at + WINDOW_ENTRIES * entry_bytes
    at = memory.find(key, window_at, end)
    while at >= 0 and (at - window_at) % entry_bytes:
        at = memory.find(key, at + 1, end)
    return None if at < 0 else at


def mapped(path: Path | None, size_bytes: int) -> mmap.mmap:
    """The file, made where it is missing or short; None: memory of this process alone."""
    if path is None:
        return mmap.mmap(-1, size_bytes)
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if os.fstat(descriptor).st_size < size_bytes:
            os.ftruncate(descriptor, size_bytes)
        return mmap.mmap(descriptor, size_bytes)
    finally:
        os.close(descriptor)

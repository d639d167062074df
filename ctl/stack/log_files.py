"""Logs of children are bounded: `NAME.log` past a size becomes `NAME.log.1` and so on, the oldest goes.

A child keeps its file open for as long as it lives, ZooKeeper's JVM too, so the file is copied and cut, not
renamed. Lines written between the two are lost; a disk that has no room for the copy loses the old lines, not
the room.
"""

import contextlib
import os
import shutil
from pathlib import Path
from typing import Final

SIZE_BYTES_MAX: Final = 16 * 1024 * 1024
FILES_KEPT: Final = 5


def rotate(path: Path, size_bytes_max: int = SIZE_BYTES_MAX, files_kept: int = FILES_KEPT) -> bool:
    """Cut a log that has grown too large; whether it had. Its writers must append (O_APPEND)."""
    try:
        if path.stat().st_size <= size_bytes_max:
            return False
    except FileNotFoundError:
        return False
    for number in range(files_kept - 1, 0, -1):
        with contextlib.suppress(FileNotFoundError):
            _numbered(path, number).replace(_numbered(path, number + 1))
    first = _numbered(path, 1)
    try:
        shutil.copyfile(path, first)
    except OSError:
        first.unlink(missing_ok=True)
    os.truncate(path, 0)
    return True


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")

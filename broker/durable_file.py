"""Small files that are replaced atomically and are on the disk when the call returns."""

import os
from pathlib import Path


def replace_file(path: Path, content: bytes, temporary_name: str) -> None:
    """Replace `path`; a crash leaves the old content or the new. Raises: OSError."""
    temporary = path.parent / temporary_name
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_directory(path.parent)


def remove_file(path: Path) -> None:
    """Remove a file if it exists, durably. Raises: OSError."""
    path.unlink(missing_ok=True)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make renames and removals in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

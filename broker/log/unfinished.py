"""What a crash left half done in a partition's directory, finished or removed."""

import os
from pathlib import Path
from typing import Final

from broker.log.batch_scan import walk_headers
from broker.log.cleaned_segment import CLEANED_SUFFIX, SEGMENT_SUFFIXES, SWAP_SUFFIX
from broker.log.sealed_segments import SealedSegments
from broker.log.segment import LOG_SUFFIX, offset_file_name

DELETED_SUFFIX: Final = ".deleted"
_UNFINISHED: Final = (CLEANED_SUFFIX, DELETED_SUFFIX, SWAP_SUFFIX, ".tmp")


def finish(directory: Path) -> list[str]:
    """Remove what was only begun; put compacted segments in their place, in the order of offsets.

    Returns the names of what is there then. Raises: OSError.
    """
    names = [entry.name for entry in os.scandir(directory)]
    if not any(name.endswith(_UNFINISHED) for name in names):
        return names
    for name in names:
        if name.endswith((CLEANED_SUFFIX, DELETED_SUFFIX, ".tmp")):
            (directory / name).unlink()
    swapped = sorted(name for name in names if name.endswith(LOG_SUFFIX + SWAP_SUFFIX))
    for name in swapped:
        _finish_swap(directory, int(name.split(".", 1)[0]), names)
    for entry in list(os.scandir(directory)):
        if entry.name.endswith(SWAP_SUFFIX):  # indexes whose `.log` never got there
            Path(entry.path).unlink()
    return [entry.name for entry in os.scandir(directory)]


def _finish_swap(directory: Path, base_offset: int, names: list[str]) -> None:
    swap = directory / (offset_file_name(base_offset, LOG_SUFFIX) + SWAP_SUFFIX)
    end = max(_next_offset(swap, base_offset), base_offset + 1)
    sealed = SealedSegments.load(directory)
    sealed.forget([base for base in sealed.sizes if base_offset <= base < end])
    for old_base in _log_offsets(names):
        if base_offset <= old_base < end:
            for suffix in reversed(SEGMENT_SUFFIXES):
                (directory / offset_file_name(old_base, suffix)).unlink(missing_ok=True)
    for suffix in SEGMENT_SUFFIXES:
        path = directory / offset_file_name(base_offset, suffix)
        from_path = path.with_name(path.name + SWAP_SUFFIX)
        if from_path.exists():
            from_path.rename(path)


def _log_offsets(names: list[str]) -> list[int]:
    stems = [name.removesuffix(LOG_SUFFIX) for name in names if name.endswith(LOG_SUFFIX)]
    return [int(stem) for stem in stems if stem.isascii() and stem.isdigit()]


def _next_offset(path: Path, base_offset: int) -> int:
    next_offset = base_offset
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        for _, header in walk_headers(fd, 0, os.fstat(fd).st_size):
            next_offset = header.next_offset
    finally:
        os.close(fd)
    return next_offset

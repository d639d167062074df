"""How large the closed segments of a log are: what a start compares the files with.

Kept in a file of the log's directory, which always says less rather than something wrong: a segment is taken
out before its files change, and comes in once they are final. No file, or one that cannot be read, means that
nothing is known.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from broker.log.checkpoint_text import CheckpointCorrupt, format_sizes, parse_sizes
from broker.log.files import replace_file, write_atomically

SEALED_SEGMENTS: Final = "sealed-segments"


class SealedSegments:
    """`sizes`: base offset -> bytes of the `.log` file."""

    __slots__ = ("_is_dirty", "_path", "sizes")

    def __init__(self, directory: Path, sizes: dict[int, int] | None = None) -> None:
        self._path = directory / SEALED_SEGMENTS
        self.sizes = {} if sizes is None else sizes
        self._is_dirty = False
        """Whether the file lacks some."""

    @classmethod
    def load(cls, directory: Path) -> "SealedSegments":
        """Raises: OSError."""
        try:
            return cls(directory, parse_sizes((directory / SEALED_SEGMENTS).read_text()))
        except (FileNotFoundError, CheckpointCorrupt, UnicodeDecodeError):
            return cls(directory)

    def add(self, base_offset: int, size_bytes: int) -> None:
        """A segment was closed. The file hears of it with the next flush."""
        self.sizes[base_offset] = size_bytes
        self._is_dirty = True

    def forget(self, base_offsets: Iterable[int]) -> None:
        """Before these segments' files change or go. Nothing keeps them from going: on a full disk the file
        goes as well."""
        known = [base for base in base_offsets if base in self.sizes]
        if not known:
            return
        for base in known:
            del self.sizes[base]
        try:
            replace_file(self._path, format_sizes(self.sizes).encode())
        except OSError:
            self._is_dirty = True
            with suppress(FileNotFoundError):
                self._path.with_name(self._path.name + ".tmp").unlink()
            self._path.unlink(missing_ok=True)

    def forget_outside(self, start: int, end: int) -> None:
        """Forget segments that begin in front of `start`, at `end`, or behind it."""
        self.forget([base for base in self.sizes if not start <= base < end])

    def take_write(self) -> Callable[[], None] | None:
        """Writes the file durably, where it lacks some; for a thread."""
        if not self._is_dirty:
            return None
        self._is_dirty = False
        return partial(write_atomically, self._path, format_sizes(self.sizes).encode())

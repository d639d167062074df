"""A follower's specs on the disk: all of them as they once were, and every answer that was taken since.

A change costs a line of its own size, however many instances there are. When the lines have grown to the
size of the rest, everything is written anew. Calls block: make them on a thread, one at a time.
"""

import os
import secrets
from pathlib import Path
from typing import Final

import msgspec

from contracts.specs import FeedResponse
from runtime.logs import get_logger
from runtime.process import write_json
from runtime.spec_book import OutOfStepError, SavedBook, SpecBook

_log = get_logger(__name__)
_VERSION: Final = 1
_CHANGES_BYTES_MIN: Final = 1_000_000
"""Below this the lines are not worth writing everything anew."""


class Taken(msgspec.Struct, frozen=True):
    """A line: an answer of the feed, when it was taken (epoch), and what it was taken on top of."""

    written: str
    at_ms: int
    answer: FeedResponse


class SpecFile:
    """`path` holds a book; `path` with `.changes` behind it, the answers that it has taken since."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._changes_path = path.with_name(path.name + ".changes")
        self._written = ""
        """The name of the book in `path`; empty: none that lines can be added to."""
        self._book_bytes = self._changes_bytes = 0

    def load(self) -> SpecBook | None:
        """The book as it was last; None when there is none that can be read."""
        if not self.path.exists():
            return None
        try:
            saved = msgspec.json.decode(self.path.read_bytes(), type=SavedBook)
            changes = self._changes_path.read_bytes() if self._changes_path.exists() else b""
        except (OSError, msgspec.MsgspecError) as error:
            _log.warning("the cached specs cannot be read, waiting for the control plane", error=str(error))
            return None
        if saved.version != _VERSION:
            return None
        book = SpecBook()
        book.restore(saved)
        for line in changes.splitlines():
            if not _take(book, saved.written, line):
                break  # a torn end, or lines of another book: the next change writes everything anew
        return book

    def add(self, taken: Taken) -> bool:
        """Keep one more answer; False: there is nothing to add it to, or too much. Raises: OSError."""
        if not self._written or self._changes_bytes > max(_CHANGES_BYTES_MIN, self._book_bytes):
            return False
        written, self._written = self._written, ""  # after half a line, nothing can be added
        line = msgspec.json.encode(msgspec.structs.replace(taken, written=written)) + b"\n"
        with self._changes_path.open("ab") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        self._written = written
        self._changes_bytes += len(line)
        return True

    def write(self, book: SavedBook) -> None:
        """Write everything. Raises: OSError, and what was there is still there or all is."""
        self._written = ""
        name = secrets.token_hex(8)
        write_json(self.path, msgspec.structs.replace(book, written=name))
        self._changes_path.unlink(missing_ok=True)
        self._written, self._book_bytes, self._changes_bytes = name, self.path.stat().st_size, 0


def _take(book: SpecBook, written: str, line: bytes) -> bool:
    try:
        taken = msgspec.json.decode(line, type=Taken)
        if taken.written != written:
            return False
        book.take(taken.answer, taken.at_ms)
    except (msgspec.MsgspecError, OutOfStepError):
        return False
    return True

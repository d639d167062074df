"""One compaction on its way: from the task to segments that wait to take the place of others.

`run` belongs on a thread. What it leaves are `.swap` files: from the moment a `.log.swap` is on the disk, a
start after a crash puts it in its place. They appear in the order of offsets, for a tombstone must not go
before what it deletes.
"""

import threading
from collections.abc import Callable
from pathlib import Path

from broker.log.cleaned_segment import CLEANED_SUFFIX, SEGMENT_SUFFIXES, SWAP_SUFFIX, remove_cleaned
from broker.log.cleaning import CleaningResult, CleaningStopped, CleaningTask, LogDamaged, clean
from broker.log.files import sync_directory
from broker.log.segment import offset_file_name

Cleaner = Callable[[CleaningTask, Callable[[], bool]], CleaningResult]


class CleaningJob:
    """Made by `begin_cleaning`, to be handed to `complete_cleaning`."""

    def __init__(self, task: CleaningTask) -> None:
        self.task = task
        self.result: CleaningResult | None = None
        self.error: OSError | LogDamaged | None = None
        self.is_cancelled = False
        self._lock = threading.Lock()

    def run(self, cleaner: Cleaner = clean) -> None:
        """Never raises for what the disk or the log's bytes do: `error` says it."""
        try:
            result = cleaner(self.task, lambda: self.is_cancelled)
            with self._lock:
                if self.is_cancelled:
                    self._remove(result)
                    return
                try:
                    self._swap(result)
                except OSError:
                    self._remove(result)
                    raise
                self.result = result
        except CleaningStopped:
            return
        except (LogDamaged, OSError) as error:
            self.error = error

    def cancel(self) -> None:
        """The log has changed where this compaction works: nothing of it may be taken over."""
        self.is_cancelled = True
        with self._lock:
            if self.result is not None:
                self._remove(self.result)
                self.result = None

    @property
    def _directory(self) -> Path:
        return Path(self.task.directory)

    def _swap(self, result: CleaningResult) -> None:
        for group in result.groups:
            for suffix in SEGMENT_SUFFIXES:
                path = self._directory / offset_file_name(group.replaced[0], suffix)
                cleaned = path.with_name(path.name + CLEANED_SUFFIX)
                if cleaned.exists():
                    cleaned.rename(path.with_name(path.name + SWAP_SUFFIX))
            sync_directory(self._directory)

    def _remove(self, result: CleaningResult) -> None:
        """The last group first: what a crash in between leaves is compacted from the start on."""
        for group in reversed(result.groups):
            for suffix in reversed(SEGMENT_SUFFIXES):
                name = offset_file_name(group.replaced[0], suffix) + SWAP_SUFFIX
                (self._directory / name).unlink(missing_ok=True)
            remove_cleaned(self._directory, group.replaced[0])

"""The leader epochs of one log, and the checkpoint file that keeps them."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from broker.log.checkpoint_text import format_epochs
from broker.log.epoch_cache import EpochCache
from broker.log.files import replace_file, write_atomically

EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"


class LeaderEpochs:
    """`cache` says which epoch began where; who changes it here has the file follow with the next flush."""

    __slots__ = ("_directory", "cache", "is_dirty")

    def __init__(self, directory: Path, cache: EpochCache, *, are_kept: bool) -> None:
        """`are_kept`: the file says what the cache does."""
        self._directory = directory
        self.cache: Final = cache
        self.is_dirty = not are_kept
        """Whether the file lacks something."""

    def assign(self, epoch: int, start_offset: int) -> bool:
        """`epoch` starts here; whether that was news."""
        is_news = self.cache.assign(epoch, start_offset)
        self.is_dirty |= is_news
        return is_news

    def begin_at(self, log_start_offset: int) -> None:
        """Forget what ended below."""
        self.is_dirty |= self.cache.truncate_start(log_start_offset)

    def forget_from(self, offset: int) -> bool:
        """Forget epochs that start at `offset` or later; whether there were any. Raises: OSError."""
        if not self.cache.truncate_end(offset):
            return False
        # Not synced: recovery reads the epochs of what was not flushed from the batches.
        replace_file(self._path, self._content())
        self.is_dirty = True
        return True

    def take_write(self) -> Callable[[], None] | None:
        """Writes the file durably, where it lacks something; for a thread."""
        if not self.is_dirty:
            return None
        self.is_dirty = False
        return partial(write_atomically, self._path, self._content())

    @property
    def _path(self) -> Path:
        return self._directory / EPOCH_CHECKPOINT

    def _content(self) -> bytes:
        return format_epochs(self.cache.entries).encode()

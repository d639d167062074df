"""The log directories of a broker: which serve, which have failed."""

import errno
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from broker.storage.log_directory import LogDirectory

_FAILURES: Final = frozenset(
    {
        errno.EIO,
        errno.EROFS,
        errno.ENXIO,
        errno.ENODEV,
        errno.ESTALE,
        errno.EUCLEAN,
        errno.EREMOTEIO,
        errno.ESHUTDOWN,
        errno.ENOTCONN,
    }
)
"""What no other try would change before someone has looked at the disk."""
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class LogDirectories:
    """Those that serve, in the order they were given; `offline` says why the others do not."""

    def __init__(
        self, paths: Sequence[Path], *, cluster_id: str, node_id: int, full_is_failure: bool
    ) -> None:
        """Raises: LogDirectoryUnusable; OSError when none can be opened."""
        self.offline: dict[Path, str] = {}
        self._full_is_failure = full_is_failure
        self._serving: dict[Path, LogDirectory] = {}
        last: OSError | None = None
        try:
            for path in paths:
                try:
                    self._serving[path] = LogDirectory(path, cluster_id=cluster_id, node_id=node_id)
                except OSError as error:
                    last = error
                    self.offline[path] = str(error)
            if not self._serving and last is not None:
                raise last
        except BaseException:
            self.unlock()
            raise

    def __iter__(self) -> Iterator[LogDirectory]:
        return iter(list(self._serving.values()))

    def __len__(self) -> int:
        return len(self._serving)

    @property
    def paths(self) -> list[Path]:
        return list(self._serving)

    def get(self, path: Path) -> LogDirectory | None:
        """None for one that is offline."""
        return self._serving.get(path)

    def emptiest(self, in_use: Iterable[Path]) -> LogDirectory | None:
        """The one with the fewest logs, of whose directories `in_use` tells; None when none serves."""
        if len(self._serving) <= 1:
            return next(iter(self._serving.values()), None)
        counts = dict.fromkeys(self._serving, 0)
        for path in in_use:
            counts[path] += 1
        return self._serving[min(counts, key=lambda path: counts[path])]

    def is_failure(self, error: OSError) -> bool:
        """Whether an error says that the disk, not a file, is gone. A full disk is no failure where nobody
        could take over: there may be room again."""
        return error.errno in _FAILURES or (self._full_is_failure and error.errno in _FULL)

    def fail(self, path: Path, reason: str) -> bool:
        """Take it offline until a restart; False when it is."""
        directory = self._serving.pop(path, None)
        if directory is None:
            return False
        directory.unlock()
        self.offline[path] = reason
        return True

    def unlock(self) -> None:
        for directory in self._serving.values():
            directory.unlock()

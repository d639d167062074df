"""What a log tells whoever has it, and asks."""

from typing import Generic, Protocol, TypeVar

Log_contra = TypeVar("Log_contra", contravariant=True)
Log_co = TypeVar("Log_co", covariant=True)


class LogOwner(Protocol[Log_contra]):
    """The manager, as a log sees it."""

    def log_dirty(self, log: Log_contra) -> None:
        """There is something to flush that there was not before."""

    def log_shrinks(self, log: Log_contra) -> None:
        """Make checkpoints on the disk true of what a truncation will leave. Raises: OSError."""

    def small_segments_max(self, log: Log_contra) -> int:
        """How many segments below `SMALL_SEGMENT_BYTES` the log may have before it rolls by size alone."""

    def log_refused(self, log: Log_contra, error: OSError) -> None:
        """The disk did not do what the log wanted."""

    def log_damaged(self, log: Log_contra) -> None:
        """A read has found damage that was not known."""


class OwnedLog(Generic[Log_co]):
    """An owner for the log's parts, which know neither of them."""

    __slots__ = ("_log", "_owner")

    def __init__(self, log: Log_co, owner: LogOwner[Log_co]) -> None:
        self._log = log
        self._owner = owner

    def dirty(self) -> None:
        self._owner.log_dirty(self._log)

    def shrinks(self) -> None:
        self._owner.log_shrinks(self._log)

    def small_segments_max(self) -> int:
        return self._owner.small_segments_max(self._log)

    def refused(self, error: OSError) -> None:
        self._owner.log_refused(self._log, error)

    def damaged(self) -> None:
        self._owner.log_damaged(self._log)

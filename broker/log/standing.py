"""Whether a log can be used, and what becomes of an error of its disk."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from broker.log.errors import StorageFailed
from broker.log.log_owner import OwnedLog


class LogStanding:
    """The owner hears of every error, for it may be the whole directory's."""

    __slots__ = ("_owned", "failure", "name")

    def __init__(self, name: str, owned: OwnedLog[object]) -> None:
        self.name: Final = name
        self._owned = owned
        self.failure: str | None = None
        """Why nothing is appended any more: data that was thought written may be gone. A restart recovers."""

    def check_usable(self) -> None:
        """Raises: StorageFailed."""
        if self.failure is not None:
            raise StorageFailed(f"{self.name}: {self.failure}")

    def refused(self, error: OSError) -> StorageFailed:
        """What to raise from `error`."""
        self._owned.refused(error)
        return StorageFailed(f"{self.name}: {error.strerror or error}")

    @contextmanager
    def guarded(self, half_way: str = "") -> Iterator[None]:
        """Turns OSError into StorageFailed. With `half_way`, the name of what cannot be undone, it also ends
        the use of the log."""
        try:
            yield
        except OSError as error:
            if half_way:
                self.failure = f"{half_way} failed half way: {error.strerror or error}"
            raise self.refused(error) from error

"""A circuit breaker: after a failure a server is left alone for a while that doubles. Pure."""

from typing import Final

FIRST_MS: Final = 250
"""After the first failure."""
LAST_MS: Final = 10_000
"""The longest pause."""


class Circuit:
    """Closed while the server answers. Times are monotonic ms."""

    def __init__(self, *, first_ms: int = FIRST_MS, last_ms: int = LAST_MS) -> None:
        self._first_ms = first_ms
        self._last_ms = last_ms
        self._pause_ms = 0
        self._open_until_ms = 0
        self.cause: str | None = None
        """Why it is open; None: it is closed."""

    @property
    def is_closed(self) -> bool:
        """Whether the server may be asked by anybody."""
        return self.cause is None

    def is_due(self, now_ms: int) -> bool:
        """Whether an open circuit's pause is over: one may try."""
        return self.cause is not None and now_ms >= self._open_until_ms

    def failed(self, cause: str, now_ms: int) -> bool:
        """Open it, or begin the next pause. Failures of calls that began before it opened count once.

        Whether this call opened it.
        """
        if self.cause is not None and now_ms < self._open_until_ms:
            return False
        opened = self.cause is None
        self._pause_ms = min(self._last_ms, max(self._first_ms, 2 * self._pause_ms))
        self._open_until_ms = now_ms + self._pause_ms
        self.cause = cause
        return opened

    def succeeded(self) -> bool:
        """Close it. Whether it was open."""
        was_open = self.cause is not None
        self.cause, self._pause_ms = None, 0
        return was_open

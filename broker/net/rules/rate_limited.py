"""Log lines that a peer can cause are bounded: per event at most a few in a window, the rest are counted."""

from typing import Any, Final, Protocol

_WINDOW_MS: Final = 10_000
_LINES_PER_WINDOW: Final = 5


class Logger(Protocol):
    """What is needed of a logger."""

    def warning(self, event: str, **values: Any) -> Any:
        """Write a line."""


class RateLimitedLog:
    """Warnings about peers. `now_ms` is monotonic."""

    def __init__(self, logger: Logger) -> None:
        self._logger = logger
        self._windows: dict[str, tuple[int, int]] = {}
        """Event -> (start of its window, lines asked for in it)."""

    def warning(self, event: str, now_ms: int, **values: Any) -> bool:
        """Write the line unless the event had its share; whether it was written."""
        start_ms, asked = self._windows.get(event, (now_ms, 0))
        if now_ms - start_ms >= _WINDOW_MS:
            if asked > _LINES_PER_WINDOW:
                values["suppressed"] = asked - _LINES_PER_WINDOW
            start_ms, asked = now_ms, 0
        self._windows[event] = (start_ms, asked + 1)
        if asked >= _LINES_PER_WINDOW:
            return False
        self._logger.warning(event, **values)
        return True

"""Ctrl-C and SIGTERM while a fault is on: it is neither half done nor left undone."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def heard_at_pauses() -> Iterator[Callable[[float], None]]:
    """Yields what waits for some seconds; there and at the end of the block a signal that came meanwhile
    raises KeyboardInterrupt, and nowhere else in the block."""
    came = False

    def _on_signal(*_: Any) -> None:
        nonlocal came
        came = True

    def _pause(seconds: float) -> None:
        time.sleep(seconds)
        if came:
            raise KeyboardInterrupt

    before = {each: signal.signal(each, _on_signal) for each in _SIGNALS}
    try:
        yield _pause
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    if came:
        raise KeyboardInterrupt

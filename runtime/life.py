"""A process that hangs ends itself, where no supervisor watches it: in a container (docs/kubernetes.md).

`PORTICO_HANG_TIMEOUT_MS` turns it on. The end is faulthandler's: its thread needs neither our loops nor the
interpreter's lock, and writes where every thread stood to stderr before the process exits with code 1.
"""

import faulthandler
from collections.abc import Callable, Mapping
from typing import Final

from runtime.config import environment

VARIABLE: Final = "PORTICO_HANG_TIMEOUT_MS"


class Life:
    """The signs of life of all event loops of this process."""

    def __init__(self, timeout_ms: int, end_in: Callable[[float], None], spare: Callable[[], None]) -> None:
        """`end_in` ends the process after so many seconds unless it is called again, or `spare` is.
        `timeout_ms` 0: never."""
        self._timeout_ms = timeout_ms
        self._end_in = end_in
        self._spare = spare
        self._beats: dict[str, int] = {}
        self._serves = False

    def serving(self) -> None:
        """From now on it is watched: before, a broker may read its logs for minutes."""
        self._serves = True

    def beat(self, loop_name: str, now_ms: int) -> None:
        """A loop goes on. One of several that is silent lets the process end all the same."""
        self._beats[loop_name] = now_ms
        if not self._serves or self._timeout_ms == 0:
            return
        if all(now_ms - beat_ms < self._timeout_ms for beat_ms in tuple(self._beats.values())):
            self._end_in(self._timeout_ms / 1000)

    def ended(self, loop_name: str) -> None:
        """A loop has ended in good order; the last one lets the interpreter take its time."""
        self._beats.pop(loop_name, None)
        if not self._beats and self._timeout_ms:
            self._spare()


def timeout_ms(variables: Mapping[str, str]) -> int:
    """What the environment says. Raises: SystemExit when that is not a number."""
    text = variables.get(VARIABLE, "0")
    if not text.isascii() or not text.isdigit():
        raise SystemExit(f"{VARIABLE} is '{text}', must be a number of milliseconds; 0: never")
    return int(text)


def _end_in(seconds: float) -> None:
    faulthandler.dump_traceback_later(seconds, exit=True)


LIFE: Final = Life(timeout_ms(environment()), _end_in, faulthandler.cancel_dump_traceback_later)
"""This process's."""

"""Which child hangs: it served, and its loop has told nothing since.

Counted in looks of the supervisor, not in time: while the machine stands still nobody looks.
"""

import asyncio
import contextlib
import os
import secrets
import socket
from collections.abc import Callable

LOOK_S = 1.0
"""How long the supervisor waits between two looks."""

_READ_AT_ONCE_MAX = 64


class Liveness:
    """Signs of life of one process."""

    __slots__ = ("_looks_max", "_silent")

    def __init__(self, looks_max: int) -> None:
        """`looks_max` 0: nobody is ever said to hang."""
        self._silent: dict[str, int] = {"main": 0}
        """Looks since each of its loops was heard."""
        self._looks_max = looks_max

    def beat(self, loop_name: str = "main") -> None:
        """A sign of life."""
        self._silent[loop_name] = 0

    def look(self, *, is_serving: bool) -> bool:
        """Whether the process hangs. One that does not serve yet may read its logs as long as it takes."""
        for name, looks in self._silent.items():
            self._silent[name] = looks + 1 if is_serving else 0
        return bool(self._looks_max) and max(self._silent.values()) > self._looks_max


class NotifySocket:
    """What a child's `runtime.notify.Notifier` sends to, under a name that no file has."""

    def __init__(self) -> None:
        self.address = f"@portico-{os.getpid()}-{secrets.token_hex(8)}"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._socket.bind("\0" + self.address[1:])

    def listen(self, heard: Callable[[str], None]) -> None:
        """Call `heard` for every sign of life, with the loop that gave it; on the running loop."""

        def readable() -> None:
            with contextlib.suppress(BlockingIOError):
                for _ in range(_READ_AT_ONCE_MAX):
                    words = dict(line.partition("=")[::2] for line in self._read().splitlines())
                    if words.get("WATCHDOG") == "1":
                        heard(words.get("X_PORTICO_LOOP", "main"))

        asyncio.get_running_loop().add_reader(self._socket, readable)

    def _read(self) -> str:
        return self._socket.recv(512).decode(errors="replace")

    def close(self) -> None:
        """Nobody listens any more."""
        asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()

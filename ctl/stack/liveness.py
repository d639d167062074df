"""Which child hangs: it served, and its loop has told nothing since.

Counted in looks of the supervisor, not in time: while the machine stands still nobody looks.
"""

import asyncio
import os
import secrets
import socket
from collections.abc import Callable

LOOK_S = 1.0
"""How long the supervisor waits between two looks."""


class Liveness:
    """Of one process."""

    __slots__ = ("_looks", "_looks_max")

    def __init__(self, looks_max: int) -> None:
        """`looks_max` 0: nobody is ever said to hang."""
        self._looks = 0
        self._looks_max = looks_max

    def beat(self) -> None:
        """A sign of life."""
        self._looks = 0

    def look(self, *, is_serving: bool) -> bool:
        """Whether the process hangs. One that does not serve yet may read its logs as long as it takes."""
        self._looks = self._looks + 1 if is_serving else 0
        return bool(self._looks_max) and self._looks > self._looks_max


class NotifySocket:
    """What a child's `runtime.notify.Notifier` sends to, under a name that no file has."""

    def __init__(self) -> None:
        self.address = f"@portico-{os.getpid()}-{secrets.token_hex(8)}"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._socket.bind("\0" + self.address[1:])

    def listen(self, heard: Callable[[], None]) -> None:
        """Call `heard` for every sign of life, on the running loop."""

        def readable() -> None:
            try:
                while b"WATCHDOG=1" in self._socket.recv(512).split(b"\n"):
                    heard()
            except BlockingIOError:
                return

        asyncio.get_running_loop().add_reader(self._socket, readable)

    def close(self) -> None:
        """Nobody listens any more."""
        asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()

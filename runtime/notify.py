"""Tell whoever started this process how it is, in systemd's words (sd_notify(3)): READY=1, WATCHDOG=1.

The address is in NOTIFY_SOCKET: systemd's for the supervisor, the supervisor's for its children. A process
that nobody listens to tells nobody.
"""

import asyncio
import contextlib
import socket
from typing import Final

from runtime.clock import monotonic_ms
from runtime.config import environment
from runtime.life import LIFE

VARIABLE: Final = "NOTIFY_SOCKET"
BEAT_S: Final = 1.0


class Notifier:
    """Sends datagrams without waiting; one that does not arrive is followed by the next."""

    def __init__(self, address: str | None = None) -> None:
        """`address` None: the one of the environment, if there is one."""
        self._address = environment().get(VARIABLE) if address is None else address
        self._socket: socket.socket | None = None
        if self._address:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)

    def tell(self, *states: str) -> None:
        """For example `READY=1`."""
        if self._socket is None or not self._address:
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        with contextlib.suppress(OSError):  # who listens may be gone or busy, and will hear the next one
            self._socket.sendto("\n".join(states).encode(), address)

    async def beat(self, loop_name: str = "main") -> None:
        """A sign of life of the running loop once a second, for ever. Each loop of a process gives its own:
        while one of them is silent, the process hangs."""
        try:
            while True:
                self.tell("WATCHDOG=1", f"X_PORTICO_LOOP={loop_name}")
                LIFE.beat(loop_name, monotonic_ms())
                await asyncio.sleep(BEAT_S)
        finally:
            LIFE.ended(loop_name)

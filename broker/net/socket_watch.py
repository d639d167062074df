"""Which events of a socket the loop watches; asking twice costs nothing."""

import asyncio
import socket
from collections.abc import Callable


class SocketWatch:
    """One socket's reader and writer callbacks, on or off."""

    __slots__ = ("_loop", "_readable", "_socket", "_writable", "_writes", "reads")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        readable: Callable[[], None],
        writable: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._socket = sock
        self._readable = readable
        self._writable = writable
        self.reads = self._writes = False

    def start_reading(self) -> None:
        """Call back when there are bytes."""
        if not self.reads:
            self.reads = True
            self._loop.add_reader(self._socket, self._readable)

    def stop_reading(self) -> None:
        """Leave what comes in the kernel."""
        if self.reads:
            self.reads = False
            self._loop.remove_reader(self._socket)

    def start_writing(self) -> None:
        """Call back when there is room."""
        if not self._writes:
            self._writes = True
            self._loop.add_writer(self._socket, self._writable)

    def stop_writing(self) -> None:
        """Nothing is to be sent."""
        if self._writes:
            self._writes = False
            self._loop.remove_writer(self._socket)

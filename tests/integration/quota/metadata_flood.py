"""Connections that ask for all metadata again and again, and read every answer."""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_METADATA: Final = struct.pack(">hhih", 3, 3, 7, 1) + b"x" + struct.pack(">i", -1)
"""Version 3, for all topics; the answer begins with throttle_time_ms."""
_FRAME: Final = struct.pack(">i", len(_METADATA)) + _METADATA
_WINDOW: Final = 5


class MetadataFlood:
    """Connections to one instance, each with a few requests unanswered, as fast as they are served."""

    def __init__(self, bootstrap: str, connections: int) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.answers = 0
        self.throttle_ms_max = 0
        self._is_stopping = False
        self._sockets = [socket.create_connection((host, int(port)), 30) for _ in range(connections)]
        self._threads = [threading.Thread(target=self._run, args=(each,)) for each in self._sockets]
        for thread in self._threads:
            thread.start()

    def _run(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as answers:
            connection.sendall(_FRAME * _WINDOW)
            while not self._is_stopping:
                (size,) = struct.unpack(">i", answers.read(4))
                _, throttle_ms = struct.unpack(">ii", answers.read(size)[:8])
                self.throttle_ms_max = max(self.throttle_ms_max, throttle_ms)
                self.answers += 1
                connection.sendall(_FRAME)

    def stop(self) -> None:
        """Once each has had one more answer."""
        self._is_stopping = True
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive(), "a connection was left without an answer"


@contextmanager
def metadata_flood(bootstrap: str, connections: int) -> Iterator[MetadataFlood]:
    """A flood while the block runs."""
    flood = MetadataFlood(bootstrap, connections)
    try:
        yield flood
    finally:
        flood.stop()

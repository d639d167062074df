"""The bare relay that the gateway is measured against: the same sockets, no Kafka.

One asyncio loop, raw non-blocking sockets, `recv_into` one shared 1 MiB buffer, send at once; what the
peer does not take is kept and reading stops until it is gone.
"""

import asyncio
import socket
import sys
from typing import Final

import uvloop

_BUFFER: Final = memoryview(bytearray(1024 * 1024))


class Pipe:
    """One direction of a relayed connection."""

    def __init__(self, loop: asyncio.AbstractEventLoop, source: socket.socket, sink: socket.socket) -> None:
        self._loop, self._source, self._sink = loop, source, sink
        self._rest = memoryview(b"")
        loop.add_reader(source, self._pump)

    def _pump(self) -> None:
        try:
            size = self._source.recv_into(_BUFFER)
            sent = self._sink.send(_BUFFER[:size]) if size else 0
        except BlockingIOError:
            sent = 0
        except OSError:
            size = 0
        if size == 0:
            self._end()
        elif sent < size:
            self._rest = memoryview(bytes(_BUFFER[sent:size]))
            self._loop.remove_reader(self._source)
            self._loop.add_writer(self._sink, self._drain)

    def _drain(self) -> None:
        try:
            self._rest = self._rest[self._sink.send(self._rest) :]
        except BlockingIOError:
            return
        except OSError:
            self._end()
            return
        if not self._rest:
            self._loop.remove_writer(self._sink)
            self._loop.add_reader(self._source, self._pump)

    def _end(self) -> None:
        for end in (self._source, self._sink):
            if end.fileno() >= 0:
                self._loop.remove_reader(end)
                self._loop.remove_writer(end)
                end.close()


async def relay(listen_port: int, target_port: int) -> None:
    """Relay every connection of one loopback port to another."""
    loop = asyncio.get_running_loop()
    listener = socket.create_server(("127.0.0.1", listen_port), backlog=1024)
    listener.setblocking(False)
    while True:
        client, _address = await loop.sock_accept(listener)
        upstream = socket.socket()
        for end in (client, upstream):
            end.setblocking(False)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await loop.sock_connect(upstream, ("127.0.0.1", target_port))
        Pipe(loop, client, upstream)
        Pipe(loop, upstream, client)


if __name__ == "__main__":
    uvloop.run(relay(int(sys.argv[1]), int(sys.argv[2])))

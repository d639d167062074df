"""A proxy before each broker, to part two of them from each other while everybody else reaches both.

Brokers are told apart by what they say when they log in.
"""

import asyncio
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

_LOGIN: Final = re.compile(rb"broker/(\d+)/")
_LOGIN_PIECES_MAX: Final = 4
_LOOK_AGAIN_S: Final = 0.02


class _Connection:
    """From one peer to one broker, both ways."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.source: int | None = None
        """The broker that connects; None for clients."""
        self.writers: list[asyncio.StreamWriter] = []

    @property
    def pair(self) -> frozenset[int | None]:
        return frozenset((self.source, self.target))


class Network:
    """Runs on a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._parted: frozenset[int | None] | None = None
        self._is_silent = True
        self._connections: set[_Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def front(self, broker_id: int, port: int) -> int:
        """Listen in front of a broker's port; the port to advertise."""

        async def listen() -> int:
            server = await asyncio.start_server(
                lambda reader, writer: self._accept(broker_id, port, reader, writer), "127.0.0.1", 0
            )
            return int(server.sockets[0].getsockname()[1])

        return asyncio.run_coroutine_threadsafe(listen(), self._loop).result(5)

    @contextmanager
    def parted(self, one: int, other: int, *, silently: bool) -> Iterator[None]:
        """What one sends to the other gets lost (it is late, rather), or their connections break."""
        self._is_silent = silently
        self._parted = frozenset((one, other))
        self._loop.call_soon_threadsafe(self._break_parted)
        try:
            yield
        finally:
            self._parted = None

    def close(self) -> None:
        """End everything."""

        async def end() -> None:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(5)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)

    def _break_parted(self) -> None:
        if not self._is_silent:
            for connection in self._connections:
                if connection.pair == self._parted:
                    self._abort(connection)

    def _abort(self, connection: _Connection) -> None:
        for writer in connection.writers:
            writer.transport.abort()

    async def _accept(
        self, target: int, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        connection = _Connection(target)
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.transport.abort()
            return
        connection.writers = [writer, up_writer]
        self._connections.add(connection)
        for source, sink in ((reader, up_writer), (up_reader, writer)):
            task = asyncio.ensure_future(self._pump(connection, source, sink))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(
        self, connection: _Connection, source: asyncio.StreamReader, sink: asyncio.StreamWriter
    ) -> None:
        unread = _LOGIN_PIECES_MAX if sink is connection.writers[1] else 0
        with suppress(OSError):
            while data := await source.read(256 * 1024):
                if unread > 0 and (found := _LOGIN.search(data)):
                    connection.source = int(found[1])
                unread -= 1
                while connection.pair == self._parted:
                    if not self._is_silent:
                        self._abort(connection)
                        break
                    await asyncio.sleep(_LOOK_AGAIN_S)
                sink.write(data)
                await sink.drain()
        self._abort(connection)
        self._connections.discard(connection)

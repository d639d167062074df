"""A relay before a store that is not ours to stop: the way there is cut, and mended."""

import asyncio
import contextlib
import threading
from typing import Final, Self

_PIECE_BYTES: Final = 65_536
_CLOSE_S: Final = 5.0


class Relay:
    """Passes connections of a loopback port on to a server, on a thread of its own."""

    def __init__(self, host: str, port: int) -> None:
        self._target = host, port
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._server: asyncio.Server | None = None
        self._ends: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="relay")

    def __enter__(self) -> Self:
        self._thread.start()
        self.mend()
        return self

    def __exit__(self, *_error: object) -> None:
        self.cut()
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(_CLOSE_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CLOSE_S)

    def mend(self) -> None:
        """Accept connections, on the same port as before."""
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(_CLOSE_S)

    def cut(self) -> None:
        """Break every connection and accept none until it is mended."""
        asyncio.run_coroutine_threadsafe(self._refuse(), self._loop).result(_CLOSE_S)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = int(self._server.sockets[0].getsockname()[1])

    async def _refuse(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for end in self._ends:
            end.transport.abort()

    async def _end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            up_reader, up_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        for source, sink in ((reader, up_writer), (up_reader, writer)):
            self._ends.add(sink)
            task = asyncio.create_task(self._pump(source, sink))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(_PIECE_BYTES):
                sink.write(data)
                await sink.drain()
        self._ends.discard(sink)
        sink.transport.abort()

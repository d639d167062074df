"""A TCP proxy between a tree and its ZooKeeper, to cut, hold and spoil what passes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from ctl.stack.layout import free_port


class Proxy:
    """Forwards to one server. `hold()` lets connections live while nothing passes."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._flows = asyncio.Event()
        self._flows.set()
        self.port = free_port()

    async def start(self) -> None:
        """Listen, on the same port as before after a `refuse`."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)

    def cut(self) -> None:
        """Break every connection; new ones are welcome."""
        for writer in self._writers:
            writer.transport.abort()

    def refuse(self) -> None:
        """Break every connection and accept none until `start`."""
        assert self._server is not None
        self._server.close()
        self.cut()

    def hold(self) -> None:
        """From now on nothing passes."""
        self._flows.clear()

    def release(self) -> None:
        """What was held passes."""
        self._flows.set()

    def send_to_client(self, data: bytes) -> None:
        """Something the server never said."""
        for writer in self._writers:
            if writer.get_extra_info("sockname")[1] == self.port:
                writer.write(data)

    async def aclose(self) -> None:
        """End everything."""
        self.refuse()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
        except OSError:
            writer.transport.abort()
            return
        for source, sink in ((reader, up_writer), (up_reader, writer)):
            self._writers.add(sink)
            task = asyncio.create_task(self._pump(source, sink))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await source.read(65536):
                await self._flows.wait()
                sink.write(data)
                await sink.drain()
        self._writers.discard(sink)
        sink.transport.abort()


@asynccontextmanager
async def proxied(target_port: int) -> AsyncIterator[Proxy]:
    """A proxy that ends with the block."""
    proxy = Proxy(target_port)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.aclose()

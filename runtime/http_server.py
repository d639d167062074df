"""An HTTP server in a process that has other work beside it."""

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

import uvicorn

GRACE_S: Final = 1


class HttpServer(uvicorn.Server):
    """A server that leaves signals to the process."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the process's."""
        yield


def http_server(app: Any, address: tuple[str, int]) -> HttpServer:
    """A server of an ASGI application, not yet serving."""
    config = uvicorn.Config(
        app,
        host=address[0],
        port=address[1],
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_S,
        proxy_headers=False,
    )
    return HttpServer(config)


async def until_serving(servers: Sequence[HttpServer], tasks: Sequence[asyncio.Task[None]]) -> None:
    """Wait until all serve. Raises: SystemExit when the task of one has ended."""
    while not all(server.started for server in servers):
        if any(task.done() for task in tasks):
            raise SystemExit("a server did not start: is its address taken?")
        await asyncio.sleep(0.01)


async def stop_serving(servers: Sequence[HttpServer], tasks: Sequence[asyncio.Task[None]]) -> None:
    """Stop all; requests under way have a second."""
    for server in servers:
        server.should_exit = True
    await asyncio.wait(tasks, timeout=GRACE_S + 1)

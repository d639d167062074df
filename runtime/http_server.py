"""An HTTP server in a process that has other work beside it, bounded against whoever reaches its port."""

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final, cast

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from runtime.http_limits import Door, HttpLimits
from runtime.http_protocol import BoundedProtocol

GRACE_S: Final = 1


class HttpServer(uvicorn.Server):
    """A server that leaves signals to the process."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the process's."""
        yield


class RequestLimit:
    """ASGI middleware: so many requests under way, and 503 to those beyond."""

    def __init__(self, app: ASGIApp, requests_max: int) -> None:
        self._app = app
        self._requests_max = requests_max
        self._under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Count requests; lifespan events always pass."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if self._under_way >= self._requests_max:
            await _refuse(send)
            return
        self._under_way += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._under_way -= 1


async def _refuse(send: Send) -> None:
    body = b'{"title":"Unavailable","status":503,"detail":"too many requests are under way here"}'
    headers = [
        (b"content-type", b"application/problem+json"),
        (b"retry-after", b"2"),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def http_server(app: ASGIApp, address: tuple[str, int], limits: HttpLimits) -> HttpServer:
    """A server of an ASGI application, not yet serving."""
    protocol = partial(BoundedProtocol, limits, Door(limits))
    config = uvicorn.Config(
        RequestLimit(app, limits.requests_max),
        host=address[0],
        port=address[1],
        http=cast(Any, protocol),
        h11_max_incomplete_event_size=limits.head_bytes_max,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="error",  # malformed requests are counted, not logged: strangers fill no disk
        access_log=False,
        server_header=False,
        timeout_keep_alive=limits.keep_alive_s,
        timeout_graceful_shutdown=GRACE_S,
        proxy_headers=bool(limits.proxies),
        forwarded_allow_ips=list(limits.proxies),
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

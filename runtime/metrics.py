"""`/metrics` of a process without an HTTP server of its own: behind the deployment's secret, few threads.

`/readyz` beside it asks for no secret and tells none: 200, or 503 and why the process does not serve yet.
"""

import hmac
import socket
import threading
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import prometheus_client

THREADS_MAX: Final = 4
"""Scrapes at once. Who scrapes comes alone, or with a spare; beyond it connections are closed unheard."""
REQUEST_TIMEOUT_S: Final = 10.0
"""For a whole scrape with its answer."""
READY_PATH: Final = "/readyz"
Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
Unready = Callable[[], str | None]
"""Why a process does not serve yet; None: it does."""


def _ready() -> str | None:
    return None


def serve(host: str, port: int, secret: str | None, unready: Unready = _ready) -> int:
    """Serve Prometheus metrics from a thread; returns the bound port (`port` 0 takes any).

    `secret` is asked for as bearer token; None: there is no secret in this deployment. `unready` is called in
    that thread.
    """
    app = prometheus_client.make_wsgi_app()
    guarded = app if secret is None else _behind(secret, app)
    kind = _FewThreads6 if ":" in host else _FewThreads
    server = make_server(host, port, _beside_ready(unready, guarded), kind, _Quiet)
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    return int(server.server_port)


def _behind(secret: str, app: Wsgi) -> Wsgi:
    expected = f"Bearer {secret}".encode()

    def guarded(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        given = str(environ.get("HTTP_AUTHORIZATION", "")).encode("latin-1", "replace")
        if hmac.compare_digest(given, expected):
            return app(environ, start_response)
        status = f"{HTTPStatus.UNAUTHORIZED:d} {HTTPStatus.UNAUTHORIZED.phrase}"
        start_response(status, [("WWW-Authenticate", "Bearer"), ("Content-Type", "text/plain")])
        return [b"the deployment's secret is missing or wrong\n"]

    return guarded


def _beside_ready(unready: Unready, app: Wsgi) -> Wsgi:
    def routed(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ.get("PATH_INFO") != READY_PATH:
            return app(environ, start_response)
        reason = unready()
        status = HTTPStatus.OK if reason is None else HTTPStatus.SERVICE_UNAVAILABLE
        start_response(f"{status:d} {status.phrase}", [("Content-Type", "text/plain; charset=utf-8")])
        return [f"{reason or 'ready'}\n".encode()]

    return routed


class _Quiet(WSGIRequestHandler):
    timeout = REQUEST_TIMEOUT_S

    def log_message(self, format: str, *args: Any) -> None:
        """Scrapes are not logged."""


class _FewThreads(WSGIServer):
    """A thread per request, but a few at most: whoever comes, the process keeps its memory and its files."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._turns = threading.BoundedSemaphore(THREADS_MAX)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread, if one is left."""
        if not self._turns.acquire(blocking=False):
            self.shutdown_request(request)
            return
        threading.Thread(target=self._answer, args=(request, client_address), daemon=True).start()

    def _answer(self, request: Any, client_address: Any) -> None:
        late = threading.Timer(REQUEST_TIMEOUT_S, _cut, [request])
        late.daemon = True
        late.start()
        try:
            self.finish_request(request, client_address)
        except OSError:
            pass  # the peer went, or was cut
        finally:
            late.cancel()
            self.shutdown_request(request)
            self._turns.release()


class _FewThreads6(_FewThreads):
    address_family = socket.AF_INET6


def _cut(request: socket.socket) -> None:
    try:
        request.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # it is closed already

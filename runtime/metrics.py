"""`/metrics` of a process: on a port of its own, behind a token, few threads (docs/monitoring.md).

`/readyz` beside it asks for no secret and tells none: 200, or 503 and why the process does not serve yet.
"""

import errno
import hashlib
import hmac
import socket
import threading
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any, Final, NamedTuple
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import prometheus_client
from prometheus_client.registry import Collector

from runtime.config import format_host_port
from runtime.logs import get_logger

_log = get_logger(__name__)
PATH: Final = "/metrics"
THREADS_MAX: Final = 4
"""Scrapes at once. Who scrapes comes alone, or with a spare; beyond it connections are closed unheard."""
REQUEST_TIMEOUT_S: Final = 10.0
"""For a whole scrape with its answer."""
READY_PATH: Final = "/readyz"
_ALL_ADDRESSES: Final = ("0.0.0.0", "::")
Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
Unready = Callable[[], str | None]
"""Why a process does not serve yet; None: it does."""


def _ready() -> str | None:
    return None


class Endpoint(NamedTuple):
    """Where a process is scraped."""

    port: int
    url: str
    """The address that others call: a process that listens on all addresses is called by its host's name."""


def scrape_token(secret: str) -> str:
    """What who scrapes proves itself with. Made of the deployment's secret, which it does not tell: a
    Prometheus need not be able to read records."""
    return hmac.new(secret.encode(), b"metrics", hashlib.sha256).hexdigest()


def serve(
    host: str,
    port: int,
    secret: str | None,
    unready: Unready = _ready,
    *,
    collectors: Iterable[Collector] = (),
) -> Endpoint:
    """Serve Prometheus metrics from a thread; returns where (`port` 0 takes any).

    The scrape token of `secret`, or the secret, is asked for as bearer token; None: there is no secret in
    this deployment. Where another program holds the port, any other is taken: a process serves its clients
    without being watched, too. `unready` is called in that thread. `collectors` are told beside those of the
    process.
    """
    registry = prometheus_client.CollectorRegistry()
    for collector in (*collectors, prometheus_client.REGISTRY):
        registry.register(collector)
    app = prometheus_client.make_wsgi_app(registry)
    guarded = app if secret is None else _behind(secret, app)
    kind = _FewThreads6 if ":" in host else _FewThreads
    app = _beside_ready(unready, guarded)
    try:
        server = make_server(host, port, app, kind, _Quiet)
    except OSError as error:
        if error.errno != errno.EADDRINUSE or port == 0:
            raise
        server = make_server(host, 0, app, kind, _Quiet)
        _log.warning("the metrics port is taken, another is used", taken=port, used=server.server_port)
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    shown = socket.gethostname() if host in _ALL_ADDRESSES else host
    bound = int(server.server_port)
    return Endpoint(bound, f"http://{format_host_port(shown, bound)}{PATH}")


def facts(endpoint: Endpoint | None) -> dict[str, Any]:
    """What a process's run file says of where it is scraped."""
    port, url = endpoint or (None, None)
    return {"metrics_port": port, "metrics": url}


def _behind(secret: str, app: Wsgi) -> Wsgi:
    expected = [f"Bearer {each}".encode() for each in (scrape_token(secret), secret)]

    def guarded(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        given = str(environ.get("HTTP_AUTHORIZATION", "")).encode("latin-1", "replace")
        if any(hmac.compare_digest(given, each) for each in expected):
            return app(environ, start_response)
        status = f"{HTTPStatus.UNAUTHORIZED:d} {HTTPStatus.UNAUTHORIZED.phrase}"
        start_response(status, [("WWW-Authenticate", "Bearer"), ("Content-Type", "text/plain")])
        return [b"the token of metrics is missing or wrong: `portico metrics --token` prints it\n"]

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

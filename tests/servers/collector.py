"""A collector of traces: OTLP over HTTP, decoded with OpenTelemetry's own messages."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Collector:
    """What was posted: (service, span) pairs, and the headers of the last post."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.spans: list[tuple[str, Any]] = []
        self.headers: dict[str, str] = {}

    def take(self, body: bytes) -> None:
        for of_resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            service = attributes(of_resource.resource)["service.name"]
            for scope in of_resource.scope_spans:
                self.spans += [(service, span) for span in scope.spans]

    def named(self, service: str, **wanted: Any) -> list[Any]:
        """Spans of a service with these attributes, `__` for a dot."""
        pairs = {name.replace("__", "."): value for name, value in wanted.items()}
        return [
            span
            for kind, span in tuple(self.spans)
            if kind == service and pairs.items() <= attributes(span).items()
        ]

    def until(self, found: Callable[[], Any], within_s: float = 60.0) -> Any:
        """Wait for what makes `found` true."""
        deadline = time.monotonic() + within_s
        while not (seen := found()):
            assert time.monotonic() < deadline, sorted({(kind, span.name) for kind, span in self.spans})
            time.sleep(0.05)
        return seen


def attributes(holder: Any) -> dict[str, Any]:
    """Of a span or a resource."""
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in holder.attributes}


@contextmanager
def running_collector() -> Iterator[Collector]:
    """One on a port of its own."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            collector.headers = dict(self.headers)
            collector.take(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    collector = Collector(f"http://127.0.0.1:{server.server_port}")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()

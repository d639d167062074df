"""A collector that is gone, slow or hostile costs dropped spans and nothing else."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from ctl.stack.layout import free_port
from runtime.trace_settings import TraceSettings
from runtime.tracing import ATTRIBUTE_CHARACTERS_MAX, Tracing
from tests.servers.collector import attributes, running_collector


def _tracing(url: str, **settings: object) -> Tracing:
    fields: dict[str, object] = {"endpoint": f"{url}/v1/traces", "timeout_s": 0.5, "queue_spans": 512}
    return Tracing(TraceSettings(**(fields | settings)), "test", "test-1")  # type: ignore[arg-type]


def _counted(tracing: Tracing) -> dict[str, float]:
    return {family.name: family.samples[0].value for family in tracing.collector.collect()}


@contextmanager
def _answering(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that answers each connection with what it likes."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                try:
                    connection.recv(65536)
                    answer(connection)
                except OSError:
                    continue  # the other end had enough

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.close()


def _say(head: str, body: bytes = b"") -> Callable[[socket.socket], None]:
    return lambda connection: connection.sendall(
        f"HTTP/1.1 {head}\r\nConnection: close\r\n\r\n".encode() + body
    )


def _endless(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        connection.sendall(bytes(65536))


def _silent(connection: socket.socket) -> None:
    while connection.recv(65536):  # until the other end gives up: what is left unread would reset it
        pass


_REJECTED = ExportTraceServiceResponse()
_REJECTED.partial_success.rejected_spans = 10**9
_REJECTED.partial_success.error_message = "no " * 10_000


@pytest.mark.parametrize(
    "answer",
    [
        _say("503 Service Unavailable"),
        _say("307 Elsewhere\r\nLocation: http://127.0.0.1:1/"),
        _say("200 OK\r\nContent-Type: application/x-protobuf", _REJECTED.SerializeToString()),
        _say("200 OK\r\nContent-Type: application/x-protobuf", b"\xff" * 50),
        _say("nonsense"),
        _endless,
        _silent,
    ],
    ids=["503", "redirect", "rejects", "garbage", "not http", "endless", "silent"],
)
def test_spans_are_dropped_and_counted(answer: Callable[[socket.socket], None]) -> None:
    with _answering(answer) as url:
        tracing = _tracing(url)
        for _ in range(5):
            tracing.tracer.start_span("one").end()
        tracing.provider.force_flush()
        assert _counted(tracing) == {"portico_spans_exported": 0, "portico_spans_dropped": 5}
        tracing.close()


def test_a_collector_that_is_gone_fills_a_queue_that_has_an_end() -> None:
    tracing = _tracing(f"http://127.0.0.1:{free_port()}")
    for _ in range(5_000):
        tracing.tracer.start_span("one").end()
    tracing.provider.force_flush()
    assert _counted(tracing) == {"portico_spans_exported": 0, "portico_spans_dropped": 5_000}
    tracing.close()


def test_a_silent_collector_holds_up_nobody_who_ends_spans_nor_the_end_of_the_process() -> None:
    with _answering(_silent) as url:
        tracing = _tracing(url, timeout_s=600.0)
        for _ in range(3_000):
            tracing.tracer.start_span("one").end()
        assert _counted(tracing)["portico_spans_dropped"] == 3_000 - 512
        tracing.close()


def test_spans_arrive_with_what_they_are_of_and_bounded_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=shop,service.name=mine")
    with running_collector() as collector:
        tracing = _tracing(collector.url)
        tracing.tracer.start_span("one", attributes={"client": "x" * 100_000}).end()
        tracing.provider.force_flush()
        ((service, span),) = collector.spans
        assert service == "mine" and len(attributes(span)["client"]) == ATTRIBUTE_CHARACTERS_MAX
        assert _counted(tracing) == {"portico_spans_exported": 1, "portico_spans_dropped": 0}
        tracing.close()

"""Spans of sampled requests in a gateway. Imported only where traces are on (ADR 33).

    request             SERVER    a frame is here .. its answer has left; event `mapped`
      upstream          CLIENT    it went up .. its reply begins to come; the broker's span is a child of it

What a client sends never becomes a parent: clients of Kafka have no place for one, and nothing is looked for.
"""

import struct
from typing import TYPE_CHECKING, Final

from opentelemetry.trace import Span, SpanKind, Status, StatusCode, set_span_in_context

from contracts.tracing import TRACE_KEY, TraceContext, encode
from gateway.apis import APIS
from gateway.causes import DisconnectCause
from gateway.messaging_attributes import operation_of, request_attributes, values_of
from runtime.trace_sampling import RequestSampling
from wire.framing import Buffer

if TYPE_CHECKING:
    from gateway.connection import Connection
    from runtime.tracing import Tracing

_FRAME_HEAD: Final = struct.Struct(">ihhih")
_FRAME_HEAD_BYTES: Final = _FRAME_HEAD.size - 4
_NO_CLIENT_ID: Final = -1
_REQUEST_HEAD: Final = struct.Struct(">ihh")


class RequestTrace:
    """The spans of one request, from its first bytes to its answer or the end of its connection."""

    __slots__ = ("_conn", "_span", "_traces", "_upstream")

    def __init__(self, traces: "GatewayTraces", conn: "Connection", span: Span) -> None:
        self._traces = traces
        self._conn = conn
        self._span = span
        self._upstream: Span | None = None

    def decoded(self, request: object) -> None:
        """The request was decoded: what it names."""
        if self._traces.messaging:
            self._span.set_attributes(values_of(request))

    def forwarded(self, out: list[Buffer]) -> None:
        """The request follows in `out`: where the broker takes it, whose child it is goes up before."""
        self._span.add_event("mapped")
        self._upstream = self._traces.upstream(self._conn, self._span)
        if self._conn.takes_traces:
            out.append(_frame(self._upstream))

    def replied(self) -> None:
        """The broker's reply begins to come, or is here."""
        if self._upstream is not None and self._upstream.is_recording():
            self._upstream.end()

    def answered(self) -> None:
        """The answer was passed on, or there is none."""
        self.replied()
        self._span.end()
        self._traces.ended(self._conn, self)

    def cut(self, cause: DisconnectCause) -> None:
        """The connection ends before."""
        self._span.set_attribute("error.type", str(cause))
        self._span.set_status(Status(StatusCode.ERROR))
        self.replied()
        self._span.end()


class GatewayTraces:
    """Decides which requests of a worker are traced, and knows those that are under way."""

    def __init__(self, tracing: "Tracing", worker_name: str) -> None:
        settings = tracing.settings
        self.messaging = settings.messaging
        self._tracer = tracing.tracer
        self._worker_name = worker_name
        self._sampling = RequestSampling(settings.ratio, settings.per_second)
        self._under_way: dict[Connection, set[RequestTrace]] = {}

    def begin(self, conn: "Connection", frame: memoryview) -> RequestTrace | None:
        """A request begins: `frame` is what is here of it, its head at least. None: it is not traced."""
        instance_id = conn.served.instance_id
        if not self._sampling.takes(instance_id, conn.worker.now_ms):
            return None
        size, api_key, api_version = _REQUEST_HEAD.unpack_from(frame)
        api = APIS[api_key].key.name.lower()
        attributes: dict[str, str | int] = {
            "client.address": conn.address,
            "portico.gateway": self._worker_name,
            "portico.instance.id": instance_id,
            "portico.tenant": conn.served.spec.tenant,
            "portico.kafka.api": api,
            "portico.kafka.api_version": api_version,
            "portico.request.size": size,
        }
        name = api
        if self.messaging:
            name = operation_of(api_key) or api
            attributes |= request_attributes(frame)
        trace = RequestTrace(self, conn, self._tracer.start_span(name, None, SpanKind.SERVER, attributes))
        self._under_way.setdefault(conn, set()).add(trace)
        return trace

    def upstream(self, conn: "Connection", parent: Span) -> Span:
        """The request goes up."""
        address = conn.worker.broker_address(conn.served.spec.cluster_id, conn.listener.node_id)
        attributes: dict[str, str | int] = {}
        if address is not None and conn.listener.node_id is not None:
            attributes = {"server.address": address[0], "server.port": address[1]}
        return self._tracer.start_span("upstream", set_span_in_context(parent), SpanKind.CLIENT, attributes)

    def ended(self, conn: "Connection", trace: RequestTrace) -> None:
        """One was answered."""
        under_way = self._under_way[conn]
        under_way.discard(trace)
        if not under_way:
            del self._under_way[conn]
        self._sampling.ended(conn.served.instance_id)

    def connection_ended(self, conn: "Connection", cause: DisconnectCause) -> None:
        """All that were under way on it have ended."""
        for trace in self._under_way.pop(conn, ()):
            trace.cut(cause)
            self._sampling.ended(conn.served.instance_id)


def _frame(span: Span) -> bytes:
    context = span.get_span_context()
    body = encode(TraceContext(trace_id=context.trace_id.to_bytes(16), span_id=context.span_id.to_bytes(8)))
    return _FRAME_HEAD.pack(_FRAME_HEAD_BYTES + len(body), TRACE_KEY, 0, 0, _NO_CLIENT_ID) + body

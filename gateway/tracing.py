"""Spans of sampled requests in a gateway. Imported only where traces are on (ADR 33).

    request             SERVER    a frame is here .. its answer has left; event `mapped`
      upstream          CLIENT    it went up .. its reply begins to come; the broker's span is a child of it

What a client sends never becomes a parent: clients of Kafka have no place for one, and nothing is looked for.
"""

import struct
from typing import Final

from opentelemetry.trace import Span, SpanKind, Status, StatusCode, set_span_in_context

from contracts.tracing import TRACE_KEY, TraceContext, encode
from gateway.apis import APIS
from gateway.causes import DisconnectCause
from gateway.rules.messaging_attributes import operation_of, request_attributes, values_of
from gateway.traced import TracedConnection
from runtime.clock import monotonic_ms
from runtime.trace_sampling import RequestSampling
from runtime.tracing import Tracing
from wire.framing import Buffer

_FRAME_HEAD: Final = struct.Struct(">ihhih")
_FRAME_HEAD_BYTES: Final = _FRAME_HEAD.size - 4
_NO_CLIENT_ID: Final = -1
_REQUEST_HEAD: Final = struct.Struct(">ihh")


class RequestTrace:
    """The spans of one request, from its first bytes to its answer or the end of its connection."""

    __slots__ = ("_of", "_span", "_traces", "_upstream")

    def __init__(self, traces: "GatewayTraces", of: "ConnectionTraces", span: Span) -> None:
        self._traces = traces
        self._of = of
        self._span = span
        self._upstream: Span | None = None

    def decoded(self, request: object) -> None:
        """The request was decoded: what it names."""
        if self._traces.messaging:
            self._span.set_attributes(values_of(request))

    def forwarded(self, up: list[Buffer], *, takes_traces: bool) -> None:
        """The request follows in `up`: where the broker takes it, whose child it is goes up before."""
        self._span.add_event("mapped")
        self._upstream = self._traces.upstream(self._of.connection, self._span)
        if takes_traces:
            up.append(_frame(self._upstream))

    def replied(self) -> None:
        """The broker's reply begins to come, or is here."""
        if self._upstream is not None and self._upstream.is_recording():
            self._upstream.end()

    def answered(self) -> None:
        """The answer was passed on, or there is none."""
        self.replied()
        self._span.end()
        self._of.ended(self)

    def cut(self, cause: DisconnectCause) -> None:
        """The connection ends before."""
        self._span.set_attribute("error.type", str(cause))
        self._span.set_status(Status(StatusCode.ERROR))
        self.replied()
        self._span.end()


class ConnectionTraces:
    """Traces of one connection that are under way."""

    __slots__ = ("_traces", "_under_way", "connection")

    def __init__(self, traces: "GatewayTraces", connection: TracedConnection) -> None:
        self._traces = traces
        self._under_way: set[RequestTrace] = set()
        self.connection = connection

    def begin(self, frame: memoryview) -> RequestTrace | None:
        """A request begins: `frame` is what is here of it, its head at least. None: it is not traced."""
        span = self._traces.sampled(self.connection, frame)
        if span is None:
            return None
        trace = RequestTrace(self._traces, self, span)
        self._under_way.add(trace)
        return trace

    def ended(self, trace: RequestTrace) -> None:
        """One was answered."""
        self._under_way.discard(trace)
        self._traces.ended(self.connection)

    def cut(self, cause: DisconnectCause) -> None:
        """The connection has ended, and with it all that were under way."""
        for trace in self._under_way:
            trace.cut(cause)
            self._traces.ended(self.connection)
        self._under_way.clear()


class GatewayTraces:
    """Decides which requests of a worker are traced."""

    def __init__(self, tracing: Tracing, worker_name: str) -> None:
        settings = tracing.settings
        self.messaging = settings.messaging
        self._tracer = tracing.tracer
        self._worker_name = worker_name
        self._sampling = RequestSampling(settings.ratio, settings.per_second)

    def of(self, connection: TracedConnection) -> ConnectionTraces:
        """Traces of a connection that begins."""
        return ConnectionTraces(self, connection)

    def sampled(self, connection: TracedConnection, frame: memoryview) -> Span | None:
        """The span of a request that begins; None: it is not traced."""
        if not self._sampling.takes(connection.instance_id, monotonic_ms()):
            return None
        size, api_key, api_version = _REQUEST_HEAD.unpack_from(frame)
        api = APIS[api_key].key.name.lower()
        attributes: dict[str, str | int] = {
            "client.address": connection.address,
            "portico.gateway": self._worker_name,
            "portico.instance.id": connection.instance_id,
            "portico.tenant": connection.tenant,
            "portico.kafka.api": api,
            "portico.kafka.api_version": api_version,
            "portico.request.size": size,
        }
        name = api
        if self.messaging:
            name = operation_of(api_key) or api
            attributes |= request_attributes(frame)
        return self._tracer.start_span(name, None, SpanKind.SERVER, attributes)

    def upstream(self, connection: TracedConnection, parent: Span) -> Span:
        """The request goes up."""
        address = connection.upstream_address()
        attributes: dict[str, str | int] = {}
        if address is not None:
            attributes = {"server.address": address[0], "server.port": address[1]}
        return self._tracer.start_span("upstream", set_span_in_context(parent), SpanKind.CLIENT, attributes)

    def ended(self, connection: TracedConnection) -> None:
        """One of its requests is over."""
        self._sampling.ended(connection.instance_id)


def _frame(span: Span) -> bytes:
    context = span.get_span_context()
    body = encode(TraceContext(trace_id=context.trace_id.to_bytes(16), span_id=context.span_id.to_bytes(8)))
    return _FRAME_HEAD.pack(_FRAME_HEAD_BYTES + len(body), TRACE_KEY, 0, 0, _NO_CLIENT_ID) + body

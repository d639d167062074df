"""Spans of traced requests in a broker: children of the gateway's. Imported only where traces are on."""

from time import time_ns
from typing import TYPE_CHECKING, Final

from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from broker.requests.call import Call
from broker.requests.causes import CloseCause
from contracts.tracing import TraceContext
from wire.api_table import ApiKey

if TYPE_CHECKING:
    from runtime.tracing import Tracing

_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)


class CallTrace:
    """The spans of one request: the whole, and what of it was waiting for others."""

    __slots__ = ("_span", "_traces", "_waiting")

    def __init__(self, traces: "BrokerTraces", span: Span) -> None:
        self._traces = traces
        self._span = span
        self._waiting: Span | None = None

    def handled(self) -> None:
        self._waiting = self._traces.child("purgatory", self._span)

    def answered(self) -> None:
        if self._waiting is not None:
            self._waiting.end()
        self._span.end()

    def cut(self, cause: CloseCause) -> None:
        self._span.set_attribute("error.type", str(cause))
        self._span.set_status(Status(StatusCode.ERROR))
        self.answered()


class BrokerTraces:
    """Begins them. Which requests are traced is the gateway's decision."""

    def __init__(self, tracing: "Tracing", node_id: int) -> None:
        self._tracer = tracing.tracer
        self._node_id = node_id

    def begin(self, context: TraceContext, call: Call, queued_ns: int) -> CallTrace:
        """A request that waited for so long begins to be handled."""
        parent = SpanContext(
            int.from_bytes(context.trace_id),
            int.from_bytes(context.span_id),
            is_remote=True,
            trace_flags=_SAMPLED,
        )
        api = ApiKey(call.header.api_key).name.lower()
        attributes: dict[str, str | int | float] = {
            "portico.broker.id": self._node_id,
            "portico.instance.id": call.instance_id or "",
            "portico.kafka.api": api,
            "portico.kafka.api_version": call.api_version,
            "portico.queue_ms": queued_ns / 1e6,
        }
        span = self._tracer.start_span(
            f"broker {api}",
            set_span_in_context(NonRecordingSpan(parent)),
            SpanKind.SERVER,
            attributes,
            start_time=time_ns() - queued_ns,
        )
        return CallTrace(self, span)

    def child(self, name: str, parent: Span) -> Span:
        """A part of it, from now on."""
        return self._tracer.start_span(name, set_span_in_context(parent))

"""This process's spans and their way to a collector. Imported only where traces are on (ADR 33).

Spans wait in a bounded queue for a thread of their own that posts them in batches. A collector that is slow,
gone or hostile costs dropped spans, which are counted: nothing waits for it, and of its answer no more is
read than an answer may have.
"""

import threading
from collections.abc import Iterator, Sequence
from typing import Any, Final

import httpx
from google.protobuf.message import DecodeError
from opentelemetry import propagate
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, Sampler
from opentelemetry.trace import Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from runtime.clock import monotonic_ms
from runtime.logs import get_logger
from runtime.trace_settings import TraceSettings

_log = get_logger(__name__)
ATTRIBUTE_CHARACTERS_MAX: Final = 256
"""Length of what tenants and callers name; `OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT` cannot add to it."""
_ANSWER_BYTES_MAX: Final = 64 * 1024
_LOG_EVERY_MS: Final = 60_000
_SHUTDOWN_S: Final = 2.0


class Tracing:
    """What a process that traces has: a tracer, and the queue behind it."""

    def __init__(
        self, settings: TraceSettings, service: str, process: str, sampler: Sampler = ALWAYS_ON
    ) -> None:
        """`service` is what the process is one of, unless the environment names it. Without a `sampler` the
        caller begins spans of what is to be traced only."""
        self.settings = settings
        propagate.set_global_textmap(TraceContextTextMapPropagator())  # no baggage: strangers could fill it
        named = {
            "service.name": f"portico-{service}",
            "service.namespace": "portico",
            "service.instance.id": process,
        }
        resource = Resource.create({**named, **OTELResourceDetector().detect().attributes})
        self._queue = SpanQueue(CollectorExporter(settings), settings.queue_spans)
        self.provider = TracerProvider(
            sampler=sampler,
            resource=resource,
            shutdown_on_exit=False,
            span_limits=SpanLimits(max_span_attribute_length=ATTRIBUTE_CHARACTERS_MAX),
        )
        self.provider.add_span_processor(self._queue)
        self.tracer: Tracer = self.provider.get_tracer("portico")
        self.collector = SpanCollector(self._queue)
        _log.info("traces are told", endpoint=settings.endpoint, ratio=settings.ratio)

    def close(self) -> None:
        """Post what waits, for two seconds at most."""
        closing = threading.Thread(target=self.provider.shutdown, name="traces end", daemon=True)
        closing.start()
        closing.join(_SHUTDOWN_S)


class CollectorExporter(SpanExporter):
    """Posts spans: OTLP over HTTP. A batch that is not taken is dropped, not tried again."""

    def __init__(self, settings: TraceSettings) -> None:
        self._endpoint = settings.endpoint
        self._http = httpx.Client(
            headers={"Content-Type": "application/x-protobuf", **settings.headers},
            verify=settings.certificate or True,
            timeout=settings.timeout_s,
            trust_env=False,
            follow_redirects=False,
        )
        self.exported = self.dropped = 0
        """Spans, written by the exporting thread alone."""
        self._told_ms = -_LOG_EVERY_MS

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Called in the queue's thread."""
        refused = len(spans)
        try:
            refused = self._post(encode_spans(spans).SerializeToString())
        except (httpx.HTTPError, OSError, DecodeError) as error:
            self._tell(f"{type(error).__name__} {error}")
        self.dropped += min(max(refused, 0), len(spans))
        self.exported += len(spans) - min(max(refused, 0), len(spans))
        return SpanExportResult.FAILURE if refused else SpanExportResult.SUCCESS

    def _post(self, body: bytes) -> int:
        """How many of the spans the collector did not take. Raises: httpx.HTTPError, DecodeError."""
        with self._http.stream("POST", self._endpoint, content=body) as response:
            answer = b""
            for piece in response.iter_raw():
                answer += piece
                if len(answer) > _ANSWER_BYTES_MAX:
                    raise httpx.DecodingError("the collector's answer does not end")
        response.raise_for_status()
        if not answer or response.headers.get("Content-Type", "") != "application/x-protobuf":
            return 0
        told = ExportTraceServiceResponse.FromString(answer).partial_success
        if told.rejected_spans:
            self._tell(told.error_message[:ATTRIBUTE_CHARACTERS_MAX])
        return int(told.rejected_spans)

    def _tell(self, reason: str) -> None:
        """One line a minute."""
        now_ms = monotonic_ms()
        if now_ms - self._told_ms >= _LOG_EVERY_MS:
            self._told_ms = now_ms
            _log.warning("the collector did not take spans, they are dropped", reason=reason)

    def shutdown(self) -> None:
        """Nothing is posted any more."""
        self._http.close()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:  # noqa: ARG002 - the SDK's signature
        """Nothing waits here."""
        return True


class SpanQueue(SpanProcessor):
    """The SDK's batches behind a bound that counts what it drops."""

    def __init__(self, exporter: CollectorExporter, spans_max: int) -> None:
        self._exporter = exporter
        self._batches = BatchSpanProcessor(exporter, max_queue_size=spans_max)
        self._spans_max = spans_max
        self._taken = self._dropped = 0
        self._lock = threading.Lock()
        """Spans end in several threads."""

    @property
    def exported(self) -> int:
        """Spans that the collector has."""
        return self._exporter.exported

    @property
    def dropped(self) -> int:
        """Spans that nobody will see: too many waited, or the collector did not take them."""
        return self._dropped + self._exporter.dropped

    def on_end(self, span: ReadableSpan) -> None:
        """Queue it, or drop it."""
        with self._lock:
            waiting = self._taken - self._exporter.exported - self._exporter.dropped
            if waiting >= self._spans_max:
                self._dropped += 1
                return
            self._taken += 1
        self._batches.on_end(span)

    def shutdown(self) -> None:
        """Post what waits."""
        self._batches.shutdown()  # type: ignore[no-untyped-call]

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Post what waits, in the caller's thread."""
        return self._batches.force_flush(timeout_millis)


class SpanCollector(Collector):
    """What Prometheus is told of spans."""

    def __init__(self, queue: SpanQueue) -> None:
        self._queue = queue

    def collect(self) -> Iterator[Any]:
        """Called from the metrics thread."""
        yield CounterMetricFamily(
            "portico_spans_exported", "Spans of traces that the collector took", value=self._queue.exported
        )
        yield CounterMetricFamily(
            "portico_spans_dropped",
            "Spans of traces that were dropped: too many waited, or the collector did not take them",
            value=self._queue.dropped,
        )

"""Which HTTP requests are traced. A caller's `traceparent` says whose child a request is, and may ask for a
trace; how many there are is ours to say: strangers must not be able to spend the collector.
"""

from collections.abc import Callable, Sequence
from typing import Final

from opentelemetry.context import Context
from opentelemetry.sdk.trace.sampling import Decision, Sampler, SamplingResult, TraceIdRatioBased
from opentelemetry.trace import Link, SpanKind, TraceState, get_current_span
from opentelemetry.util.types import Attributes

from runtime.clock import monotonic_ms

_DROPPED: Final = SamplingResult(Decision.DROP)


class HttpSampler(Sampler):
    """So many requests a second in all, of new traces a share. What no request has begun is not traced."""

    def __init__(self, ratio: float, per_second: int, now_ms: Callable[[], int] = monotonic_ms) -> None:
        self._share = TraceIdRatioBased(ratio)
        self._per_second = per_second
        self._now_ms = now_ms
        self._second = self._taken = 0

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,  # noqa: ARG002 - the SDK's signature
    ) -> SamplingResult:
        """The decision for a span that begins."""
        parent = get_current_span(parent_context).get_span_context()
        if parent.is_valid and not parent.is_remote:
            return SamplingResult(Decision.RECORD_AND_SAMPLE) if parent.trace_flags.sampled else _DROPPED
        if kind is not SpanKind.SERVER or (parent.is_valid and not parent.trace_flags.sampled):
            return _DROPPED
        if not parent.is_valid:
            share = self._share.should_sample(None, trace_id, name, kind, attributes, links)
            if share.decision is Decision.DROP:
                return _DROPPED
        return SamplingResult(Decision.RECORD_AND_SAMPLE) if self._is_room() else _DROPPED

    def _is_room(self) -> bool:
        second = self._now_ms() // 1000
        if second != self._second:
            self._second, self._taken = second, 0
        self._taken += 1
        return self._taken <= self._per_second

    def get_description(self) -> str:
        """For people."""
        return f"HttpSampler({self._share.get_description()}, {self._per_second}/s)"

"""No instance and no caller spends the traces of others."""

from itertools import cycle

from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, TraceFlags, set_span_in_context

from runtime.http_sampling import HttpSampler
from runtime.trace_sampling import TOTAL_FACTOR, UNDER_WAY_MAX, RequestSampling

A, B = "iaaaaaaaaaaa", "ibbbbbbbbbbb"


def test_an_instance_has_so_many_a_second_and_others_have_theirs() -> None:
    sampling = RequestSampling(1.0, 10)
    assert sum(sampling.takes(A, 1_000) for _ in range(5_000)) == 10
    assert sampling.takes(B, 1_999)
    assert sum(sampling.takes(A, 2_000) for _ in range(5_000)) == 10


def test_all_together_have_so_many() -> None:
    sampling = RequestSampling(1.0, 10)
    assert sum(sampling.takes(f"i{number}", 5_000) for number in range(10_000)) == 10 * TOTAL_FACTOR


def test_a_share_of_all_is_taken() -> None:
    sampling = RequestSampling(0.25, 1_000, cycle((0.1, 0.3, 0.6, 0.9)).__next__)
    assert [sampling.takes(A, 0) for _ in range(8)] == [True, False, False, False] * 2


def test_polls_that_are_not_answered_do_not_pile_up() -> None:
    sampling = RequestSampling(1.0, 1_000)
    assert sum(sampling.takes(A, 1_000 * second) for second in range(1_000)) == UNDER_WAY_MAX
    sampling.ended(A)
    assert sampling.takes(A, 0) and not sampling.takes(A, 0)
    for _ in range(UNDER_WAY_MAX):
        sampling.ended(A)
    assert sum(sampling.takes(A, 9_000) for _ in range(1_000)) == UNDER_WAY_MAX


def _decides(
    sampler: HttpSampler, kind: SpanKind, *, parent: bool | None = None, remote: bool = True
) -> bool:
    context = None
    if parent is not None:
        flags = TraceFlags(TraceFlags.SAMPLED if parent else TraceFlags.DEFAULT)
        context = set_span_in_context(NonRecordingSpan(SpanContext(7, 9, remote, flags)))
    return sampler.should_sample(context, 7, "GET", kind).decision is Decision.RECORD_AND_SAMPLE


def test_a_caller_may_ask_for_traces_but_not_for_more_than_there_are() -> None:
    sampler = HttpSampler(0.0, 10, lambda: 1_000)
    assert not _decides(sampler, SpanKind.SERVER), "the share of new ones is none"
    assert sum(_decides(sampler, SpanKind.SERVER, parent=True) for _ in range(1_000)) == 10
    assert not _decides(sampler, SpanKind.SERVER, parent=False)


def test_parts_follow_their_request_and_nothing_else_is_traced() -> None:
    sampler = HttpSampler(1.0, 1, lambda: 1_000)
    assert _decides(sampler, SpanKind.SERVER) and not _decides(sampler, SpanKind.SERVER)
    assert _decides(sampler, SpanKind.CLIENT, parent=True, remote=False)
    assert not _decides(sampler, SpanKind.CLIENT, parent=False, remote=False)
    assert not _decides(sampler, SpanKind.CLIENT), "a job of ours"

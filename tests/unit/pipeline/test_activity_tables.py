"""Spans of time and what files tell of them."""

from datetime import timedelta

import pytest

from pipeline.activity.tables import EventFile, Span, span_of_files


@pytest.mark.parametrize(
    ("span", "widened"),
    [
        (Span(0, 1), Span(0, 60)),
        (Span(60, 120), Span(60, 120)),
        (Span(59, 60), Span(0, 60)),
        (Span(59, 61), Span(0, 120)),
    ],
)
def test_a_span_is_widened_to_whole_windows_and_no_further(span: Span, widened: Span) -> None:
    assert span.widened(timedelta(microseconds=60)) == widened


def test_files_without_events_tell_of_no_time() -> None:
    dead = EventFile("dead", 1, 1, 3, None)
    assert span_of_files([dead]) is None
    files = [dead, EventFile("on_time", 1, 2, 3, Span(5, 9)), EventFile("late", 2, 2, 1, Span(1, 2))]
    assert span_of_files(files) == Span(1, 9)

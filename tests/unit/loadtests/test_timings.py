"""What is told of requests: those that failed are not among the fast ones."""

import math

import pytest

from loadtests.timings import Timings


def test_percentiles_are_of_what_was_answered_by_name() -> None:
    timings = Timings()
    for ms in range(1, 101):
        timings.heard(name="read", response_time=ms)
    timings.heard(name="write", response_time=1000)
    assert timings.percentile_ms(0.5, "read") == 51
    assert timings.percentile_ms(0.99) == 100
    assert timings.ms("write") == [1000]
    assert timings.failures() == 0


def test_failures_are_counted_by_what_went_wrong_and_have_no_time() -> None:
    timings = Timings()
    for _ in range(3):
        timings.heard(name="read", response_time=0.1, exception=OSError("reset"))
    assert timings.failures() == 3
    assert timings.failed == {"read: reset": 3}
    assert math.isnan(timings.percentile_ms(0.5))
    assert math.isnan(timings.per_s())
    assert any("failed 3 x read: reset" in line for line in timings.lines())


def test_a_request_without_a_name_known_is_not_a_number() -> None:
    timings = Timings()
    timings.heard(name="read", response_time=2)
    assert math.isnan(timings.percentile_ms(0.5, "write"))
    assert timings.percentile_ms(0.5) == pytest.approx(2)

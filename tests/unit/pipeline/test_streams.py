"""What is made of what Spark tells of a query."""

import pytest

from pipeline.streams import Py4JJavaError, brief, failure_sentence, lag_records


@pytest.mark.parametrize(
    ("source", "lag"),
    [
        ({"endOffset": '{"a":{"0":5,"1":7}}', "latestOffset": '{"a":{"0":9,"1":7}}'}, 4),
        ({"endOffset": {"a": {"0": 5}}, "latestOffset": {"a": {"0": 9}, "b": {"0": 3}}}, 4),
        ({"endOffset": '{"a":{"0":9}}', "latestOffset": '{"a":{"0":5}}'}, 0),
        ({"endOffset": '{"a":{"0":9}}', "latestOffset": None}, 0),
        ({}, 0),
    ],
)
def test_lag_is_what_brokers_have_beyond_the_batch(source: dict[str, object], lag: int) -> None:
    assert lag_records(source) == lag


def test_lost_records_and_impossible_times_are_said_with_what_to_do() -> None:
    lost = failure_sentence(RuntimeError("Some data may have been lost because they are not available"))
    assert "retention" in lost and "checkpoint" in lost
    timed = failure_sentence(RuntimeError("Record at topic t partition 3 offset 17 has timestamp value -5"))
    assert "offset 17 of t-3" in timed
    assert failure_sentence(RuntimeError("first line\nsecond")) == "first line"


def test_what_a_batch_says_to_spark_is_brief_and_of_its_stop_if_it_was_stopped() -> None:
    cut_off = RuntimeError(
        "o1.save\n" + "\tat a.b.C\n" * 10_000 + "Caused by: java.lang.InterruptedException\n"
    )
    told = str(brief(cut_off))
    assert len(told) < 3_000 and told.endswith("java.lang.InterruptedException")
    assert "Interrupt" not in str(brief(OSError("No space left on device")))
    assert f"{Py4JJavaError.__module__}.{Py4JJavaError.__qualname__}" == "py4j.protocol.Py4JJavaError"

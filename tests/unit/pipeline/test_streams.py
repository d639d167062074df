"""What is made of what Spark tells of a query."""

import pytest

from pipeline.streams import failure_sentence, lag_records


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


def test_a_failure_in_python_is_said_by_its_own_words() -> None:
    text = (
        "An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):\n"
        '  File "a.py", line 1, in call\n    raise e\n'
        '  File "b.py", line 2, in fold\n    save()\n    ^^^^^^\n'
        "OSError: No space left on device\nand more\n\n=== Streaming Query ===\nIdentifier: x"
    )
    assert failure_sentence(RuntimeError(text)) == "OSError: No space left on device"

from contracts.specs import Limits
from contracts.topic_policy import creation_defaults


def test_kafkas_own_defaults_hold_where_they_fit() -> None:
    assert creation_defaults(10**9, Limits()) == {"segment.bytes": "16777216"}


def test_tighter_limits_and_larger_messages_are_the_instances() -> None:
    tight = Limits(message_bytes_max=1000, retention_ms_max=5000)
    assert creation_defaults(10**10, tight) == {
        "segment.bytes": "100000000",
        "max.message.bytes": "1000",
        "retention.ms": "5000",
    }
    assert creation_defaults(10**9, Limits(message_bytes_max=8_000_000))["max.message.bytes"] == "8000000"

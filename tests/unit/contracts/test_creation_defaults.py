from contracts.specs import Engine, Limits
from contracts.topic_policy import creation_defaults, stored_value, written_limits


def test_only_what_no_broker_could_apply_is_written_into_a_topic() -> None:
    assert creation_defaults(10**9) == {"segment.bytes": "16777216"}
    assert creation_defaults(10**10) == {"segment.bytes": "100000000"}


def test_limits_are_written_where_no_broker_applies_them() -> None:
    limits = Limits(retention_ms_max=3_600_000, message_bytes_max=100_000)
    assert written_limits(limits, Engine.BUILTIN) is None
    written = written_limits(limits, Engine.APACHE)
    assert creation_defaults(10**9, written) == {
        "segment.bytes": "16777216",
        "retention.ms": "3600000",
        "max.message.bytes": "100000",
    }
    assert creation_defaults(10**9, Limits(retention_ms_max=10**12))["retention.ms"] == "604800000"
    assert stored_value("retention.ms", "-1", written) == "3600000"
    assert stored_value("retention.ms", "60000", written) == "60000"
    assert stored_value("max.message.bytes", "5", written) == "5"
    assert stored_value("segment.bytes", "1", written) == "1048576"
    assert stored_value("retention.ms", "-1") == "-1"

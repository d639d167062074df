"""What tenants may set on topics: bounds, sentences, defaults."""

import pytest

from contracts.specs import Limits
from contracts.topic_policy import ALLOWED_KEYS, check, check_all, default_segment_bytes

LIMITS = Limits(message_bytes_max=1_000_000, retention_ms_max=1000)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cleanup.policy", "delete"),
        ("cleanup.policy", "compact,delete"),
        ("retention.ms", "1000"),
        ("retention.bytes", "-1"),
        ("max.message.bytes", "1000000"),
        ("segment.bytes", "1048576"),
        ("segment.ms", "600000"),
        ("min.insync.replicas", "1"),
        ("compression.type", "zstd"),
        ("message.timestamp.type", "LogAppendTime"),
        ("delete.retention.ms", "0"),
        ("min.compaction.lag.ms", "0"),
        ("max.compaction.lag.ms", "9223372036854775807"),
        ("min.cleanable.dirty.ratio", "0.5"),
    ],
)
def test_within_bounds(name: str, value: str) -> None:
    assert check(name, value, LIMITS) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cleanup.policy", "none"),
        ("cleanup.policy", ""),
        ("retention.ms", "1001"),
        ("retention.ms", "-1"),
        ("retention.bytes", "-2"),
        ("retention.bytes", "9223372036854775808"),
        ("max.message.bytes", "1000001"),
        ("segment.bytes", "1048575"),
        ("segment.ms", "599999"),
        ("min.insync.replicas", "0"),
        ("compression.type", "lzma"),
        ("message.timestamp.type", "createtime"),
        ("delete.retention.ms", "\u0661"),
        ("min.cleanable.dirty.ratio", "nan"),
        ("segment.bytes", None),
        ("flush.messages", "1"),
        ("x" * 1000, "1"),
    ],
)
def test_refused_with_a_sentence_that_names_the_key(name: str, value: str | None) -> None:
    fault = check(name, value, LIMITS)
    assert fault is not None and fault.startswith(name[:40]) and len(fault) < 500


def test_first_fault_of_a_set() -> None:
    assert check_all(dict.fromkeys(ALLOWED_KEYS), LIMITS) is not None
    assert check_all({"retention.ms": "5", "segment.ms": "1"}, LIMITS) == (
        "segment.ms must be between 600000 and 9223372036854775807, not 1"
    )
    assert check_all({}, LIMITS) is None


@pytest.mark.parametrize(
    ("capacity_bytes", "segment_bytes"),
    [(0, 16 * 2**20), (10 * 10**9, 100 * 10**6), (10**15, 2**30)],
)
def test_segment_bytes_follow_capacity(capacity_bytes: int, segment_bytes: int) -> None:
    assert default_segment_bytes(capacity_bytes) == segment_bytes

"""What tenants may set on topics: bounds, sentences, defaults."""

import pytest

from contracts.specs import Limits
from contracts.topic_policy import (
    ALLOWED_KEYS,
    NOT_KEPT_KEYS,
    applied,
    check,
    check_all,
    default_segment_bytes,
    is_settable,
    stored_value,
)

LIMITS = Limits(message_bytes_max=1_000_000, retention_ms_max=1000)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cleanup.policy", "delete"),
        ("cleanup.policy", "compact,delete"),
        ("retention.ms", "1000"),
        ("retention.ms", "1001"),
        ("retention.ms", "-1"),
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
        ("max.compaction.lag.ms", "1"),
        ("message.timestamp.before.max.ms", "9223372036854775807"),
        ("message.timestamp.after.max.ms", "0"),
        ("min.cleanable.dirty.ratio", "0.5"),
        ("segment.bytes", "1"),
        ("segment.ms", "1"),
        ("segment.index.bytes", "52428800"),
        ("flush.messages", "1"),
        ("flush.ms", "9223372036854775807"),
        ("file.delete.delay.ms", "0"),
        ("index.interval.bytes", "4096"),
        ("preallocate", "True"),
        ("segment.jitter.ms", "0"),
        ("compression.zstd.level", "-5"),
        ("local.retention.ms", "-2"),
        ("remote.storage.enable", "false"),
        ("message.format.version", "2.8-IV1"),
        ("unclean.leader.election.enable", "false"),
    ],
)
def test_within_bounds(name: str, value: str) -> None:
    assert check(name, value, LIMITS) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cleanup.policy", "none"),
        ("cleanup.policy", ""),
        ("retention.ms", "-2"),
        ("retention.ms", "for ever"),
        ("retention.bytes", "-2"),
        ("retention.bytes", "9223372036854775808"),
        ("max.message.bytes", "1000001"),
        ("segment.bytes", "0"),
        ("segment.ms", "0"),
        ("min.insync.replicas", "0"),
        ("compression.type", "lzma"),
        ("message.timestamp.type", "createtime"),
        ("delete.retention.ms", "\u0661"),
        ("min.cleanable.dirty.ratio", "nan"),
        ("segment.bytes", None),
        ("max.compaction.lag.ms", "0"),
        ("message.timestamp.before.max.ms", "-1"),
        ("flush.messages", "0"),
        ("flush.ms", "soon"),
        ("preallocate", "yes"),
        ("preallocate", None),
        ("segment.index.bytes", "3"),
        ("message.format.version", " "),
        ("remote.storage.enable", "true"),
        ("unclean.leader.election.enable", "true"),
        ("leader.replication.throttled.replicas", "*"),
        ("x" * 1000, "1"),
    ],
)
def test_refused_with_a_sentence_that_names_the_key(name: str, value: str | None) -> None:
    fault = check(name, value, LIMITS)
    assert fault is not None and fault.startswith(name[:40]) and len(fault) < 500


def test_first_fault_of_a_set() -> None:
    assert check_all(dict.fromkeys(ALLOWED_KEYS), LIMITS) is not None
    assert check_all({"retention.ms": "5", "segment.ms": "0"}, LIMITS) == (
        "segment.ms must be between 1 and 9223372036854775807, not 0"
    )
    assert check_all({}, LIMITS) is None


@pytest.mark.parametrize(
    ("capacity_bytes", "segment_bytes"),
    [(0, 16 * 2**20), (10 * 10**9, 100 * 10**6), (10**15, 2**30)],
)
def test_segment_bytes_follow_capacity(capacity_bytes: int, segment_bytes: int) -> None:
    assert default_segment_bytes(capacity_bytes) == segment_bytes


@pytest.mark.parametrize(
    ("name", "value", "kept"),
    [
        ("segment.bytes", "1", "1048576"),
        ("segment.bytes", "52428800", "52428800"),
        ("segment.bytes", "2147483647", "1073741824"),
        ("segment.ms", "1", "600000"),
        ("max.compaction.lag.ms", "1", "600000"),
        ("retention.ms", "-1", "-1"),
        ("retention.ms", "99999", "99999"),
    ],
)
def test_what_is_kept_of_a_value(name: str, value: str, kept: str) -> None:
    assert stored_value(name, value) == kept


@pytest.mark.parametrize(
    ("name", "value", "is_own", "shown"),
    [
        ("retention.ms", "-1", True, "1000"),
        ("retention.ms", "1001", True, "1000"),
        ("retention.ms", "999", True, "999"),
        ("retention.ms", "604800000", False, "1000"),
        ("retention.bytes", "-1", True, "-1"),
        ("max.message.bytes", "5", True, "5"),
        ("max.message.bytes", "1048588", True, "1000000"),
        ("max.message.bytes", "5", False, "1000000"),
        ("cleanup.policy", "delete", True, "delete"),
        ("retention.ms", None, True, None),
    ],
)
def test_what_a_stored_value_means(name: str, value: str | None, is_own: bool, shown: str | None) -> None:
    assert applied(name, value, LIMITS, is_own=is_own) == shown


def test_keys_that_are_not_kept_may_be_named() -> None:
    assert not NOT_KEPT_KEYS & ALLOWED_KEYS
    assert all(map(is_settable, NOT_KEPT_KEYS | ALLOWED_KEYS)) and not is_settable("zookeeper.connect")

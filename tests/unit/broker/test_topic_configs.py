"""Topic configs: what is known, what is refused, how layers change."""

import pytest

from broker.configs.topic_configs import (
    DEFINITIONS,
    ConfigFault,
    Operation,
    altered,
    check_config,
    check_configs,
)


def test_every_default_is_valid() -> None:
    for definition in DEFINITIONS.values():
        assert check_config(definition.name, definition.default) == definition.default


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retention.ms", "-2"),
        ("retention.ms", "9223372036854775808"),
        ("retention.ms", "1_000"),
        ("retention.ms", "1e3"),
        ("retention.ms", ""),
        ("segment.bytes", "13"),
        ("segment.bytes", "2147483648"),
        ("min.cleanable.dirty.ratio", "nan"),
        ("min.cleanable.dirty.ratio", "1.1"),
        ("preallocate", "yes"),
        ("cleanup.policy", "delete,burn"),
        ("message.timestamp.type", "Never"),
        ("leader.replication.throttled.replicas", "1-2"),
        ("retention.ms", "٣"),
        ("retention.ms", None),
        ("no.such", "1"),
    ],
)
def test_what_cannot_be(name: str, value: str | None) -> None:
    with pytest.raises(ConfigFault, match=name):
        check_config(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retention.ms", "-1"),
        ("retention.ms", " 5 "),
        ("cleanup.policy", "compact,delete"),
        ("leader.replication.throttled.replicas", "*"),
        ("leader.replication.throttled.replicas", "0:1,1:1"),
        ("min.cleanable.dirty.ratio", "0.01"),
    ],
)
def test_what_can(name: str, value: str) -> None:
    assert check_config(name, value) == value.strip()


def test_a_layer_as_a_whole() -> None:
    with pytest.raises(ConfigFault, match="conflict"):
        check_configs({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"})


def test_changes_merge_into_the_layer() -> None:
    layer = {"retention.ms": "1", "segment.ms": "2"}
    assert altered(layer, "retention.ms", Operation.SET, "9") == {"retention.ms": "9", "segment.ms": "2"}
    assert altered(layer, "segment.ms", Operation.DELETE, None) == {"retention.ms": "1"}
    assert layer == {"retention.ms": "1", "segment.ms": "2"}


def test_lists_grow_and_shrink() -> None:
    grown = altered({}, "cleanup.policy", Operation.APPEND, "compact, delete")
    assert grown == {"cleanup.policy": "delete,compact"}, "from the default, nothing twice"
    assert altered(grown, "cleanup.policy", Operation.SUBTRACT, "delete") == {"cleanup.policy": "compact"}
    with pytest.raises(ConfigFault, match="not LIST"):
        altered({}, "retention.ms", Operation.APPEND, "1")
    with pytest.raises(ConfigFault, match="operation"):
        altered({}, "retention.ms", 9, "1")

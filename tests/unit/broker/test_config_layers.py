"""Which layer a config's value comes from."""

from broker.configs.config_layers import (
    BROKER_DEFINITIONS,
    ConfigLayers,
)
from broker.configs.config_view import topic_config_values
from broker.configs.topic_configs import DEFINITIONS, ConfigSource
from contracts.topic_policy import default_min_insync_replicas

_NOTHING = ConfigLayers({}, {}, {})


def test_the_strongest_layer_counts() -> None:
    layers = ConfigLayers(
        {"log.retention.ms": "3"}, {"log.retention.ms": "2"}, {"log.retention.ms": "1", "log.roll.ms": "9"}
    )
    found = layers.topic_synonyms("retention.ms", {"retention.ms": "4"}, 1)
    assert [(each.value, each.source) for each in found] == [
        ("4", ConfigSource.TOPIC),
        ("3", ConfigSource.DYNAMIC_BROKER),
        ("2", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        ("1", ConfigSource.STATIC_BROKER),
        (DEFINITIONS["retention.ms"].default, ConfigSource.DEFAULT),
    ]
    assert layers.log_config({"retention.ms": "4"}).retention_ms == 4
    assert layers.log_config({}).retention_ms == 3
    assert layers.log_config({}).segment_ms == 9
    assert layers._replace(dynamic={}).log_config({}).retention_ms == 2


def test_the_log_gets_what_the_layer_says() -> None:
    config = _NOTHING.log_config({"retention.ms": "5", "cleanup.policy": "compact", "flush.messages": "1"})
    assert (config.retention_ms, config.is_compacted, config.flush_messages) == (5, True, 1)
    assert _NOTHING.log_config({}).retention_ms == int(DEFINITIONS["retention.ms"].default)


def test_every_default_of_a_topic_can_be_set_for_brokers_but_throttled_replicas() -> None:
    without = {name for name in DEFINITIONS if len(_NOTHING.topic_synonyms(name, {}, 1)) != 1}
    assert without == set()
    own = {name for name in DEFINITIONS if _NOTHING.topic_synonyms(name, {}, 1)[0].name == name}
    assert own >= {"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"}
    assert {"log.retention.ms", "min.insync.replicas", "message.max.bytes"} <= BROKER_DEFINITIONS.keys()


def test_how_many_in_sync_replicas_nobody_saying() -> None:
    assert [default_min_insync_replicas(each) for each in (1, 2, 3, 5)] == [1, 1, 2, 2]
    shown = _NOTHING.topic_synonyms("min.insync.replicas", {}, 3)
    assert shown[0].value == "2"
    assert _NOTHING.log_config({}).min_insync_replicas == 0, "the partition knows how many it has"
    assert ConfigLayers({}, {}, {"min.insync.replicas": "3"}).log_config({}).min_insync_replicas == 3


def test_what_kafka_4_has_no_longer_is_shown_where_it_was_set() -> None:
    gone = "message.downconversion.enable"
    assert gone not in {value.name for value in topic_config_values(_NOTHING, {}, 1)}
    shown = {value.name: value.value for value in topic_config_values(_NOTHING, {gone: "true"}, 1)}
    assert shown[gone] == "true"

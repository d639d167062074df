"""Kafka's znodes: what Kafka itself writes is read, what we write has its fields."""

import json
from uuid import UUID

import pytest

from broker.metadata import znodes
from broker.metadata.znode_paths import partition_of_state_path, state_path
from broker.metadata.znodes import (
    Assignment,
    PartitionState,
    Registration,
    TopicNode,
    ZnodeDamaged,
)


def test_a_registration_by_kafka_3_9() -> None:
    written = (
        b'{"features":{},"listener_security_protocol_map":{"INTERNAL":"PLAINTEXT","TLS":"SSL"},"endpoints":'
        b'["INTERNAL://broker-2.example:9092","TLS://broker-2.example:9093"],"jmx_port":-1,"port":-1,"host":null,'
        b'"version":5,"timestamp":"1700000000000","rack":"a"}'
    )
    assert znodes.decode_registration(written) == Registration(
        host="broker-2.example",
        port=9092,
        rack="a",
        listener="INTERNAL",
        timestamp_ms=1_700_000_000_000,
    )


def test_a_registration_of_version_1() -> None:
    written = b'{"version":1,"host":"localhost","port":9092,"jmx_port":9999,"timestamp":"2233345666"}'
    assert znodes.decode_registration(written).port == 9092


@pytest.mark.parametrize("host", ["10.0.0.1", "::1", "broker.example"])
def test_our_registration(host: str) -> None:
    ours = Registration(host=host, port=1, listener="SASL_PLAINTEXT", is_unclean=True, timestamp_ms=7)
    assert znodes.decode_registration(znodes.encode_registration(ours)) == ours
    fields = json.loads(znodes.encode_registration(ours))
    assert fields["version"] == 5
    assert fields["endpoints"] == [f"SASL_PLAINTEXT://{f'[{host}]' if ':' in host else host}:1"]


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"nonsense",
        b"\xff",
        b"[]",
        b'{"host":"h","port":0}',
        b'{"host":null,"port":-1,"endpoints":["x"]}',
    ],
)
def test_a_damaged_registration(damaged: bytes) -> None:
    with pytest.raises(ZnodeDamaged):
        znodes.decode_registration(damaged)


def test_a_topic_by_kafka_3_9() -> None:
    written = (
        b'{"removing_replicas":{"0":[1]},"partitions":{"0":[4,1,2],"1":[2,3]},'
        b'"topic_id":"MkQmBWUBRdGmlnAQ5VVuNQ","adding_replicas":{"0":[4]},"version":3}'
    )
    topic = znodes.decode_topic(written)
    assert topic.partitions == {0: Assignment((4, 1, 2), (4,), (1,)), 1: Assignment((2, 3))}
    assert topic.topic_id is not None
    assert json.loads(znodes.encode_topic(topic)) == json.loads(written)


def test_a_topic_of_a_tool_before_topic_ids() -> None:
    assert znodes.decode_topic(b'{"version":1,"partitions":{"0":[1]}}') == TopicNode(
        None, {0: Assignment((1,))}
    )


def test_a_topic_id_is_kafkas_text() -> None:
    assert znodes.encode_topic_id(UUID(int=1)) == "AAAAAAAAAAAAAAAAAAAAAQ"
    with pytest.raises(ZnodeDamaged):
        znodes.decode_topic_id("short")


def test_a_state_by_kafka() -> None:
    written = b'{"controller_epoch":2,"leader":1,"version":1,"leader_epoch":3,"isr":[1,2]}'
    state = znodes.decode_state(written)
    assert state == PartitionState(leader=1, leader_epoch=3, isr=(1, 2), controller_epoch=2)
    assert znodes.encode_state(state) == written


def test_a_state_of_an_unclean_leader() -> None:
    state = PartitionState(1, 3, (1,), 2, leader_recovery_state=1)
    assert znodes.decode_state(znodes.encode_state(state)) == state


def test_the_other_nodes_come_back_as_written() -> None:
    targets = {("t", 0): (1, 2), ("u", 3): (4,)}
    assert znodes.decode_reassignment(znodes.encode_reassignment(targets)) == targets
    assert znodes.decode_partitions(znodes.encode_partitions(targets)) == set(targets)
    assert znodes.decode_controller(znodes.encode_controller(5, 1)) == 5
    assert znodes.decode_controller_epoch(znodes.encode_controller_epoch(7)) == 7
    assert znodes.decode_config(znodes.encode_config({"a": "b"})) == {"a": "b"}
    assert znodes.decode_config(b"") == {}
    assert znodes.decode_config_change(znodes.encode_config_change("topics/t")) == ("topics", "t")
    assert znodes.decode_log_dir_event(znodes.encode_log_dir_event(3)) == 3
    assert znodes.decode_cluster_id(znodes.encode_cluster_id("c")) == "c"
    assert znodes.decode_producer_id_block(znodes.encode_producer_id_block(1, 1000, 1999)) == 1999
    assert znodes.decode_producer_id_block(b"") == -1


@pytest.mark.parametrize(
    "decode",
    [
        znodes.decode_reassignment,
        znodes.decode_partitions,
        znodes.decode_controller,
        znodes.decode_controller_epoch,
        znodes.decode_config,
        znodes.decode_config_change,
        znodes.decode_log_dir_event,
        znodes.decode_cluster_id,
        znodes.decode_producer_id_block,
        znodes.decode_state,
        znodes.decode_topic,
    ],
)
def test_damage_is_named(decode) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ZnodeDamaged):
        decode(b"\x00nonsense")


def test_the_partition_of_a_state_path() -> None:
    assert partition_of_state_path(state_path("a.b_c", 12)) == ("a.b_c", 12)
    for path in ("/brokers/topics/t", "/brokers/topics/t/partitions/x/state", "/a/b/t/partitions/0/state"):
        assert partition_of_state_path(path) is None

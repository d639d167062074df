"""Topics, partitions, configs, records: Kafka's errors and effects on the wire."""

import datetime
from typing import Any

import pytest
from kio.static.primitive import i32Timedelta

from tests.integration.broker.process import running_broker
from tests.integration.broker.raw import RawClient, batch, create_topic, fetch, produce, request

_SEED_001 = {
    *("unclean.leader.election.enable", "delete.retention.ms", "segment.jitter.ms", "retention.ms"),
    *("flush.ms", "segment.bytes", "flush.messages", "segment.ms", "retention.bytes", "cleanup.policy"),
    *("segment.index.bytes", "min.cleanable.dirty.ratio", "max.message.bytes", "file.delete.delay.ms"),
    *("min.insync.replicas", "index.interval.bytes"),
}
_TIMEOUT = i32Timedelta.parse(datetime.timedelta(seconds=5))


def _create(client: RawClient, *topics: dict[str, Any], version: int = 7, validate_only: bool = False) -> Any:
    filled = [
        {"num_partitions": 1, "replication_factor": 1, "assignments": (), "configs": ()} | topic
        for topic in topics
    ]
    answer = client.call(request(19, version, topics=filled, timeout=_TIMEOUT, validate_only=validate_only))
    return answer.topics[0] if len(topics) == 1 else answer.topics


@pytest.mark.parametrize(
    ("topic", "error", "message"),
    [
        ({"name": "bad", "num_partitions": 0}, "invalid_partitions", "non-positive"),
        ({"name": "bad", "num_partitions": -7}, "invalid_partitions", "non-positive"),
        ({"name": "bad", "num_partitions": 2**31 - 1}, "policy_violation", "room"),
        ({"name": "bad", "replication_factor": 0}, "invalid_replication_factor", "non-positive"),
        ({"name": "bad", "replication_factor": 3}, "invalid_replication_factor", "only 1 broker"),
        ({"name": ""}, "invalid_topic_exception", "empty"),
        ({"name": ".."}, "invalid_topic_exception", "'..'"),
        ({"name": "a b"}, "invalid_topic_exception", "ASCII"),
        ({"name": "x" * 250}, "invalid_topic_exception", "249"),
        ({"name": "__consumer_offsets"}, "invalid_request", "internal"),
        ({"name": "bad", "configs": [{"name": "no.such.key", "value": "1"}]}, "invalid_config", "such"),
        ({"name": "bad", "configs": [{"name": "retention.ms", "value": "soon"}]}, "invalid_config", "LONG"),
        ({"name": "bad", "configs": [{"name": "retention.ms", "value": None}]}, "invalid_config", "Null"),
        ({"name": "bad", "configs": [{"name": "cleanup.policy", "value": "burn"}]}, "invalid_config", "burn"),
        ({"name": "bad", "assignments": [{"partition_index": 0, "broker_ids": [1]}]},
         "invalid_request", "-1"),
        ({"name": "bad", "num_partitions": -1, "replication_factor": -1,
          "assignments": [{"partition_index": 0, "broker_ids": [9]}]},
         "invalid_replica_assignment", "broker 9"),
        ({"name": "bad", "num_partitions": -1, "replication_factor": -1,
          "assignments": [{"partition_index": 1, "broker_ids": [1]}]},
         "invalid_replica_assignment", "0-based"),
    ],
)  # fmt: skip
def test_topics_that_cannot_be(raw: RawClient, topic: dict[str, Any], error: str, message: str) -> None:
    answer = _create(raw, topic)
    assert answer.error_code.name == error
    assert message in answer.error_message
    assert answer.topic_id is None


def test_a_created_topic_answers_its_facts(raw: RawClient) -> None:
    answer = _create(
        raw,
        {
            "name": "facts",
            "num_partitions": -1,
            "replication_factor": -1,
            "configs": [{"name": "retention.ms", "value": "1000"}],
        },
    )
    assert answer.error_code.value == 0
    assert answer.topic_id is not None
    assert (answer.num_partitions, answer.replication_factor) == (1, 1)
    assert {each.name: each.value for each in answer.configs}["retention.ms"] == "1000"
    again = _create(raw, {"name": "facts"})
    assert again.error_code.name == "topic_already_exists"
    assert again.error_message == "Topic 'facts' already exists."
    metadata = raw.call(request(3, 11, topics=[{"topic_id": None, "name": "facts"}]))
    assert metadata.topics[0].topic_id == answer.topic_id


def test_validate_only_creates_nothing(raw: RawClient) -> None:
    assert _create(raw, {"name": "valid"}, validate_only=True).error_code.value == 0
    assert _create(raw, {"name": "valid"}).error_code.value == 0


def test_a_topic_named_twice_is_refused(raw: RawClient) -> None:
    answers = raw.call(
        request(
            19,
            5,
            topics=[
                {
                    "name": "twice",
                    "num_partitions": 1,
                    "replication_factor": 1,
                    "assignments": (),
                    "configs": (),
                }
            ]
            * 2,
            timeout=_TIMEOUT,
            validate_only=False,
        )
    ).topics
    assert [each.error_code.name for each in answers] == ["invalid_request"]


def test_manual_assignments_to_this_broker(raw: RawClient) -> None:
    assignments = [{"partition_index": index, "broker_ids": [1]} for index in range(3)]
    topic = {"name": "manual", "num_partitions": -1, "replication_factor": -1, "assignments": assignments}
    assert _create(raw, topic).num_partitions == 3


def _grow(client: RawClient, name: str, count: int, **changes: Any) -> Any:
    topic = {"name": name, "count": count, "assignments": None} | changes
    return client.call(
        request(37, 3, topics=[topic], timeout=_TIMEOUT, validate_only=changes.pop("validate", False))
    ).results[0]


def test_growing_a_topic(raw: RawClient) -> None:
    create_topic(raw, "grows", 2)
    assert _grow(raw, "grows", 2).error_code.name == "invalid_partitions"
    assert _grow(raw, "grows", 1).error_code.name == "invalid_partitions"
    assert _grow(raw, "missing", 3).error_code.name == "unknown_topic_or_partition"
    assert _grow(raw, "grows", 10**9).error_code.name == "policy_violation"
    assert _grow(raw, "grows", 4, validate=True).error_code.value == 0
    assert (
        _grow(raw, "grows", 4, assignments=[{"broker_ids": [1]}]).error_code.name
        == "invalid_replica_assignment"
    )
    assert _grow(raw, "grows", 4).error_code.value == 0
    assert produce(raw, "grows", batch(b"v"), partition=3).error_code.value == 0
    (topic,) = raw.call(request(3, 5, topics=[{"name": "grows"}], allow_auto_topic_creation=False)).topics
    assert [each.partition_index for each in topic.partitions] == [0, 1, 2, 3]


def test_deleting_topics(raw: RawClient) -> None:
    create_topic(raw, "deleted")
    produce(raw, "deleted", batch(b"v"))
    names = ["deleted", "never.was", "__consumer_offsets"]
    answers = raw.call(request(20, 5, topic_names=names, timeout=_TIMEOUT)).responses
    assert [each.error_code.name for each in answers] == [
        "none",
        "unknown_topic_or_partition",
        "invalid_request",
    ]
    assert produce(raw, "deleted", batch(b"v")).error_code.name == "unknown_topic_or_partition"
    create_topic(raw, "deleted")
    assert produce(raw, "deleted", batch(b"v")).base_offset == 0


def _delete_records(client: RawClient, name: str, offset: int) -> Any:
    topics = [{"name": name, "partitions": [{"partition_index": 0, "offset": offset}]}]
    return client.call(request(21, 2, topics=topics, timeout=_TIMEOUT)).topics[0].partitions[0]


def test_deleting_records(raw: RawClient) -> None:
    create_topic(raw, "trimmed")
    for _ in range(5):
        produce(raw, "trimmed", batch(b"v"))
    assert _delete_records(raw, "trimmed", 3).low_watermark == 3
    assert _delete_records(raw, "trimmed", 1).low_watermark == 3, "the start never moves back"
    assert fetch(raw, "trimmed", 1).error_code.name == "offset_out_of_range"
    assert fetch(raw, "trimmed", 3).log_start_offset == 3
    assert _delete_records(raw, "trimmed", 6).error_code.name == "offset_out_of_range"
    assert _delete_records(raw, "trimmed", -5).error_code.name == "offset_out_of_range"
    assert _delete_records(raw, "trimmed", -1).low_watermark == 5
    sizes = raw.call(request(35, 1, topics=[{"topic": "trimmed", "partitions": [0]}]))
    assert sizes.results[0].topics[0].partitions[0].partition_size == 0, "space is free at once"
    assert produce(raw, "trimmed", batch(b"v")).base_offset == 5
    create_topic(raw, "only.compacted", cleanup_policy="compact")
    assert _delete_records(raw, "only.compacted", 0).error_code.name == "policy_violation"


def _describe(client: RawClient, name: str, kind: int = 2, keys: Any = None) -> Any:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    return client.call(
        request(32, 4, resources=[resource], include_synonyms=True, include_documentation=True)
    ).results[0]


def test_describing_configs(raw: RawClient) -> None:
    create_topic(raw, "described", retention_ms="5000")
    found = {each.name: each for each in _describe(raw, "described").configs}
    assert found.keys() >= _SEED_001
    assert found["retention.ms"].value == "5000"
    assert found["retention.ms"].config_source == 1
    assert [each.source for each in found["retention.ms"].synonyms] == [1, 5]
    assert found["segment.bytes"].config_source == 5
    assert found["retention.ms"].documentation
    (one,) = _describe(raw, "described", keys=["segment.ms", "no.such"]).configs
    assert one.name == "segment.ms"
    assert _describe(raw, "missing").error_code.name == "unknown_topic_or_partition"
    broker = _describe(raw, "1", kind=4)
    assert broker.error_code.value == 0
    read_only = {each.name: each.read_only for each in broker.configs}
    assert read_only["node.id"]
    assert not read_only["log.retention.ms"]
    assert _describe(raw, "2", kind=4).error_code.name == "invalid_request"
    assert _describe(raw, "x", kind=99).error_code.name == "invalid_request"
    assert _describe(raw, "", kind=32).error_code.name == "invalid_request"
    of_group = {each.name: (each.value, each.read_only) for each in _describe(raw, "any", kind=32).configs}
    assert of_group["consumer.session.timeout.ms"] == ("45000", True)


def test_resources_of_configs_are_listed(raw: RawClient) -> None:
    create_topic(raw, "resource")

    def listed(version: int, *types: int) -> Any:
        return raw.call(request(74, version, resource_types=types))

    found = {(each.resource_type, each.resource_name) for each in listed(1).config_resources}
    assert {(2, "resource"), (4, "1")} <= found and {kind for kind, _ in found} == {2, 4}
    assert {each.resource_type for each in listed(1, 4, 32).config_resources} == {4}
    assert listed(1, 3).error_code.name == "unsupported_version"
    assert listed(0).config_resources == ()


def _parts(client: RawClient, limit: int, at: tuple[str, int] | None = None, names: Any = ()) -> Any:
    topics = [{"name": name} for name in names]
    cursor = at and {"topic_name": at[0], "partition_index": at[1]}
    return client.call(request(75, 0, topics=topics, response_partition_limit=limit, cursor=cursor))


def test_partitions_are_described_from_a_cursor_on(raw: RawClient) -> None:
    create_topic(raw, "cursor.a", 3)
    create_topic(raw, "cursor.b", 2)
    names = ("cursor.b", "cursor.none", "cursor.a", "cursor.a", "a b")
    found: list[tuple[str, str, tuple[int, ...]]] = []
    at: tuple[str, int] | None = None
    for _ in range(4):
        answer = _parts(raw, 2, at, names)
        found += [
            (topic.name, topic.error_code.name, tuple(each.partition_index for each in topic.partitions))
            for topic in answer.topics
        ]
        if answer.next_cursor is None:
            break
        at = answer.next_cursor.topic_name, answer.next_cursor.partition_index
    assert found == [
        ("a b", "invalid_topic_exception", ()),
        ("cursor.a", "none", (0,)),
        ("cursor.a", "none", (1, 2)),
        ("cursor.b", "none", (0, 1)),
        ("cursor.none", "unknown_topic_or_partition", ()),
    ]
    assert answer.next_cursor is None
    (topic,) = _parts(raw, 2_000, ("cursor.a", 9), ["cursor.a"]).topics
    assert topic.partitions == ()
    (topic,) = _parts(raw, -5, None, ["cursor.a"]).topics
    (first,) = topic.partitions
    assert (first.leader_id, first.replica_nodes, first.isr_nodes) == (1, (1,), (1,))
    (topic,) = _parts(raw, 5, ("a", -1), ["cursor.a"]).topics
    assert topic.error_code.name == "invalid_request"
    everything = [topic.name for topic in _parts(raw, 2_000, ("cursor.a", 0)).topics]
    assert everything[:2] == ["cursor.a", "cursor.b"] and everything == sorted(everything)


def _values(client: RawClient, name: str) -> dict[str, str]:
    return {each.name: each.value for each in _describe(client, name).configs if each.config_source == 1}


def _alter(client: RawClient, name: str, configs: list[dict[str, Any]], validate_only: bool = False) -> Any:
    resource = {"resource_type": 2, "resource_name": name, "configs": configs}
    return client.call(request(44, 1, resources=[resource], validate_only=validate_only)).responses[0]


def test_altering_configs_by_increments(raw: RawClient) -> None:
    create_topic(raw, "altered", retention_ms="5000", segment_ms="60000")

    def change(name: str, operation: int, value: str | None, validate_only: bool = False) -> Any:
        config = {"name": name, "config_operation": operation, "value": value}
        return _alter(raw, "altered", [config], validate_only)

    assert change("retention.ms", 0, "7000").error_code.value == 0
    assert _values(raw, "altered") == {"retention.ms": "7000", "segment.ms": "60000"}, "the others stay"
    assert change("segment.ms", 1, None).error_code.value == 0
    assert change("cleanup.policy", 2, "compact").error_code.value == 0
    assert _values(raw, "altered") == {"retention.ms": "7000", "cleanup.policy": "delete,compact"}
    assert change("cleanup.policy", 3, "delete").error_code.value == 0
    assert _values(raw, "altered")["cleanup.policy"] == "compact"
    assert change("retention.ms", 2, "1").error_code.name == "invalid_config"
    assert change("retention.ms", 9, "1").error_code.name == "invalid_config"
    assert change("no.such.key", 0, "1").error_code.name == "invalid_config"
    assert change("retention.ms", 0, "x").error_message.startswith("Invalid value x")
    assert change("retention.ms", 0, "1", validate_only=True).error_code.value == 0
    assert _values(raw, "altered")["retention.ms"] == "7000"
    assert _alter(raw, "missing", []).error_code.name == "unknown_topic_or_partition"


def test_altering_configs_as_a_whole(raw: RawClient) -> None:
    create_topic(raw, "replaced", retention_ms="5000", segment_ms="60000")
    resource = {
        "resource_type": 2,
        "resource_name": "replaced",
        "configs": [{"name": "retention.ms", "value": "1"}],
    }
    answer = raw.call(request(33, 2, resources=[resource], validate_only=False)).responses[0]
    assert answer.error_code.value == 0
    assert _values(raw, "replaced") == {"retention.ms": "1"}
    twice = raw.call(request(33, 2, resources=[resource, resource], validate_only=False)).responses
    assert {each.error_code.name for each in twice} == {"invalid_request"}
    on_broker = resource | {"resource_type": 4, "resource_name": "1"}
    refused = raw.call(request(33, 2, resources=[on_broker], validate_only=False)).responses[0]
    assert refused.error_code.name == "invalid_config", "a topic's name for it"


def test_configs_of_brokers_lie_below_those_of_topics(raw: RawClient) -> None:
    create_topic(raw, "layered", segment_ms="60000")

    def alter(name: str, key: str, value: str | None) -> None:
        config = {"name": key, "config_operation": 0 if value else 1, "value": value}
        resource = {"resource_type": 4, "resource_name": name, "configs": [config]}
        (answer,) = raw.call(request(44, 1, resources=[resource], validate_only=False)).responses
        assert answer.error_code.value == 0, answer

    def shown(key: str) -> tuple[str, int]:
        (one,) = _describe(raw, "layered", keys=[key]).configs
        return one.value, one.config_source

    alter("", "log.roll.ms", "70000")
    alter("", "log.retention.ms", "70000")
    assert shown("retention.ms") == ("70000", 3)
    alter("1", "log.retention.ms", "80000")
    assert shown("retention.ms") == ("80000", 2)
    assert shown("segment.ms") == ("60000", 1), "the topic's own layer stays"
    assert [each.name for each in _describe(raw, "", kind=4).configs] == ["log.retention.ms", "log.roll.ms"]
    for name, key in (("", "log.roll.ms"), ("", "log.retention.ms"), ("1", "log.retention.ms")):
        alter(name, key, None)
    assert shown("retention.ms")[1] == 5


def test_producer_ids_and_transactions(raw: RawClient) -> None:
    def init(transactional_id: str | None) -> Any:
        return raw.call(
            request(
                22,
                4,
                transactional_id=transactional_id,
                transaction_timeout=_TIMEOUT,
                producer_id=-1,
                producer_epoch=-1,
            )
        )

    first, second = init(None), init(None)
    assert second.producer_id > first.producer_id
    assert (first.producer_epoch, first.error_code.value) == (0, 0)
    transactional = init("tx")
    assert (transactional.error_code.value, transactional.producer_epoch) == (0, 0)
    again = init("tx")
    assert (again.producer_id, again.producer_epoch) == (transactional.producer_id, 1)
    assert init("").error_code.name == "invalid_request"


def test_metadata_lists_and_refuses(raw: RawClient) -> None:
    create_topic(raw, "listed", 3)
    everything = raw.call(request(3, 11, topics=None, allow_auto_topic_creation=False))
    names = {each.name: each for each in everything.topics}
    assert len(names["listed"].partitions) == 3
    assert names["__consumer_offsets"].is_internal
    assert raw.call(request(3, 1, topics=())).topics == ()
    assert len(raw.call(request(3, 0, topics=())).topics) == len(names)
    wrong = raw.call(request(3, 9, topics=[{"name": "a b"}, {"name": "missing"}])).topics
    assert [each.error_code.name for each in wrong] == [
        "invalid_topic_exception",
        "unknown_topic_or_partition",
    ]


def test_everything_survives_a_clean_restart(tmp_path_factory: pytest.TempPathFactory) -> None:
    with running_broker(tmp_path_factory.mktemp("restart")) as broker:
        with RawClient(broker.port) as client:
            created = _create(
                client,
                {
                    "name": "kept",
                    "num_partitions": 2,
                    "configs": [{"name": "retention.ms", "value": "9999999"}],
                },
            )
            produce(client, "kept", batch(b"v"), partition=1)
            _delete_records(client, "kept", -1)
        assert broker.stop() == 0
        broker.start()
        with RawClient(broker.port) as client:
            (topic,) = client.call(request(3, 11, topics=[{"topic_id": None, "name": "kept"}])).topics
            assert topic.topic_id == created.topic_id
            assert _values(client, "kept") == {"retention.ms": "9999999"}
            assert fetch(client, "kept", 0, partition=1).high_watermark == 1
        assert broker.metrics()["portico_broker_recovered_bytes_total"] == 0, (
            "a clean shutdown needs no recovery"
        )

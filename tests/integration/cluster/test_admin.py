"""Admin requests of real clients, and what is answered by which broker."""

from functools import partial
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)
from kafka.admin import KafkaAdminClient
from kafka.admin import NewTopic as PythonTopic

from tests.integration.broker.raw import RawClient, request
from tests.integration.cluster.brokers import SECRET, Cluster, eventually
from wire.codec import duration

_TIMEOUT = duration(10_000)


def _not_controller(cluster: Cluster) -> int:
    controller = cluster.controller_id()
    return next(each for each in cluster.brokers if each != controller)


def test_every_broker_tells_the_same_cluster(cluster: Cluster) -> None:
    cluster.create("same", 6)
    answers = [
        eventually(partial(cluster.metadata, "same", node_id=node_id), lambda a: len(a.brokers) == 3)
        for node_id in cluster.brokers
    ]
    for answer in answers:
        assert answer.brokers == answers[0].brokers
        assert answer.controller_id == answers[0].controller_id
        assert answer.cluster_id == "portico"
        (topic,) = answer.topics
        assert [sorted(each.replica_nodes) for each in topic.partitions] == [[1, 2, 3]] * 6
        assert {each.leader_id for each in topic.partitions} == {1, 2, 3}, "leaders are spread"
        assert all(each.offline_replicas == () for each in topic.partitions)
    described = cluster.call(2, request(60, 0))
    assert [each.broker_id for each in described.brokers] == [1, 2, 3]
    assert described.controller_id == answers[0].controller_id


def test_librdkafkas_admin(cluster: Cluster) -> None:
    admin = AdminClient(cluster.config())
    topic = NewTopic("by.librdkafka", 2, 3, config={"retention.ms": "5000"})
    admin.create_topics([topic])["by.librdkafka"].result(20)
    admin.create_partitions([NewPartitions("by.librdkafka", 5)])["by.librdkafka"].result(20)
    assert len(admin.list_topics("by.librdkafka", timeout=10).topics["by.librdkafka"].partitions) == 5
    resource = ConfigResource(ResourceType.TOPIC, "by.librdkafka")
    changed = ConfigEntry("segment.ms", "70000", incremental_operation=AlterConfigOpType.SET)
    resource.add_incremental_config(changed)
    admin.incremental_alter_configs([resource])[resource].result(20)
    configs = admin.describe_configs([ConfigResource(ResourceType.TOPIC, "by.librdkafka")])
    (found,) = [each.result(20) for each in configs.values()]
    assert (found["retention.ms"].value, found["segment.ms"].value) == ("5000", "70000")
    assert found["min.insync.replicas"].value == "2", "with three replicas"
    cluster_facts = admin.describe_cluster().result(20)
    assert sorted(node.id for node in cluster_facts.nodes) == [1, 2, 3]
    with pytest.raises(KafkaException, match="already exists"):
        admin.create_topics([NewTopic("by.librdkafka", 1, 3)])["by.librdkafka"].result(20)
    with pytest.raises(KafkaException, match="replication factor"):
        admin.create_topics([NewTopic("too.many", 1, 4)])["too.many"].result(20)
    admin.delete_topics(["by.librdkafka"])["by.librdkafka"].result(20)
    for node_id in cluster.brokers:
        eventually(
            partial(cluster.metadata, "by.librdkafka", node_id=node_id),
            lambda answer: answer.topics[0].error_code.name == "unknown_topic_or_partition",
        )


def test_kafka_pythons_admin(cluster: Cluster) -> None:
    admin = KafkaAdminClient(
        bootstrap_servers=cluster.addresses,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_plain_username="portico",
        sasl_plain_password=SECRET,
    )
    try:
        admin.create_topics([PythonTopic("by.python", 3, 2)])
        (described,) = admin.describe_topics(["by.python"])
        assert {len(each["replica_nodes"]) for each in described["partitions"]} == {2}
        admin.delete_topics(["by.python"])
    finally:
        admin.close()


def _create(client: RawClient, name: str, **changes: Any) -> Any:
    topic = {"name": name, "num_partitions": 1, "replication_factor": 3, "assignments": (), "configs": ()}
    wanted = request(19, 5, topics=[topic | changes], timeout=_TIMEOUT, validate_only=False)
    return client.call(wanted).topics[0]


def test_only_the_controller_executes(cluster: Cluster) -> None:
    with cluster.client(_not_controller(cluster)) as client:
        assert _create(client, "elsewhere").error_code.name == "not_controller"
        deleted = client.call(request(20, 5, topic_names=["elsewhere"], timeout=_TIMEOUT)).responses[0]
        assert deleted.error_code.name == "not_controller"
        grown = {"name": "elsewhere", "count": 2, "assignments": None}
        answer = client.call(request(37, 3, topics=[grown], timeout=_TIMEOUT, validate_only=False))
        assert answer.results[0].error_code.name == "not_controller"
        elected = client.call(request(43, 2, election_type=0, topic_partitions=None, timeout=_TIMEOUT))
        assert elected.error_code.name == "not_controller"
        moved = client.call(request(45, 0, topics=[], timeout=_TIMEOUT))
        assert moved.error_code.name == "not_controller"
        listed = client.call(request(46, 0, topics=None, timeout=_TIMEOUT))
        assert listed.error_code.name == "not_controller"


def test_configs_are_changed_at_any_broker_and_known_at_all(cluster: Cluster) -> None:
    cluster.create("configured", 1)
    asked, other = _not_controller(cluster), cluster.controller_id()
    change = {"name": "retention.ms", "config_operation": 0, "value": "1234"}
    resource = {"resource_type": 2, "resource_name": "configured", "configs": [change]}
    (answer,) = cluster.call(asked, request(44, 1, resources=[resource], validate_only=False)).responses
    assert answer.error_code.value == 0

    def shown(node_id: int) -> str:
        wanted = {"resource_type": 2, "resource_name": "configured", "configuration_keys": ["retention.ms"]}
        (result,) = cluster.call(node_id, request(32, 1, resources=[wanted], include_synonyms=False)).results
        return str(result.configs[0].value)

    assert shown(asked) == "1234", "when the answer leaves, this broker knows"
    eventually(lambda: shown(other), lambda value: value == "1234")


def test_explicit_assignments_and_reassignment(cluster: Cluster) -> None:
    controller = cluster.controller_id()
    with cluster.client(controller) as client:
        assignments = [
            {"partition_index": 0, "broker_ids": [1, 2]},
            {"partition_index": 1, "broker_ids": [3, 1]},
        ]
        made = _create(client, "assigned", num_partitions=-1, replication_factor=-1, assignments=assignments)
        assert made.error_code.value == 0
        assert cluster.partition("assigned", 0).replica_nodes == (1, 2)
        target = {"name": "assigned", "partitions": [{"partition_index": 0, "replicas": (3, 2)}]}
        begun = client.call(request(45, 0, topics=[target], timeout=_TIMEOUT))
        assert begun.error_code.value == 0
        assert begun.responses[0].partitions[0].error_code.value == 0
        eventually(
            lambda: client.call(request(46, 0, topics=None, timeout=_TIMEOUT)).topics,
            lambda topics: topics == (),
        )
    moved = eventually(
        lambda: cluster.partition("assigned", 0, node_id=controller),
        lambda each: sorted(each.replica_nodes) == [2, 3],
    )
    assert sorted(moved.isr_nodes) == [2, 3]
    directory = cluster.brokers[1].data_dir / "logs" / "assigned-0"
    eventually(directory.exists, lambda there: not there)


def test_preferred_leaders_come_back_when_asked(cluster: Cluster) -> None:
    cluster.create("preferred", 3)
    with cluster.client(cluster.controller_id()) as client:
        wanted = {"topic": "preferred", "partitions": (0, 1, 2)}
        answer = client.call(request(43, 2, election_type=0, topic_partitions=[wanted], timeout=_TIMEOUT))
        codes = {each.error_code.name for each in answer.replica_election_results[0].partition_result}
        assert codes == {"election_not_needed"}

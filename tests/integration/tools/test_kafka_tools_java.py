"""Apache Kafka's own command line tools against our brokers."""

import json
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from tests.integration.kafka_jars import run_java
from tests.integration.tools.conftest import Tools
from tests.integration.tools.test_cluster_tools import login

pytestmark = pytest.mark.java

TOOLS = "org.apache.kafka.tools"
TOPICS = f"{TOOLS}.TopicCommand"
REASSIGN = f"{TOOLS}.reassign.ReassignPartitionsCommand"
ELECT = f"{TOOLS}.LeaderElectionCommand"
GROUPS = f"{TOOLS}.consumer.group.ConsumerGroupCommand"
LOG_DIRS = f"{TOOLS}.LogDirsCommand"
TRANSACTIONS = f"{TOOLS}.TransactionsCommand"
CONFIGS = "kafka.admin.ConfigCommand"


class Kafka:
    """Kafka's tools with the brokers' login."""

    def __init__(self, tools: Tools, directory: Path) -> None:
        self.tools = tools
        settings = login(tools)
        self.bootstrap = settings["bootstrap.servers"]
        self.settings = directory / "client.properties"
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        secret = settings["sasl.password"]
        self.settings.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
            f'sasl.jaas.config={module} required username="portico" password="{secret}";\n'
        )

    def __call__(self, tool: str, *arguments: str) -> str:
        """What a tool prints."""
        option = "--admin.config" if tool == ELECT else "--command-config"
        done = run_java(tool, "--bootstrap-server", self.bootstrap, option, str(self.settings), *arguments)
        output = done.stdout + done.stderr
        assert done.returncode == 0 and "Exception" not in output, output
        return output


@pytest.fixture
def kafka(tools: Tools, tmp_path: Path) -> Kafka:
    return Kafka(tools, tmp_path)


def test_kafka_topics(kafka: Kafka) -> None:
    kafka(TOPICS, "--create", "--topic", "jt", "--partitions", "3", "--config", "retention.ms=100000")
    kafka(TOPICS, "--alter", "--topic", "jt", "--partitions", "4")
    described = kafka(TOPICS, "--describe", "--topic", "jt")
    assert "PartitionCount: 4" in described and "ReplicationFactor: 3" in described
    assert "retention.ms=100000" in described and described.count("Isr: ") == 4
    assert "Topic: jt" not in kafka(TOPICS, "--describe", "--under-replicated-partitions")
    assert "Topic: jt" not in kafka(TOPICS, "--describe", "--unavailable-partitions")
    assert "jt" in kafka(TOPICS, "--list").splitlines()
    kafka(TOPICS, "--delete", "--topic", "jt")
    assert "jt" not in kafka(TOPICS, "--list").splitlines()


def test_kafka_configs(kafka: Kafka) -> None:
    kafka.tools.run("cluster", "topic", "create", "jc")
    topic = ("--entity-type", "topics", "--entity-name", "jc")
    kafka(CONFIGS, "--alter", *topic, "--add-config", "retention.ms=5000,cleanup.policy=[compact,delete]")
    assert "retention.ms=5000" in kafka(CONFIGS, "--describe", *topic)
    kafka(CONFIGS, "--alter", *topic, "--delete-config", "retention.ms")
    described = kafka(CONFIGS, "--describe", *topic)
    assert "retention.ms" not in described and "cleanup.policy=compact,delete" in described
    broker = ("--entity-type", "brokers", "--entity-name", "1")
    kafka(CONFIGS, "--alter", *broker, "--add-config", "leader.replication.throttled.rate=1000000")
    assert "throttled.rate=1000000" in kafka(CONFIGS, "--describe", *broker)
    kafka(CONFIGS, "--alter", *broker, "--delete-config", "leader.replication.throttled.rate")
    assert "throttled" not in kafka(CONFIGS, "--describe", *broker)


def test_kafka_reassign_partitions_and_leader_election(kafka: Kafka, tmp_path: Path) -> None:
    kafka.tools.run("cluster", "topic", "create", "jr", "--replica-assignment", "1:2,2:3")
    topics, plan = tmp_path / "topics.json", tmp_path / "plan.json"
    topics.write_text(json.dumps({"topics": [{"topic": "jr"}], "version": 1}))
    made = kafka(REASSIGN, "--generate", "--topics-to-move-json-file", str(topics), "--broker-list", "1,2,3")
    assert "Proposed partition reassignment configuration" in made
    plan.write_text(
        json.dumps({"version": 1, "partitions": [{"topic": "jr", "partition": 0, "replicas": [3, 1]}]})
    )
    file = ("--reassignment-json-file", str(plan))
    begun = kafka(REASSIGN, "--execute", *file, "--throttle", "50000000")
    assert "Successfully started partition reassignment" in begun
    deadline = time.monotonic() + 30
    while "is completed" not in (said := kafka(REASSIGN, "--verify", *file)):
        assert time.monotonic() < deadline, said
    assert "Clearing topic-level throttles" in said
    assert "No partition reassignments found" in kafka(REASSIGN, "--list")
    elected = kafka(ELECT, "--election-type", "preferred", "--topic", "jr", "--partition", "0")
    assert "jr-0" in elected
    assert "Leader: 3" in kafka(TOPICS, "--describe", "--topic", "jr")


def test_kafka_consumer_groups_log_dirs_and_transactions(kafka: Kafka) -> None:
    settings = login(kafka.tools)
    kafka.tools.run("cluster", "topic", "create", "jg")
    producer = Producer(settings | {"transactional.id": "jtx"})
    producer.init_transactions(20)
    producer.begin_transaction()
    for number in range(20):
        producer.produce("jg", str(number))
    producer.commit_transaction(20)
    consumer = Consumer(settings | {"group.id": "jgroup", "auto.offset.reset": "earliest"})
    consumer.subscribe(["jg"])
    deadline = time.monotonic() + 20
    seen = 0
    while seen < 20 and time.monotonic() < deadline:
        seen += len(consumer.consume(100, 0.5))
    consumer.commit(asynchronous=False)
    consumer.close()
    assert seen == 20
    assert "jgroup" in kafka(GROUPS, "--list").splitlines()
    group = ("--group", "jgroup", "--topic", "jg")
    kafka(GROUPS, "--reset-offsets", *group, "--shift-by", "-5", "--execute")
    described = kafka(GROUPS, "--describe", "--group", "jgroup").split()
    at = described.index("jg")
    assert described[at + 1] == "0"
    assert described[at + 2] in ("15", "16"), "the marker may have been passed"
    assert '"partition":"jg-0"' in kafka(LOG_DIRS, "--describe", "--topic-list", "jg")
    listed = kafka(TRANSACTIONS, "list")
    assert "jtx" in listed and "CompleteCommit" in listed
    assert "jg" not in kafka(TRANSACTIONS, "find-hanging", "--topic", "jg").replace("jgroup", "")

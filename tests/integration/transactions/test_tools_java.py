"""Apache Kafka's own transactional tools, which are Java clients, against one broker."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.integration.broker.process import BrokerProcess, running_broker
from tests.integration.kafka_jars import run_java
from tests.integration.transactions.clients import TIMEOUT_S, producer, read, write

pytestmark = pytest.mark.java


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with running_broker(tmp_path) as running:
        admin = AdminClient({"bootstrap.servers": running.address})
        wanted = [NewTopic(name, 2, 1) for name in ("copy", "open")] + [NewTopic("source", 1, 1)]
        for future in admin.create_topics(wanted).values():
            future.result(TIMEOUT_S)
        yield running


def _transactions(broker: BrokerProcess, *arguments: str) -> str:
    tool = "org.apache.kafka.tools.TransactionsCommand"
    ran = run_java(tool, "--bootstrap-server", broker.address, *arguments)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_an_exactly_once_copy_with_random_aborts(broker: BrokerProcess) -> None:
    config = {"bootstrap.servers": broker.address}
    source = Producer(config)
    for each in range(1_000):
        source.produce("source", str(each).encode())
    source.flush(TIMEOUT_S)
    ran = run_java(
        "org.apache.kafka.tools.TransactionalMessageCopier",
        *("--broker-list", broker.address, "--input-topic", "source", "--input-partition", "0"),
        *("--output-topic", "copy", "--consumer-group", "copier", "--transactional-id", "copier"),
        *("--transaction-size", "50", "--max-messages", "1000", "--enable-random-aborts", "--group-mode"),
        timeout_s=90,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    values = read(config, "copy", 1_000, partitions=2)
    assert sorted(values, key=int) == [str(each) for each in range(1_000)]
    assert "copier" in _transactions(broker, "list")


def test_transactions_are_listed_described_and_aborted(broker: BrokerProcess) -> None:
    config = {"bootstrap.servers": broker.address}
    hanging = producer(config, "hanging")
    hanging.begin_transaction()
    hanging.produce("open", b"never", partition=0)
    hanging.flush(TIMEOUT_S)
    assert "Ongoing" in _transactions(broker, "describe", "--transactional-id", "hanging")
    producers = _transactions(broker, "describe-producers", "--topic", "open", "--partition", "0")
    assert len(producers.splitlines()) == 2
    assert "open" not in _transactions(broker, "find-hanging", "--topic", "open")
    _transactions(broker, "abort", "--topic", "open", "--partition", "0", "--start-offset", "0")
    other = producer(config, "other")
    write(other, "open", ["kept"], commit=True)
    assert read(config, "open", 1, partitions=2) == ["kept"]

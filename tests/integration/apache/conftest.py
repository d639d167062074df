"""One Apache Kafka of three brokers, and one stack in front of it, for all tests that leave them whole."""

from collections.abc import Iterator

import pytest

from ctl.bench.apache_kafka import KafkaBroker, kafka_cluster
from tests.integration.stack import Stack, running_stack

FEW = {
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
    "quota.window.num": "2",  # as docs/backends.md says
}


@pytest.fixture(scope="package")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[KafkaBroker]]:
    """Its brokers."""
    with kafka_cluster(tmp_path_factory.mktemp("kafka"), settings=FEW, heap="512m") as brokers:
        yield brokers


@pytest.fixture(scope="package")
def backend(kafka: list[KafkaBroker]) -> str:
    """Where it is."""
    return ",".join(f"127.0.0.1:{broker.port}" for broker in kafka)


@pytest.fixture(scope="package")
def stack(backend: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The whole product, without brokers of its own."""
    directory = tmp_path_factory.mktemp("stack") / "data"
    soon = ("--deletion-grace", "0", "--usage-interval-ms", "1000")
    with running_stack(directory, "--backend", backend, "--workers", "2", *soon) as running:
        yield running

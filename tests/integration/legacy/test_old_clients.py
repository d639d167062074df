"""kafka-python 2.0.2 with the versions of Kafka 0.9 and 0.10 through the gateway, beside modern clients."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.integration.broker.process import running_broker
from tests.integration.gateway.processes import GatewayProcess, running_gateway_process
from tests.lately import LATELY_MS
from tests.scenarios.harness import A, B, instance_spec

OLD_CLIENTS = Path(sys.prefix) / "old-clients"
CODECS = ("none", "gzip", "snappy", "lz4")
COUNT = 20
VERSIONS = pytest.mark.parametrize("version", [(0, 9), (0, 10)], ids=["0.9", "0.10"])


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    if not OLD_CLIENTS.exists():
        pytest.skip(f"kafka-python 2.0.2 is not in {OLD_CLIENTS}: `./portico test` installs it")
    directory = tmp_path_factory.mktemp("legacy")
    specs = [instance_spec(A, legacy_clients=True), instance_spec(B)]
    with (
        running_broker(directory) as broker,
        running_gateway_process(directory, broker.port, *specs) as running,
    ):
        yield running


def old_client(
    gateway: GatewayProcess, do: str, version: tuple[int, int], *, instance: str = A, **task: Any
) -> Any:
    """What the old client's process answers."""
    given = {"do": do, "bootstrap": gateway.bootstrap(instance), "api_version": version, **task}
    script = str(Path(__file__).with_name("old_client.py"))
    run = subprocess.run(
        [sys.executable, script, json.dumps(given)],
        env=os.environ | {"PYTHONPATH": str(OLD_CLIENTS)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    return json.loads(run.stdout)


def create(gateway: GatewayProcess, topic: str, partitions: int = 2, **config: str) -> str:
    admin = AdminClient({"bootstrap.servers": gateway.bootstrap(A)})
    admin.create_topics([NewTopic(topic, partitions, 1, config=config)])[topic].result(10)
    return topic


def produced_by_confluent(gateway: GatewayProcess, topic: str, codec: str, values: list[str]) -> None:
    settings = {"bootstrap.servers": gateway.bootstrap(A), "compression.type": codec, "linger.ms": 20}
    producer = Producer(settings)
    for value in values:
        producer.produce(topic, value, key="k", headers=[("no", b"form"), ("in", b"v1")], timestamp=LATELY_MS)
    assert producer.flush(20) == 0


def consumed_by_confluent(gateway: GatewayProcess, topic: str, count: int) -> list[Any]:
    consumer = Consumer(
        {"bootstrap.servers": gateway.bootstrap(A), "group.id": "modern", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    found: list[Any] = []
    deadline = time.monotonic() + 20
    while len(found) < count and time.monotonic() < deadline:
        for message in consumer.consume(500, 0.2):
            assert message.error() is None
            found.append(message)
    consumer.close()
    return found


@VERSIONS
def test_old_producers_and_consumers_beside_modern_ones(
    gateway: GatewayProcess, version: tuple[int, int]
) -> None:
    topic = create(gateway, f"old-{version[1]}")
    sent = old_client(gateway, "produce", version, topic=topic, count=COUNT)
    assert set(sent) == {f"{codec} {number}" for codec in CODECS for number in range(COUNT)}

    seen = consumed_by_confluent(gateway, topic, len(sent))
    assert {m.value().decode(): [m.partition(), m.offset()] for m in seen} == sent
    assert all(m.key().decode() == f"k{m.value().decode().split()[1]}" for m in seen)
    has_time = version >= (0, 10)
    assert all((m.timestamp()[1] > LATELY_MS) is has_time for m in seen)

    modern = {codec: [f"modern {codec} {number}" for number in range(COUNT)] for codec in (*CODECS, "zstd")}
    for codec, values in modern.items():
        produced_by_confluent(gateway, topic, codec, values)
    values = [*sent, *(value for group in modern.values() for value in group)]
    found = old_client(
        gateway, "consume", version, topic=topic, group="g", count=len(values), quiet_ms=10_000
    )
    assert sorted(row[3] for row in found["records"]) == sorted(values)
    offsets = {text: [partition, offset] for partition, offset, _, text in found["records"]}
    assert {text: offsets[text] for text in sent} == sent
    stamps = {row[2] for row in found["records"] if row[3].startswith("modern")}
    assert stamps == ({LATELY_MS} if has_time else {None})
    assert sum(found["committed"].values()) == len(values)
    again = old_client(gateway, "consume", version, topic=topic, group="g", count=1, quiet_ms=1500)
    assert again["records"] == []


@VERSIONS
def test_offsets_and_limits_of_old_clients(gateway: GatewayProcess, version: tuple[int, int]) -> None:
    topic = create(gateway, f"offsets-{version[1]}", 1)
    produced_by_confluent(gateway, topic, "gzip", ["a", "b", "x" * 5000, "c"])
    assert old_client(gateway, "offsets", version, topic=topic) == [0, 4]
    assert (
        old_client(gateway, "too_large", version, topic=topic, bytes_max=1000, count=4)
        == "RecordTooLargeError"
    )
    assert old_client(gateway, "too_large", version, topic=topic, bytes_max=6000, count=4) == [0, 1, 2, 3]


def test_what_an_old_producer_may_not_write(gateway: GatewayProcess) -> None:
    compacted = create(gateway, "compacted", 1, **{"cleanup.policy": "compact"})
    small = create(gateway, "small", 1, **{"max.message.bytes": "2000"})

    def one(topic: str, key: str | None, value: str) -> Any:
        return old_client(gateway, "produce_one", (0, 9), topic=topic, key=key, value=value)

    assert one(compacted, None, "v") is not None
    assert one(compacted, "k", "v") is None
    assert one(small, "k", "v" * 3000) == "MessageSizeTooLargeError"
    assert one(small, "k", "v") is None


def test_an_instance_that_does_not_serve_them(gateway: GatewayProcess) -> None:
    admin = AdminClient({"bootstrap.servers": gateway.bootstrap(B)})
    admin.create_topics([NewTopic("modern", 1, 1)])["modern"].result(10)
    task = {"topic": "modern", "key": "k", "value": "v"}
    assert old_client(gateway, "produce_one", (0, 9), instance=B, **task) is not None
    gateway.serve(msgspec.structs.replace(gateway.specs[B], legacy_clients=True))
    deadline = time.monotonic() + 10
    while old_client(gateway, "produce_one", (0, 9), instance=B, **task) is not None:
        assert time.monotonic() < deadline, "the switch takes effect without a restart"

"""Apache Kafka's newest consumer, which fetches by topic ids, against two instances with equal names."""

import subprocess
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from contracts.specs import Limits
from ctl.kafka.jars import DEFAULT_VERSION, class_path
from tests.integration.broker.process import running_broker
from tests.integration.gateway.processes import running_gateway_process
from tests.scenarios.harness import A, B, instance_spec

pytestmark = pytest.mark.java

RECORDS = 300
_CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"


def _consumed(bootstrap: str, *properties: str) -> list[str]:
    command = ["java", "-Xmx256m", "-cp", class_path(DEFAULT_VERSION), _CONSOLE_CONSUMER]
    command += ["--bootstrap-server", bootstrap, "--topic", "orders", "--from-beginning"]
    command += ["--max-messages", str(RECORDS), "--timeout-ms", "60000"]
    for each in properties:
        command += ["--command-property", each]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    return sorted(done.stdout.split())


def test_each_instance_gets_its_own(tmp_path: Path) -> None:
    specs = [instance_spec(one, limits=Limits(partitions_max=20)) for one in (A, B)]
    with (
        running_broker(tmp_path) as broker,
        running_gateway_process(tmp_path, broker.port, *specs) as gateway,
    ):
        for one in (A, B):
            admin = AdminClient({"bootstrap.servers": gateway.bootstrap(one)})
            admin.create_topics([NewTopic("orders", 3, 1)])["orders"].result(20)
            producer = Producer({"bootstrap.servers": gateway.bootstrap(one)})
            for number in range(RECORDS):
                producer.produce("orders", f"{one}-{number}".encode())
            assert producer.flush(30) == 0
        for properties in ((), ("group.protocol=consumer",), ("isolation.level=read_committed",)):
            for one in (A, B):
                expected = sorted(f"{one}-{number}" for number in range(RECORDS))
                assert _consumed(gateway.bootstrap(one), *properties) == expected

"""A Java producer tells of itself at an instance on an Apache Kafka: its pushes end at the gateway."""

import time
from typing import Any

import pytest

from tests.integration.kafka_jars import run_java
from tests.integration.stack import Stack

pytestmark = pytest.mark.java
_PRODUCER = "org.apache.kafka.tools.VerifiableProducer"
_METRICS = "org.apache.kafka.tools.ClientMetricsCommand"


def _told(stack: Stack, instance_id: str, within_s: float = 60.0) -> Any:
    """The Java client, as soon as it has told of its requests."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        found = stack.api("GET", f"instances/{instance_id}/clients")["items"]
        java = [one for one in found if one["software_name"] == "apache-kafka-java"]
        if told := [one for one in java if one["shown"]["request_latency_avg_ms"] is not None]:
            return told[0]
        time.sleep(0.2)
    raise AssertionError(found)


def test_a_java_producer_at_an_apache_kafka_tells_of_itself(stack: Stack, backend: str) -> None:
    made = stack.create_instance("told-by-java")
    servers = made["bootstrap_servers"]
    stack.api("POST", f"instances/{made['id']}/topics", {"name": "orders", "partitions": 1})
    wanted = ("--metrics", "org.apache.kafka.producer.", "--interval", "1000")
    done = run_java(_METRICS, "--bootstrap-server", servers, "--alter", "--name", "quick", *wanted)
    assert done.returncode == 0, done.stdout + done.stderr
    produced = ("--topic", "orders", "--max-messages", "300", "--throughput", "30")
    done = run_java(_PRODUCER, "--bootstrap-server", servers, *produced)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "org.apache.kafka.producer.batch.size.avg" in _told(stack, made["id"])["metrics"]
    done = run_java(_METRICS, "--bootstrap-server", backend, "--list")
    assert done.returncode == 0 and "quick" not in done.stdout, "the cluster behind it knows of nothing"

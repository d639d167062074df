"""Kafka's own tool subscribes to client metrics of an instance, and a Java producer tells of itself."""

import time
from typing import Any

import pytest

from tests.integration.kafka_jars import run_java
from tests.integration.tools.conftest import Tools

pytestmark = pytest.mark.java

METRICS = "org.apache.kafka.tools.ClientMetricsCommand"
PRODUCER = "org.apache.kafka.tools.VerifiableProducer"


def _gone(tools: Tools, instance_id: str, within_s: float = 30.0) -> Any:
    """The Java client that has told of its requests, as soon as it is known to be gone."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        found = tools.stack.api("GET", f"instances/{instance_id}/clients")["items"]
        java = [one for one in found if one["software_name"] == "apache-kafka-java"]
        told = [one for one in java if one["shown"]["request_latency_avg_ms"] is not None]
        if told and told[0]["state"] in ("ended", "disconnected"):
            return told[0]
        time.sleep(0.2)
    raise AssertionError(found)


def test_kafka_client_metrics_and_a_java_producer(tools: Tools) -> None:
    made = tools.stack.create_instance("told")
    servers = made["bootstrap_servers"]
    tools.stack.api("POST", f"instances/{made['id']}/topics", {"name": "orders", "partitions": 1})

    def metrics(*arguments: str) -> str:
        done = run_java(METRICS, "--bootstrap-server", servers, *arguments)
        assert done.returncode == 0 and "Exception" not in done.stdout + done.stderr, (
            done.stdout + done.stderr
        )
        return done.stdout

    asked = (
        "--metrics",
        "org.apache.kafka.producer.",
        "--interval",
        "1000",
        "--match",
        "client_software_name=.*java",
    )
    metrics("--alter", "--name", "quick", *asked)
    assert "quick" in metrics("--list").splitlines()
    described = metrics("--describe", "--name", "quick")
    assert "interval.ms=1000" in described and "org.apache.kafka.producer." in described
    produced = ("--topic", "orders", "--max-messages", "300", "--throughput", "30")
    done = run_java(PRODUCER, "--bootstrap-server", servers, *produced)
    assert done.returncode == 0, done.stdout + done.stderr
    # Closed with nothing in flight it sends no last push; its connection has ended all the same.
    told = _gone(tools, made["id"])
    assert told["shown"]["retries"] == 0
    assert "org.apache.kafka.producer.batch.size.avg" in told["metrics"], "what was subscribed to besides"
    metrics("--delete", "--name", "quick")
    assert "quick" not in metrics("--list").splitlines()

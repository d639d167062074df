"""Who is connected to an instance, as its operator and its neighbour are told."""

import socket
import time
from typing import Any

from confluent_kafka import Consumer, Producer

from tests.integration.stack import Stack


def _connections(stack: Stack, instance: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = stack.api("GET", f"instances/{instance['id']}/connections")
    return found


def test_each_client_is_told_with_what_it_carries_and_to_its_own_tenant_alone(stack: Stack) -> None:
    busy, other = (stack.create_instance(f"connected-{name}") for name in ("busy", "other"))
    for instance in (busy, other):
        stack.api("POST", f"instances/{instance['id']}/topics", {"name": "t", "partitions": 1})
    producer = Producer({"bootstrap.servers": busy["bootstrap_servers"], "client.id": "loader"})
    consumer = Consumer(
        {"bootstrap.servers": other["bootstrap_servers"], "client.id": "reader", "group.id": "g"}
    )
    consumer.subscribe(["t"])
    host, _, port = busy["bootstrap_servers"].split(",")[0].rpartition(":")
    silent = socket.create_connection((host, int(port)), timeout=10)
    told: dict[str, dict[str, Any]] = {}
    deadline = time.monotonic() + 60
    while "" not in told or told.get("loader", {}).get("in_bytes_per_s", 0) < 20_000:  # by two workers
        assert time.monotonic() < deadline, told
        producer.produce("t", b"x" * 10_000)
        producer.poll(0.05)
        consumer.poll(0)
        found = _connections(stack, busy)
        told = {one["client_id"]: one for one in found["items"]}
    assert producer.flush(30) == 0
    assert told["loader"]["address"] == "127.0.0.1" and "rdkafka" in told["loader"]["software"]
    assert told["loader"]["connections"] >= 1
    assert found["items"][0] == told["loader"], "who carries most comes first"
    assert told[""]["connections"] == 1, "one that has not said who it is"
    assert found["open"] >= 2 and found["others"] is None and found["age_ms"] is not None
    why = stack.api("GET", f"instances/{busy['id']}/slowness")
    assert why["busiest"][0]["client_id"] == "loader"
    while not (items := _connections(stack, other)["items"]):
        assert time.monotonic() < deadline, "the neighbour's clients are not told"
        consumer.poll(0.1)
    assert {one["client_id"] for one in items} == {"reader"}
    silent.close()
    consumer.close()

"""An instance with an alarm that is raised: it is full."""

import time
from typing import Any

from confluent_kafka import Producer

from tests.integration.stack import Stack


def full_instance(stack: Stack, name: str) -> dict[str, Any]:
    """A new instance of this name, once its alarm `full` is raised."""
    made = stack.create_instance(name, capacity_bytes=1_000_000)
    path = f"instances/{made['id']}"
    stack.api("POST", f"{path}/topics", {"name": "orders"})
    rule = {"threshold": 24, "window_minutes": 60, "raise_after": 1, "clear_after": 6}
    stack.api("PUT", f"{path}/alarms/full/rule", rule)
    producer = Producer({"bootstrap.servers": made["bootstrap_servers"], "delivery.timeout.ms": 30_000})
    deadline = time.monotonic() + 120
    while not any(one["state"] == "raised" for one in stack.api("GET", f"{path}/alarms")["items"]):
        assert time.monotonic() < deadline, "no alarm is raised"
        producer.produce("orders", bytes(100_000))
        producer.flush(1)
    return made

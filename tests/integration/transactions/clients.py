"""confluent-kafka's transactional clients, as tests use them."""

import time
from collections.abc import Iterable
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

TIMEOUT_S = 20


def producer(config: dict[str, Any], transactional_id: str, **more: Any) -> Producer:
    """One that has begun."""
    made = Producer({"linger.ms": 0, **config, "transactional.id": transactional_id, **more})
    made.init_transactions(TIMEOUT_S)
    return made


def write(into: Producer, topic: str, values: Iterable[str], *, commit: bool) -> None:
    """One transaction."""
    into.begin_transaction()
    for value in values:
        into.produce(topic, value.encode())
    into.flush(TIMEOUT_S)
    if commit:
        into.commit_transaction(TIMEOUT_S)
    else:
        into.abort_transaction(TIMEOUT_S)


def read(
    config: dict[str, Any],
    topic: str,
    count: int,
    *,
    isolation: str = "read_committed",
    partitions: int = 1,
    within_s: float = TIMEOUT_S,
) -> list[str]:
    """The first `count` values of a topic, or those that came in time; a moment more for what is too many."""
    consumer = Consumer(
        {
            **config,
            "group.id": "reader",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
        values: list[str] = []
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            for message in consumer.consume(1000, 0.2):
                if message.error() is None:
                    values.append(message.value().decode())
            if len(values) >= count:
                deadline = min(deadline, time.monotonic() + 0.3)
        return values
    finally:
        consumer.close()

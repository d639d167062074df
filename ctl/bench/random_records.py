"""Topics of random records, for what the pipeline reads."""

import os
import random
from collections.abc import Iterator, Sequence
from typing import Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

_RANDOM_BYTES: Final = 8_000_000
_CREATE_S: Final = 60
_DELIVER_S: Final = 120


def random_values(records: int, record_bytes: int) -> Iterator[bytes]:
    """Slices of one pool, the same ones in every run."""
    pool, generator = os.urandom(_RANDOM_BYTES), random.Random(1)
    for _ in range(records):
        start = generator.randrange(_RANDOM_BYTES - record_bytes)
        yield pool[start : start + record_bytes]


def create_topics(bootstrap: str, names: Sequence[str], partitions: int) -> None:
    """Topics of an instance."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for future in admin.create_topics([NewTopic(name, partitions, 1) for name in names]).values():
        future.result(_CREATE_S)


def produce(bootstrap: str, records: Iterator[tuple[str, int, bytes]]) -> None:
    """(topic, partition, value). Raises: RuntimeError where one is not delivered."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "linger.ms": 20,
            "batch.size": 1_000_000,
            "queue.buffering.max.kbytes": 262_144,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    for topic, partition, value in records:
        while True:
            try:
                producer.produce(topic, value, partition=partition)
                break
            except BufferError:
                producer.poll(0.05)
    if left := producer.flush(_DELIVER_S):
        raise RuntimeError(f"{left} records were not delivered")

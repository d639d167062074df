"""Two instances and what is written to and read from them, for tests of the mirror."""

import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from pipeline.mirror.job import MirrorSummary, mirror
from pipeline.mirror.planning.address import Address
from pipeline.mirror.planning.tracks import MirrorRequest
from pipeline.progress import Silent
from tests.integration.stack import Stack

LINEAGE = "mirror.source"
RECENT_MS = time.time_ns() // 1_000_000 - 3_600_000
"""Older records would fall to retention."""
_numbers = itertools.count()


class Seen(NamedTuple):
    """A record as a consumer of committed data sees it."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: list[tuple[str, bytes | None]]
    """Without the mirror's own."""
    lineage: list[str]
    offset: int


class Side:
    """One instance."""

    def __init__(self, stack: Stack, prefix: str, **changes: Any) -> None:
        self.name = f"{prefix}-{next(_numbers)}"
        self.instance = stack.create_instance(self.name, **changes)
        self.bootstrap: str = self.instance["bootstrap_servers"]
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def create(self, topic: str, partitions: int = 1, **configs: str) -> None:
        """A topic; `_` in names of configs is `.`."""
        dotted = {name.replace("_", "."): value for name, value in configs.items()}
        self.admin.create_topics([NewTopic(topic, partitions, -1, config=dotted)])[topic].result(20)

    def delete(self, topic: str) -> None:
        self.admin.delete_topics([topic])[topic].result(20)

    def producer(self, **settings: Any) -> Producer:
        return Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 5, "log_level": 0} | settings)

    def produce(self, topic: str, count: int, partitions: int = 1, first: int = 0, **settings: Any) -> None:
        """Numbered records, each with its own timestamp."""
        producer = self.producer(**settings)
        for number in range(first, first + count):
            producer.poll(0.1 if len(producer) > 50_000 else 0)
            producer.produce(
                topic,
                key=b"k%d" % number,
                value=b"value %d" % number,
                partition=number % partitions,
                timestamp=RECENT_MS + number,
            )
        assert producer.flush(30) == 0

    def read(self, topic: str, partitions: int = 1) -> list[list[Seen]]:
        """Everything committed in each partition, in order."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "log_level": 0,
                "group.id": "reader",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
            }
        )
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
        found: list[list[Seen]] = [[] for _ in range(partitions)]
        ended: set[int] = set()
        while len(ended) < partitions:
            for message in consumer.consume(10_000, 1.0):
                partition = found[message.partition()]
                if message.error():
                    assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                    ended.add(message.partition())
                else:
                    seen = _seen(message)
                    assert not partition or seen.offset > partition[-1].offset, "the reader was set back"
                    partition.append(seen)
        consumer.close()
        return found


def _seen(message: Any) -> Seen:
    headers = message.headers() or []
    return Seen(
        message.key(),
        message.value(),
        message.timestamp()[1],
        [each for each in headers if each[0] != LINEAGE],
        [value.decode() for name, value in headers if name == LINEAGE],
        message.offset(),
    )


def contents(partitions: list[list[Seen]]) -> list[list[tuple[Any, ...]]]:
    """What a mirror must keep: all but offsets and its own headers."""
    return [[seen[:4] for seen in partition] for partition in partitions]


class Mirrors:
    """Runs mirrors in the session of the tests."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self.said: list[str] = []

    def run(
        self,
        source: Side,
        target: Side,
        *topics: str,
        stop: Callable[[], bool] = lambda: False,
        **changes: Any,
    ) -> MirrorSummary:
        """One run."""
        sides = {"source_address": Address(source.bootstrap), "target_address": Address(target.bootstrap)}
        request = MirrorRequest(source.name, target.name, topics=topics, **(sides | changes))
        return mirror(lambda: self._spark, request, Silent(), self.said.append, stop)


def times(count: int) -> Callable[[], bool]:
    """For `stop`: False so often."""
    left: Iterator[bool] = iter([False] * count)
    return lambda: next(left, True)

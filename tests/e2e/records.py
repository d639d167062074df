"""Produce and consume with confluent-kafka, and know afterwards what was acknowledged."""

import threading
import time
from collections.abc import Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic


def create_topic(bootstrap: str, name: str, partitions: int = 1) -> None:
    """Create a topic."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(name, partitions)]).values():
        future.result(15)


class CountingProducer:
    """Produces 0, 1, 2, ... on a thread with acks=all and remembers what was acknowledged."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int = 1,
        rate_per_s: int = 2000,
        *,
        idempotent: bool = True,
        padding: int = 0,
        config: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """`padding`: blanks behind each number, to make records of some size; `config`: how to log in."""
        self.acknowledged: dict[int, list[int]] = {number: [] for number in range(partitions)}
        self.failed: list[str] = []
        self._acknowledged_s: dict[int, list[float]] = {number: [] for number in range(partitions)}
        self._topic, self._partitions, self._rate = topic, partitions, rate_per_s
        self._padding = b" " * padding
        self._stop = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": idempotent,
                "acks": "all",
                "linger.ms": 5,
                "message.timeout.ms": 60_000,
                "reconnect.backoff.max.ms": 500,
                **config,
            }
        )
        self._thread = threading.Thread(target=self._run)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self.failed.append(str(error))
        else:
            self.acknowledged[message.partition()].append(int(message.value()))
            self._acknowledged_s[message.partition()].append(time.monotonic())

    def _run(self) -> None:
        number = 0
        started = time.monotonic()
        while not self._stop.is_set():
            if number > (time.monotonic() - started) * self._rate:
                self._producer.poll(0.005)
                continue
            try:
                self._producer.produce(
                    self._topic,
                    b"%d" % number + self._padding,
                    partition=number % self._partitions,
                    on_delivery=self._delivered,
                )
                number += 1
            except BufferError:
                self._producer.poll(0.05)
        left = self._producer.flush(70)
        assert left == 0, f"{left} records were never answered"

    def __enter__(self) -> "CountingProducer":
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        self._thread.join()

    def count(self) -> int:
        """Acknowledged so far."""
        return sum(len(numbers) for numbers in self.acknowledged.values())

    def silence_s(self, partition: int, since_s: float) -> float:
        """The longest time without an acknowledgement since a moment."""
        times = [since_s, *(at for at in self._acknowledged_s[partition] if at > since_s)]
        return max((after - before for before, after in pairwise(times)), default=0.0)

    def wait_for_progress(self, more: int, within_s: float = 40.0) -> None:
        """Until `more` further records are acknowledged."""
        target = self.count() + more
        deadline = time.monotonic() + within_s
        while self.count() < target:
            assert time.monotonic() < deadline, f"no progress: {self.count()} of {target}, {self.failed[:3]}"
            time.sleep(0.02)


def read_all(
    bootstrap: str, topic: str, partition: int, config: Mapping[str, Any] = MappingProxyType({})
) -> list[int]:
    """Every value of a partition, in order, up to its end."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False, **config}
    )
    low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=20)
    consumer.assign([TopicPartition(topic, partition, low)])
    values: list[int] = []
    deadline = time.monotonic() + 60
    while len(values) < high - low:
        assert time.monotonic() < deadline, f"{len(values)} of {high - low} records"
        for message in consumer.consume(5000, 0.5):
            assert message.error() is None, message.error()
            values.append(int(message.value()))
    consumer.close()
    return values

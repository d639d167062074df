"""Numbered records through a real client, and afterwards what was acknowledged and what is stored."""

import threading
import time
from collections.abc import Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final, Self

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

_FLUSH_S: Final = 70.0
_READ_S: Final = 60.0


class NumberedProducer:
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
        left = self._producer.flush(_FLUSH_S)
        if left:
            self.failed.append(f"{left} records were never answered")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        self._stop.set()
        if kind is not None:
            self._producer.purge()  # nobody waits for it
        self._thread.join()

    def count(self) -> int:
        """Acknowledged so far."""
        return sum(len(numbers) for numbers in self.acknowledged.values())

    def silence_s(self, partition: int, since_s: float) -> float:
        """The longest time without an acknowledgement since a moment."""
        times = [since_s, *(at for at in self._acknowledged_s[partition] if at > since_s)]
        return max((after - before for before, after in pairwise(times)), default=0.0)

    def wait_for_progress(self, more: int, within_s: float = 40.0) -> None:
        """Until `more` further records are acknowledged. Raises: TimeoutError."""
        target = self.count() + more
        deadline = time.monotonic() + within_s
        while self.count() < target:
            if time.monotonic() > deadline:
                raise TimeoutError(f"no progress: {self.count()} of {target}, {self.failed[:3]}")
            time.sleep(0.02)


def read_all(
    bootstrap: str, topic: str, partition: int, config: Mapping[str, Any] = MappingProxyType({})
) -> list[int]:
    """Every value of a partition, in order, up to its end. Raises: TimeoutError, KafkaException."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False, **config}
    )
    try:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=20)
        consumer.assign([TopicPartition(topic, partition, low)])
        values: list[int] = []
        deadline = time.monotonic() + _READ_S
        while len(values) < high - low:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(values)} of {high - low} records of {topic}-{partition} were read")
            for message in consumer.consume(5000, 0.5):
                if message.error() is not None:
                    raise KafkaException(message.error())
                values.append(int(message.value()))
        return values
    finally:
        consumer.close()

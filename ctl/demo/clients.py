"""The standard clients that the demo drives: confluent-kafka and, for its error texts, kafka-python."""

import json
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.admin import OffsetSpec as _OffsetSpec

from ctl.errors import CommandError

_PATIENCE_S: Final = 120.0


def create_topic(bootstrap: str, name: str, partitions: int) -> None:
    """Create a topic unless it exists."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(name, partitions)], request_timeout=15).values():
        future.result(20)


def delete_all_records(bootstrap: str, topic: str) -> None:
    """Kafka's own DeleteRecords up to the end of every partition."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    partitions = admin.list_topics(topic, timeout=15).topics[topic].partitions
    ends = admin.list_offsets({TopicPartition(topic, number): _OffsetSpec.latest() for number in partitions})
    cuts = [
        TopicPartition(part.topic, part.partition, future.result(15).offset) for part, future in ends.items()
    ]
    for future in admin.delete_records(cuts).values():
        future.result(15)


def produce(bootstrap: str, topic: str, count: int, value: Callable[[int], bytes], **config: Any) -> float:
    """Produce records with acks=all; returns seconds. Raises: CommandError when one was not delivered."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 5,
            "compression.type": "none",
        }
        | config
    )
    faults: list[str] = []

    def delivered(error: KafkaError | None, _message: Any) -> None:
        if error is not None:
            faults.append(error.str())

    started = time.perf_counter()
    for number in range(count):
        while True:
            try:
                producer.produce(topic, value(number), key=str(number), on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.05)
    left = producer.flush(_PATIENCE_S)
    if faults or left:
        raise CommandError(
            f"{len(faults) or left} of {count} records were not delivered to {topic}: {faults[:1]}"
        )
    return time.perf_counter() - started


def consume(bootstrap: str, topic: str, group: str, count: int) -> tuple[float, set[bytes]]:
    """Consume `count` records in a group from the start; returns seconds and the values' first 8 bytes."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    origins: set[bytes] = set()
    got = 0
    started = time.perf_counter()
    while got < count:
        for message in consumer.consume(10_000, 0.5):
            if message.error():
                raise CommandError(f"consuming {topic} failed: {message.error()}")
            origins.add(message.value()[:8])
            got += 1
        if time.perf_counter() - started > _PATIENCE_S:
            raise CommandError(f"only {got} of {count} records of {topic} arrived")
    elapsed_s = time.perf_counter() - started
    consumer.close()
    return elapsed_s, origins


class Greedy:
    """A producer that offers as much as it can, on a thread, and keeps its client's own statistics."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.throttle_ms_max = 0.0
        self._topic = topic
        self._stop = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "statistics.interval.ms": 500,
                "stats_cb": self._statistics,
                "queue.buffering.max.kbytes": 16_384,
                "batch.size": 200_000,
                "message.timeout.ms": 300_000,
            }
        )
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _statistics(self, text: str) -> None:
        for broker in json.loads(text)["brokers"].values():
            self.throttle_ms_max = max(self.throttle_ms_max, broker["throttle"]["max"])

    def _run(self) -> None:
        value = bytes(1000)
        while not self._stop.is_set():
            try:
                self._producer.produce(self._topic, value)
            except BufferError:
                self._producer.poll(0.05)
            self._producer.poll(0)

    def __enter__(self) -> "Greedy":
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        self._thread.join()
        self._producer.purge()
        self._producer.flush(5)


def produce_latencies_ms(bootstrap: str, topic: str, seconds: float) -> list[float]:
    """One record at a time, acknowledged by acks=all, for some seconds."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "acks": "all"})
    times: list[float] = []
    deadline = time.perf_counter() + seconds
    while time.perf_counter() < deadline:
        done: list[Any] = []
        started = time.perf_counter()
        producer.produce(topic, b"x" * 100, on_delivery=lambda error, _m, into=done: into.append(error))
        while not done:
            producer.poll(0.05)
        if done[0] is not None:
            raise CommandError(f"producing to {topic} failed: {done[0]}")
        times.append((time.perf_counter() - started) * 1000)
        time.sleep(0.005)
    return times

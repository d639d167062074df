"""The load of the benches with confluent-kafka, a client that people really use."""

import os
import time
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition

from ctl.bench.load import Endpoint, Target
from wire.client import SASL_USER

_VALUE: Final = os.urandom(1000)


def _reach(target: Target) -> dict[str, str | int | float | bool]:
    place = target if isinstance(target, Endpoint) else Endpoint(target)
    reach: dict[str, str | int | float | bool] = {"bootstrap.servers": f"{place.host}:{place.port}"}
    if place.secret is None:
        return reach
    login = {"sasl.mechanisms": "PLAIN", "sasl.username": SASL_USER, "sasl.password": place.secret}
    return reach | login | {"security.protocol": "sasl_plaintext"}


def produce_rate(target: Target, topic: str, total_bytes: int) -> float:
    """Bytes/s of values acknowledged by acks=all in 1 MB batches."""
    producer = Producer(
        {
            **_reach(target),
            "acks": "all",
            "linger.ms": 20,
            "batch.size": 1_000_000,
            "queue.buffering.max.kbytes": 262_144,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    faults: list[str] = []

    def delivered(error: object, _message: object) -> None:
        if error is not None:
            faults.append(str(error))

    started = time.perf_counter()
    for _ in range(total_bytes // len(_VALUE)):
        while True:
            try:
                producer.produce(topic, _VALUE, partition=0, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.01)
    producer.flush(60)
    if faults:
        raise RuntimeError(f"{len(faults)} records were not delivered: {faults[0]}")
    return total_bytes / (time.perf_counter() - started)


def consume_rate(target: Target, topic: str, total_bytes: int) -> float:
    """Bytes/s of values from the start of partition 0."""
    consumer = Consumer(
        {
            **_reach(target),
            "group.id": "bench",
            "enable.auto.commit": False,
            "fetch.message.max.bytes": 8_000_000,
            "queued.max.messages.kbytes": 262_144,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    carried = 0
    started = time.perf_counter()
    while carried < total_bytes:
        for message in consumer.consume(10_000, 5.0):
            if message.error():
                raise RuntimeError(str(message.error()))
            carried += len(message.value())
        if time.perf_counter() - started > 120:
            raise RuntimeError("consuming took more than two minutes")
    elapsed_s = time.perf_counter() - started
    consumer.close()
    return carried / elapsed_s

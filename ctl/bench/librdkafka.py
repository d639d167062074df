"""The load of the benches with confluent-kafka, a client that people really use."""

import os
import time
from collections.abc import Iterable
from contextlib import closing
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition

from ctl.bench.load import RECORD_BYTES, Endpoint, Target
from ctl.bench.measure import Cost, Stopwatch
from wire.client import SASL_USER

_VALUE: Final = os.urandom(RECORD_BYTES)
_TIMEOUT_S: Final = 120.0


def _reach(target: Target) -> dict[str, str | int | float | bool]:
    place = target if isinstance(target, Endpoint) else Endpoint(target)
    reach: dict[str, str | int | float | bool] = {"bootstrap.servers": f"{place.host}:{place.port}"}
    if place.secret is None:
        return reach
    login = {"sasl.mechanisms": "PLAIN", "sasl.username": SASL_USER, "sasl.password": place.secret}
    return reach | login | {"security.protocol": "sasl_plaintext"}


def produce(
    pid: int, target: Target, topic: str, total_bytes: int, batch_bytes: int, producers: int = 1
) -> Cost:
    """Have values acknowledged by all, of each producer in a partition of its own: what it costs a process
    once producers are connected."""
    settings = {
        **_reach(target),
        "acks": "all",
        "linger.ms": 20,
        "batch.size": batch_bytes,
        "queue.buffering.max.kbytes": 262_144,
        "queue.buffering.max.messages": 1_000_000,
    }
    running = [Producer(settings) for _ in range(producers)]
    faults: list[str] = []

    def delivered(error: object, _message: object) -> None:
        if error is not None:
            faults.append(str(error))

    def send(number: int) -> None:
        partition = number % producers
        while True:
            try:
                running[partition].produce(topic, _VALUE, partition=partition, on_delivery=delivered)
                return
            except BufferError:
                running[partition].poll(0.01)

    for number in range(producers):
        send(number)
    left = _flushed(running)
    watch = Stopwatch(pid)
    for number in range(total_bytes // RECORD_BYTES):
        send(number)
    left += _flushed(running)
    cost = watch.cost(total_bytes)
    if faults or left:
        raise RuntimeError(f"{len(faults) + left} records were not delivered: {faults[:1]}")
    return cost


def _flushed(producers: Iterable[Producer]) -> int:
    """How many records are not delivered after a minute."""
    return sum(producer.flush(60) for producer in producers)


def consume(pid: int, target: Target, topic: str, total_bytes: int, stored: int, partitions: int) -> Cost:
    """Read a topic of so many records from its start, again and again: what it costs a process once records
    come."""
    consumer = Consumer(
        {
            **_reach(target),
            "group.id": "bench",
            "enable.auto.commit": False,
            # It pauses for a second when it has read ahead more than that: never, within one reading.
            "queued.min.messages": 1_000_000,
            "queued.max.messages.kbytes": 1_000_000,
        }
    )
    start = [TopicPartition(topic, partition, 0) for partition in range(partitions)]
    carried, left = 0, 0
    watch: Stopwatch | None = None
    deadline = time.monotonic() + _TIMEOUT_S
    with closing(consumer):
        while carried < total_bytes:
            if left <= 0:
                consumer.assign(start)
                left = stored
            messages = consumer.consume(10_000 if watch else 1, 1.0)
            for message in messages:
                if message.error():
                    raise RuntimeError(str(message.error()))
                carried += len(message)
            left -= len(messages)
            if messages and watch is None:
                watch = Stopwatch(pid)
            if time.monotonic() > deadline:
                raise RuntimeError("consuming took more than two minutes")
        assert watch is not None
        return watch.cost(carried)


def latencies_ms(target: Target, topic: str, count: int) -> list[float]:
    """From `produce` of one message at a time to the callback that says it is acknowledged by all."""
    producer = Producer({**_reach(target), "acks": "all", "linger.ms": 0})
    times: list[float] = []
    answers: list[object] = []
    for number in range(count + 1):
        started = time.perf_counter_ns()
        producer.produce(topic, _VALUE, partition=0, on_delivery=lambda error, _: answers.append(error))
        while len(answers) == number and producer.poll(30.0):
            pass
        times.append((time.perf_counter_ns() - started) / 1e6)
        if answers[number:] != [None]:
            raise RuntimeError(f"a record was not delivered: {answers[number:]}")
    return times[1:]  # the first one has connected

"""Sends invented activity to an instance as its own producers would, at the pace at which it arrives."""

import time
from typing import Any, Final

from confluent_kafka import KafkaError, Producer

from pipeline.activity.records import Schedule, Truth
from pipeline.activity.topics import INPUT_TOPICS, PARTITIONS
from pipeline.activity.world import HOUR_MS, Plan, invent
from pipeline.errors import PipelineError
from pipeline.ingest.offsets import KafkaSource, SourceOffsets
from pipeline.progress import Progress, Silent
from runtime.clock import epoch_ms

_SLICE_S: Final = 0.02
_TELL_EVERY: Final = 1000
_DELIVERY_TIMEOUT_S: Final = 60.0


def generate(
    bootstrap_servers: str,
    seconds: float,
    rate: float,
    seed: int,
    *,
    span_h: float = 24.0,
    start_ms: int | None = None,
    paced: bool = True,
    progress: Progress | None = None,
) -> Truth:
    """Produce `rate` events a second for `seconds`; returns what was sent.

    The events tell of `span_h` hours that end when the sending does, or begin at `start_ms`. Without `paced`
    they are sent as fast as the instance takes them. Raises: PipelineError when a record is not delivered.
    """
    progress = progress or Silent()
    span_ms = max(1, int(span_h * HOUR_MS))
    begin = epoch_ms() + int(seconds * 1000) - span_ms if start_ms is None else start_ms
    schedule = Schedule(invent(Plan(int(rate * seconds), begin, span_ms, seed)))
    SourceOffsets(KafkaSource(bootstrap_servers)).ensure(INPUT_TOPICS, PARTITIONS)
    progress.planned(len(schedule))
    _send(bootstrap_servers, schedule, seconds / span_ms if paced else 0.0, begin, progress)
    progress.done(len(schedule))
    return schedule.truth()


def _send(
    bootstrap_servers: str, schedule: Schedule, seconds_per_ms: float, begin_ms: int, progress: Progress
) -> None:
    faults: list[str] = []

    def reported(error: KafkaError | None, _record: Any) -> None:
        if error is not None:
            faults.append(error.str())

    settings = {"enable.idempotence": True, "linger.ms": 20, "compression.type": "lz4", "log_level": 0}
    settings |= {"delivery.report.only.error": True, "on_delivery": reported}
    producer = Producer({"bootstrap.servers": bootstrap_servers} | settings)
    started = time.monotonic()
    for number, record in enumerate(schedule):
        wait_s = (record.due_ms - begin_ms) * seconds_per_ms - (time.monotonic() - started)
        if wait_s > _SLICE_S:
            producer.poll(0)
            time.sleep(wait_s)
        _produce(producer, record.topic, record.key, record.value)
        if number % _TELL_EVERY == 0:
            progress.done(number)
            if faults:
                break
    left = producer.flush(_DELIVERY_TIMEOUT_S)
    if faults or left:
        raise PipelineError(
            f"{len(faults) or left} events were not delivered ({(faults or ['no answer in time'])[0]}): "
            "look at the instance's limits and whitelist"
        )


def _produce(producer: Producer, topic: str, key: str, value: bytes) -> None:
    while True:
        try:
            producer.produce(topic, value, key=key)
        except BufferError:  # the client's queue is full: wait for the instance
            producer.poll(0.05)
        else:
            return

"""Lag in seconds beside the truth: logs whose records' times the test has set, on any engine."""

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from tests.integration.stack import Stack

_WITHIN_S: Final = 60.0
_MINUTE_MS: Final = 60_000


class KnownLog:
    """One partition, and the times of the records in it that are to be seen."""

    def __init__(self, instance: dict[str, Any], topic: str) -> None:
        self.instance, self.topic = instance, topic
        self.times_ms: dict[int, int] = {}

    def write(self, ages_ms: list[int], codec: str = "none", **config: Any) -> None:
        """One batch, of records of these ages."""
        producer = self._producer(codec, config)
        self._produce(producer, ages_ms)
        assert producer.flush(_WITHIN_S) == 0

    def transact(self, ages_ms: list[int], *, commits: bool) -> None:
        """One transaction."""
        kept = dict(self.times_ms)
        with self.open_transaction(ages_ms) as producer:
            if commits:
                producer.commit_transaction(_WITHIN_S)
            else:
                producer.abort_transaction(_WITHIN_S)
                self.times_ms = kept

    @contextmanager
    def open_transaction(self, ages_ms: list[int]) -> Iterator[Producer]:
        """One that the caller ends; its records are in the log."""
        producer = self._producer("lz4", {"transactional.id": uuid.uuid4().hex})
        producer.init_transactions(_WITHIN_S)
        producer.begin_transaction()
        self._produce(producer, ages_ms)
        assert producer.flush(_WITHIN_S) == 0
        yield producer

    def _producer(self, codec: str, config: dict[str, Any]) -> Producer:
        return Producer(
            {
                "bootstrap.servers": self.instance["bootstrap_servers"],
                "linger.ms": 100,
                "compression.type": codec,
                **config,
            }
        )

    def _produce(self, producer: Producer, ages_ms: list[int]) -> None:
        now_ms = round(time.time() * 1000)
        for age_ms in ages_ms:
            at_ms = now_ms - age_ms
            producer.produce(
                self.topic, b"x" * 100, partition=0, timestamp=at_ms, on_delivery=self._delivered(at_ms)
            )

    def _delivered(self, at_ms: int) -> Callable[[Any, Message], None]:
        def note(error: Any, message: Message) -> None:
            assert error is None, error
            offset = message.offset()
            assert offset is not None
            self.times_ms[offset] = at_ms

        return note

    def time_ms(self, committed: int) -> int | None:
        """Of the first record that a group has not consumed; None where it has all."""
        left = [offset for offset in self.times_ms if offset >= committed]
        return self.times_ms[min(left)] if left else None


def commit(instance: dict[str, Any], group: str, topic: str, offset: int) -> None:
    """As a group without members."""
    consumer = Consumer({"bootstrap.servers": instance["bootstrap_servers"], "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def told(stack: Stack, instance: dict[str, Any], group: str) -> tuple[dict[str, Any], float, float]:
    """What the API tells of a group as soon as it is known, and the times (ms) around its answer."""
    deadline = time.monotonic() + _WITHIN_S
    while True:
        before_ms = time.time() * 1000
        found = stack.api("GET", f"instances/{instance['id']}/groups/{group}")
        after_ms = time.time() * 1000
        if found["lag_seconds"] is not None:
            return found, before_ms, after_ms
        assert time.monotonic() < deadline, f"never known: {found}"
        time.sleep(0.1)


def until(holds: Callable[[], bool]) -> None:
    """Wait for it."""
    deadline = time.monotonic() + _WITHIN_S
    while not holds():
        assert time.monotonic() < deadline, "did not happen"
        time.sleep(0.2)


def check(stack: Stack, instance: dict[str, Any], log: KnownLog, end: int) -> None:
    """A group at each offset is as old as the record that it would read next."""
    for committed in range(end + 1):
        group = f"at-{committed}"
        commit(instance, group, log.topic, committed)
        found, before_ms, after_ms = told(stack, instance, group)
        [partition] = found["offsets"]
        assert partition["lag_seconds"] == found["lag_seconds"]
        time_ms = log.time_ms(committed)
        if time_ms is None:
            assert found["lag_seconds"] == 0, (committed, found)
        else:
            age_ms = found["lag_seconds"] * 1000
            assert before_ms - time_ms - 2 <= age_ms <= after_ms - time_ms + 2, (committed, found)


def mixed_log(instance: dict[str, Any], topic: str) -> tuple[KnownLog, int]:
    """Plain and compressed batches, times that go back, transactions; and its end."""
    log = KnownLog(instance, topic)
    log.write([50 * _MINUTE_MS, 49 * _MINUTE_MS, 51 * _MINUTE_MS])
    for minute, codec in ((40, "gzip"), (38, "snappy"), (36, "lz4"), (34, "zstd")):
        log.write([minute * _MINUTE_MS, (minute - 1) * _MINUTE_MS, (minute + 9) * _MINUTE_MS], codec)
    log.transact([20 * _MINUTE_MS, 19 * _MINUTE_MS], commits=True)
    log.transact([15 * _MINUTE_MS, 14 * _MINUTE_MS], commits=False)
    log.transact([3 * _MINUTE_MS, 2 * _MINUTE_MS], commits=True)
    log.transact([1 * _MINUTE_MS], commits=False)
    return log, 15 + 3 + 3 + 3 + 2

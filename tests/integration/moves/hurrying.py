"""A producer that never pauses."""

import time
from collections import defaultdict
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from tests.integration.moves.clients import PARTITIONS, Worker

_WAITING_MAX = 20_000
"""Records; more would be a producer that fails for want of memory."""
_PAYLOAD = b"x" * 1_000


class Hurrying(Worker):
    """Writes numbers to a topic as fast as they are taken, with what acknowledgement it is told to ask."""

    def __init__(self, bootstrap: str, topic: str, **configs: Any) -> None:
        super().__init__()
        self._bootstrap, self._topic, self._configs = bootstrap, topic, configs
        self.acked: dict[int, list[tuple[int, int]]] = defaultdict(list)
        """By partition: (offset, number)."""
        self.longest_gap_s = 0.0
        """Without an acknowledgement."""
        self._acked_s: float | None = None

    def work(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "linger.ms": 1,
                "reconnect.backoff.max.ms": 500,
                "queue.buffering.max.messages": _WAITING_MAX,
                "log_level": 2,
                **self._configs,
            }
        )
        number = 0
        while self.goes_on:
            value = b"%010d" % number + _PAYLOAD
            try:
                producer.produce(self._topic, value, partition=number % PARTITIONS, on_delivery=self._told)
            except BufferError:
                producer.poll(0.01)
                continue
            number += 1
            producer.poll(0)
        assert producer.flush(60) == 0, "some of it is never acknowledged"

    def _told(self, error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        now_s = time.monotonic()
        if self._acked_s is not None:
            self.longest_gap_s = max(self.longest_gap_s, now_s - self._acked_s)
        self._acked_s = now_s
        value, partition, offset = message.value(), message.partition(), message.offset()
        assert value is not None and partition is not None and offset is not None
        self.acked[partition].append((offset, int(value[:10])))

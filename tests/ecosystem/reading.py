"""What a topic holds for a client that reads what was committed."""

import time
from collections.abc import Callable
from typing import Final

from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient

_POLL_S: Final = 0.5
KeyAndValue = tuple[bytes | None, bytes | None]


class Reader:
    """Reads all partitions of topics from their beginning, what was committed; keeps keys and values."""

    def __init__(self, bootstrap: str, *topics: str) -> None:
        self.read: list[KeyAndValue] = []
        self.last_offsets: dict[tuple[str, int], int] = {}
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "ecosystem-reader",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
            }
        )
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._topics = topics

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def until(self, holds: Callable[[list[KeyAndValue]], bool], within_s: float) -> None:
        """Read on until something holds of all that was read."""
        deadline = time.monotonic() + within_s
        while not holds(self.read):
            assert time.monotonic() < deadline, f"{len(self.read)} records of {self._topics} in {within_s} s"
            self._poll()

    def to_the_end(self) -> None:
        """Read on to where the topics end now."""
        ends = {
            (one.topic, one.partition): self._consumer.get_watermark_offsets(one, timeout=30)[1]
            for one in self._assigned()
        }
        while any(one.offset < ends[one.topic, one.partition] for one in self._positions()):
            self._poll()

    def _poll(self) -> None:
        self._assigned()
        message = self._consumer.poll(_POLL_S)
        if message is None:
            return
        error = message.error()
        if error is None:
            self.read.append((message.key(), message.value()))
            self.last_offsets[message.topic() or "", message.partition() or 0] = message.offset() or 0
        else:
            assert error.code() == KafkaError._PARTITION_EOF or error.retriable(), str(error)

    def _assigned(self) -> list[TopicPartition]:
        if not self._consumer.assignment():
            known = self._admin.list_topics(timeout=30).topics
            there = [known[one] for one in self._topics if one in known]
            found = [TopicPartition(one.topic, each, 0) for one in there for each in one.partitions]
            self._consumer.assign(found)
        assigned: list[TopicPartition] = self._consumer.assignment()
        return assigned

    def _positions(self) -> list[TopicPartition]:
        positions: list[TopicPartition] = self._consumer.position(self._assigned())
        return positions

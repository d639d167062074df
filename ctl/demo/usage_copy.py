"""What the quota master has told of one instance, copied from the system's topic `usage` to another."""

import time
from typing import Final

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from contracts.usage_batches import decoded, encoded
from contracts.usage_records import USAGE_TOPIC
from ctl.errors import CommandError

_ANSWER_S: Final = 30.0
_POLL_S: Final = 1.0


class UsageCopy:
    """Reads from a moment on. Used as a context manager; what it raises is a CommandError."""

    def __init__(self, system: str, target: str, instance_id: str, since_ms: int) -> None:
        """`system` and `target` are bootstrap servers."""
        self._instance_id = instance_id
        self._producer = Producer({"bootstrap.servers": target, "enable.idempotence": True, "log_level": 0})
        self._consumer = Consumer(
            {
                "bootstrap.servers": system,
                "group.id": f"pipeline-demo-{instance_id}",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        )
        self._since_ms = since_ms
        self.produced_bytes = self.consumed_bytes = 0
        """Bytes of the records copied so far."""

    def __enter__(self) -> "UsageCopy":
        try:
            found = self._consumer.list_topics(USAGE_TOPIC, _ANSWER_S).topics[USAGE_TOPIC].partitions
            asked = [TopicPartition(USAGE_TOPIC, each, self._since_ms) for each in found]
            self._consumer.assign(self._consumer.offsets_for_times(asked, _ANSWER_S))
        except KafkaException as error:
            raise CommandError(f"topic {USAGE_TOPIC} of the system cannot be read: {error}") from error
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def copy_until(self, deadline_s: float) -> None:
        """Until something was told of both directions. `deadline_s` is on the monotonic clock."""
        while not (self.produced_bytes and self.consumed_bytes):
            if time.monotonic() > deadline_s:
                raise CommandError("the quota master's usage records did not arrive: see `portico doctor`")
            message = self._consumer.poll(_POLL_S)
            if message is not None and message.error() is None:
                self._take(message.key(), message.value())
        if self._producer.flush(_ANSWER_S):
            raise CommandError(f"topic {USAGE_TOPIC} of the demo's instance does not answer")

    def _take(self, key: bytes | None, value: bytes | None) -> None:
        assert value is not None, "the master sends none without"
        mine = [one for one in decoded(value).records() if one.instance_id == self._instance_id]
        self.produced_bytes += sum(one.produce_bytes for one in mine)
        self.consumed_bytes += sum(one.consume_bytes for one in mine)
        if mine:
            self._producer.produce(USAGE_TOPIC, encoded(mine), key)

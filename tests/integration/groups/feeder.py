"""A producer that feeds a group of members, and what must hold at the end."""

import threading
from typing import Any, Self

from confluent_kafka import Producer

from tests.integration.groups.members import GroupOfMembers, wait_until

PARTITIONS = 12


class Feeder:
    """Produces numbered values evenly, with acks=all and idempotence, until stopped."""

    def __init__(self, address: str, topic: str, partitions: int = PARTITIONS) -> None:
        self.acknowledged: set[str] = set()
        self.failed: list[Any] = []
        self._topic = topic
        self._partitions = partitions
        self._stopping = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": address,
                "enable.idempotence": True,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._feed, daemon=True)
        self._thread.start()

    def _feed(self) -> None:
        number = 0
        while not self._stopping.is_set():
            value = str(number)
            self._producer.produce(
                self._topic, value, partition=number % self._partitions, on_delivery=self._delivered
            )
            number += 1
            self._producer.poll(0.002)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self.acknowledged.add(message.value().decode())
        else:
            self.failed.append(error)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self._stopping.set()
        self._producer.purge()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(10)
        assert self._producer.flush(30) == 0
        assert self.failed == []


def nothing_lost_or_repeated(group: GroupOfMembers, feeder: Feeder) -> None:
    feeder.stop()
    wait_until(
        lambda: feeder.acknowledged <= group.values(),
        lambda: (
            f"{len(feeder.acknowledged - group.values())} of {len(feeder.acknowledged)} values are missing"
        ),
    )
    assert len(feeder.acknowledged) > 500
    assert group.reprocessed() == []

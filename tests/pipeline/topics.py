"""Topics of an instance for tests of jobs: made, filled, deleted, as any client does."""

import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic


class Record(NamedTuple):
    """What is produced."""

    value: bytes | None
    key: bytes | None = None
    partition: int = 0
    timestamp_ms: int = 0
    headers: Sequence[tuple[str, bytes | None]] = ()


class Topics:
    """Of one instance."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def create(self, *names: str, partitions: int = 1, **config: str) -> None:
        """With configs such as `cleanup_policy="compact"`."""
        settings = {name.replace("_", "."): value for name, value in config.items()}
        self._done(
            self._admin.create_topics([NewTopic(name, partitions, 1, config=settings) for name in names])
        )

    def add_partitions(self, name: str, total: int) -> None:
        self._done(self._admin.create_partitions([NewPartitions(name, total)]))

    def delete(self, name: str) -> None:
        self._done(self._admin.delete_topics([name]))
        deadline = time.monotonic() + 20
        while name in self._admin.list_topics(timeout=10).topics:
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def delete_records(self, name: str, before: int, partition: int = 0) -> None:
        """As retention does."""
        self._done(self._admin.delete_records([TopicPartition(name, partition, before)]))

    def produce(self, name: str, records: Iterable[Record], **settings: Any) -> None:
        producer = Producer(
            {"bootstrap.servers": self.bootstrap, "log_level": 0, "linger.ms": 20, "acks": "all"} | settings
        )
        transactional = "transactional.id" in settings
        if transactional:
            producer.init_transactions(20)
            producer.begin_transaction()
        for each in records:
            producer.produce(
                name,
                each.value,
                each.key,
                each.partition,
                timestamp=each.timestamp_ms,
                headers=list(each.headers) or None,
            )
            producer.poll(0)
        assert producer.flush(60) == 0
        if transactional:
            producer.commit_transaction(20)

    def abort(self, name: str, records: Iterable[Record], **settings: Any) -> None:
        """Produce in a transaction that is aborted."""
        transactional = {"transactional.id": f"aborts-{name}"} | settings
        producer = Producer({"bootstrap.servers": self.bootstrap, "log_level": 0} | transactional)
        producer.init_transactions(20)
        producer.begin_transaction()
        for each in records:
            producer.produce(name, each.value, each.key, each.partition)
        producer.flush(60)
        producer.abort_transaction(20)

    def leave_open(self, name: str, records: Iterable[Record]) -> Producer:
        """Produce in a transaction that the caller ends."""
        producer = Producer(
            {"bootstrap.servers": self.bootstrap, "log_level": 0, "transactional.id": f"open-{name}"}
        )
        producer.init_transactions(20)
        producer.begin_transaction()
        for each in records:
            producer.produce(name, each.value, each.key, each.partition)
        producer.flush(60)
        return producer

    @staticmethod
    def _done(futures: Any) -> None:
        for future in futures.values():
            future.result(20)


def numbered(count: int, partitions: int = 1, first: int = 0) -> list[Record]:
    """Values that say which they are, spread over the partitions."""
    return [Record(b"v%d" % n, b"k%d" % n, n % partitions) for n in range(first, first + count)]

"""The topics of this broker: what exists, its id, its configs, its partitions' logs."""

import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from broker.log.config import LogConfig
from broker.log.errors import StorageFailed
from broker.log.manager import LoadReport, LogManager
from broker.log.partition_log import PartitionLog
from broker.topic_configs import log_config
from broker.topic_store import StoredTopic, TopicStore
from contracts.names import owner_of

NAME_LENGTH_MAX: Final = 249
INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state"})
_LEGAL_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+\Z")


def name_fault(name: str) -> str | None:
    """Kafka's rules for topic names: what is wrong, or None."""
    if name == "":
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return f"Topic name is invalid: '{name}' is not allowed"
    if len(name) > NAME_LENGTH_MAX:
        return (
            f"Topic name is invalid: the length of '{name}' is longer than the max allowed length "
            f"{NAME_LENGTH_MAX}"
        )
    if _LEGAL_NAME.match(name) is None:
        return (
            f"Topic name is invalid: '{name}' contains one or more characters other than ASCII "
            "alphanumerics, '.', '_' and '-'"
        )
    return None


class Topic:
    """One topic. Replaced in `configs` and `partitions` only by `Topics`."""

    __slots__ = ("configs", "instance_id", "is_internal", "metadata", "name", "partitions", "topic_id")

    def __init__(self, stored: StoredTopic, partitions: list[PartitionLog]) -> None:
        self.name = stored.name
        self.topic_id = stored.topic_id
        self.configs: Mapping[str, str] = stored.configs
        self.partitions = partitions
        self.is_internal = stored.name in INTERNAL_TOPICS
        self.instance_id = owner_of(stored.name)
        """Whose traffic and storage this is; None: the broker's own or a standalone Kafka's."""
        self.metadata: dict[int, bytes] = {}
        """Encoded for Metadata answers, by version; emptied when the topic changes."""

    def partition(self, index: int) -> PartitionLog | None:
        """The log of a partition that exists."""
        return self.partitions[index] if 0 <= index < len(self.partitions) else None

    @property
    def size_bytes(self) -> int:
        """All partitions' logs."""
        return sum(log.size_bytes for log in self.partitions)


class Topics:
    """All topics. Changes are on the disk before they are visible."""

    def __init__(self, store: TopicStore, logs: LogManager) -> None:
        self._store = store
        self._logs = logs
        self._topics: dict[str, Topic] = {}
        self._by_id: dict[uuid.UUID, Topic] = {}
        self.partition_count = 0
        self.revision = 0
        """Changes with every change of what exists."""
        self._on_deleted: list[Callable[[Topic], None]] = []

    def load(self, now_ms: int) -> LoadReport:
        """Open what the store names; empty logs are made where a crash left none, logs without a topic go.

        Raises: OSError, StorageFailed.
        """
        stored = {topic.name: topic for topic in self._store.load()}
        configs = {name: log_config(topic.configs) for name, topic in stored.items()}
        report = self._logs.load(lambda name: configs.get(name, LogConfig()), now_ms)
        for (name, index), reason in report.failures.items():
            if name in stored:
                raise StorageFailed(f"the log {name}-{index} cannot be opened: {reason}")
        for name, index in list(self._logs.logs):
            topic = stored.get(name)
            log = self._logs.logs[name, index]
            if topic is None or topic.topic_id != log.topic_id or index >= topic.partitions:
                self._logs.delete(name, index)
        for topic in stored.values():
            self._add(self._open(topic, now_ms))
        return report

    def _open(self, stored: StoredTopic, now_ms: int) -> Topic:
        config = log_config(stored.configs)
        logs = []
        for index in range(stored.partitions):
            log = self._logs.get(stored.name, index)
            if log is None:
                log = self._logs.create(stored.name, index, stored.topic_id, config, now_ms)
            log.advance_high_watermark()  # one replica: what recovery kept is committed
            logs.append(log)
        return Topic(stored, logs)

    def _add(self, topic: Topic) -> None:
        self._topics[topic.name] = topic
        self._by_id[topic.topic_id] = topic
        self.partition_count += len(topic.partitions)
        self.revision += 1

    def __iter__(self) -> Iterator[Topic]:
        return iter(self._topics.values())

    def __len__(self) -> int:
        return len(self._topics)

    def get(self, name: str) -> Topic | None:
        """A topic by its physical name."""
        return self._topics.get(name)

    def by_id(self, topic_id: uuid.UUID) -> Topic | None:
        """A topic by its id."""
        return self._by_id.get(topic_id)

    def partition(self, name: str, index: int) -> PartitionLog | None:
        """The log of one partition."""
        topic = self._topics.get(name)
        return None if topic is None else topic.partition(index)

    def on_deleted(self, callback: Callable[[Topic], None]) -> None:
        """Have `callback` called after a topic was deleted."""
        self._on_deleted.append(callback)

    def create(self, name: str, partitions: int, configs: Mapping[str, str], now_ms: int) -> Topic:
        """Create a topic that does not exist yet. Raises: OSError, StorageFailed; then it does not exist."""
        assert name not in self._topics, name
        assert partitions > 0, partitions
        stored = StoredTopic(name=name, topic_id=uuid.uuid4(), partitions=partitions, configs=dict(configs))
        self._store.put(stored)
        try:
            topic = self._open(stored, now_ms)
        except StorageFailed:
            for index in range(partitions):
                if self._logs.get(name, index) is not None:
                    self._logs.delete(name, index)
            self._store.remove(stored.topic_id)
            raise
        self._add(topic)
        return topic

    def add_partitions(self, topic: Topic, count: int, now_ms: int) -> None:
        """Grow a topic to `count` partitions.

        Raises: OSError, and then it has not grown; StorageFailed, and then it may have grown less.
        """
        before = len(topic.partitions)
        assert count > before, (count, before)
        self._store.put(self._stored(topic, partitions=count))
        config = log_config(topic.configs)
        try:
            for index in range(before, count):
                topic.partitions.append(self._logs.create(topic.name, index, topic.topic_id, config, now_ms))
                self.partition_count += 1
        finally:
            if len(topic.partitions) < count:
                self._store.put(self._stored(topic))
            self._changed(topic)

    def reconfigure(self, topic: Topic, configs: Mapping[str, str]) -> None:
        """Replace a topic's layer of configs. Raises: OSError."""
        self._store.put(self._stored(topic, configs=dict(configs)))
        topic.configs = dict(configs)
        config = log_config(configs)
        for log in topic.partitions:
            log.reconfigure(config)
        self._changed(topic)

    def delete(self, topic: Topic) -> None:
        """Delete a topic; its space is freed by the next removal job. Raises: OSError, StorageFailed."""
        self._store.remove(topic.topic_id)
        del self._topics[topic.name]
        del self._by_id[topic.topic_id]
        self.partition_count -= len(topic.partitions)
        self.revision += 1
        for log in topic.partitions:
            self._logs.delete(log.topic, log.partition)
        for callback in self._on_deleted:
            callback(topic)

    def led_by_instance(self) -> dict[str, tuple[int, int]]:
        """Instance id -> (partitions led, bytes stored), for the traffic point."""
        led: dict[str, tuple[int, int]] = {}
        for topic in self._topics.values():
            if topic.instance_id is not None:
                partitions, stored = led.get(topic.instance_id, (0, 0))
                led[topic.instance_id] = (partitions + len(topic.partitions), stored + topic.size_bytes)
        return led

    def _changed(self, topic: Topic) -> None:
        topic.metadata.clear()
        self.revision += 1

    @staticmethod
    def _stored(
        topic: Topic, *, partitions: int | None = None, configs: dict[str, str] | None = None
    ) -> StoredTopic:
        return StoredTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=len(topic.partitions) if partitions is None else partitions,
            configs=dict(topic.configs) if configs is None else configs,
        )

"""The topics of this broker: what exists, its id, its configs, its partitions' logs."""

from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Final

from broker.log.config import LogConfig
from broker.log.errors import StorageFailed
from broker.log.manager import NO_TOPIC_ID, LoadReport, LogManager
from broker.log.partition_log import PartitionLog
from broker.topic_configs import log_config
from broker.topic_names import INTERNAL_TOPICS
from broker.topic_store import StoredTopic, TopicStore
from contracts.names import owner_of

_PARTITIONS_PER_STEP: Final = 10


class Topic:
    """One topic. Its partitions and configs are changed by `Topics` only."""

    __slots__ = ("configs", "instance_id", "is_internal", "metadata", "name", "partitions", "topic_id")

    def __init__(self, stored: StoredTopic) -> None:
        self.name = stored.name
        self.topic_id = stored.topic_id
        self.configs: Mapping[str, str] = stored.configs
        self.partitions: list[PartitionLog] = []
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

    def stored(
        self, *, partitions: int | None = None, configs: Mapping[str, str] | None = None
    ) -> StoredTopic:
        """What is kept of the topic, with changes."""
        return StoredTopic(
            name=self.name,
            topic_id=self.topic_id,
            partitions=len(self.partitions) if partitions is None else partitions,
            configs=dict(self.configs if configs is None else configs),
        )


Steps = Generator[None, None, None]
"""Work in turns: clients are served between two steps. It must be driven to its end."""


class Topics:
    """All topics. Changes are on the disk before they are visible.

    Creating and deleting many partitions takes long, so it comes in steps; until the last one the name is
    taken.
    """

    def __init__(
        self,
        store: TopicStore,
        logs: LogManager,
        on_opened: Callable[[Topic, int], None] = lambda _topic, _index: None,
    ) -> None:
        self._on_opened = on_opened
        self._store = store
        self._logs = logs
        self._topics: dict[str, Topic] = {}
        self._by_instance: dict[str, dict[str, Topic]] = {}
        self._busy: set[str] = set()
        """Names being created, grown or deleted."""
        self.partition_count = 0
        """Partitions that exist or are being created."""
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
            if not _belongs(self._logs.logs[name, index], stored.get(name)):
                self._logs.delete(name, index)
        for each in stored.values():
            topic = Topic(each)
            for index in range(each.partitions):
                topic.partitions.append(self._open(topic, index, configs[each.name], now_ms))
            self.partition_count += each.partitions
            self._add(topic)
        return report

    def _open(self, topic: Topic, index: int, config: LogConfig, now_ms: int) -> PartitionLog:
        """Raises: StorageFailed."""
        log = self._logs.get(topic.name, index)
        if log is None:
            log = self._logs.create(topic.name, index, topic.topic_id, config, now_ms)
        log.advance_high_watermark()  # one replica: what recovery kept is committed
        self._on_opened(topic, index)
        return log

    def _add(self, topic: Topic) -> None:
        self._topics[topic.name] = topic
        if topic.instance_id is not None:
            self._by_instance.setdefault(topic.instance_id, {})[topic.name] = topic

    def __iter__(self) -> Iterator[Topic]:
        return iter(self._topics.values())

    def __len__(self) -> int:
        return len(self._topics)

    def get(self, name: str) -> Topic | None:
        """A topic by its physical name."""
        return self._topics.get(name)

    def partition(self, name: str, index: int) -> PartitionLog | None:
        """The log of one partition."""
        topic = self._topics.get(name)
        return None if topic is None else topic.partition(index)

    def of_instance(self, instance_id: str) -> list[Topic]:
        """The topics of one instance."""
        return list(self._by_instance.get(instance_id, {}).values())

    def is_taken(self, name: str) -> bool:
        """Whether the topic exists, or is being created or deleted."""
        return name in self._topics or name in self._busy

    def is_busy(self, name: str) -> bool:
        """Whether the topic is being created, grown or deleted."""
        return name in self._busy

    def on_deleted(self, callback: Callable[[Topic], None]) -> None:
        """Have `callback` called when a topic is no longer there."""
        self._on_deleted.append(callback)

    def create(self, stored: StoredTopic, now_ms: int) -> Steps:
        """Create a topic whose name is free. Raises: OSError, StorageFailed; then it does not exist."""
        assert not self.is_taken(stored.name), stored.name
        assert stored.partitions > 0, stored.partitions
        topic = Topic(stored)
        self._busy.add(stored.name)
        self.partition_count += stored.partitions
        try:
            self._store.put(stored)
            try:
                yield from self._grow(topic, stored.partitions, now_ms)
            except StorageFailed:
                for log in topic.partitions:
                    self._logs.delete(log.topic, log.partition)
                self._store.remove(stored.topic_id)
                raise
            self._add(topic)
        except BaseException:
            self.partition_count -= stored.partitions
            raise
        finally:
            self._busy.discard(stored.name)

    def add_partitions(self, topic: Topic, count: int, now_ms: int) -> Steps:
        """Grow a topic to `count` partitions, visible one by one.

        Raises: OSError, and then it has not grown; StorageFailed, and then it may have grown less.
        """
        before = len(topic.partitions)
        assert count > before, (count, before)
        self._busy.add(topic.name)
        self.partition_count += count - before
        try:
            self._store.put(topic.stored(partitions=count))
            yield from self._grow(topic, count, now_ms)
        finally:
            self._busy.discard(topic.name)
            topic.metadata.clear()
            if len(topic.partitions) < count:
                self.partition_count -= count - len(topic.partitions)
                self._store.put(topic.stored())

    def _grow(self, topic: Topic, count: int, now_ms: int) -> Steps:
        for index in range(len(topic.partitions), count):
            topic.partitions.append(self._open(topic, index, log_config(topic.configs), now_ms))
            if index % _PARTITIONS_PER_STEP == _PARTITIONS_PER_STEP - 1:
                yield

    def reconfigure(self, topic: Topic, configs: Mapping[str, str]) -> None:
        """Replace a topic's layer of configs. Raises: OSError."""
        self._store.put(topic.stored(configs=configs))
        topic.configs = dict(configs)
        config = log_config(configs)
        for log in topic.partitions:
            log.reconfigure(config)

    def delete(self, topic: Topic) -> Steps:
        """Delete a topic, gone at the first step; its space is freed by the next removal job.

        Raises: OSError, and then it is still there; StorageFailed, and then the next start removes the rest.
        """
        assert not self.is_busy(topic.name), topic.name
        self._store.remove(topic.topic_id)
        del self._topics[topic.name]
        if topic.instance_id is not None:
            del self._by_instance[topic.instance_id][topic.name]
            if not self._by_instance[topic.instance_id]:
                del self._by_instance[topic.instance_id]
        for callback in self._on_deleted:
            callback(topic)
        self._busy.add(topic.name)
        try:
            for index, log in enumerate(topic.partitions):
                self._logs.delete(log.topic, log.partition)
                if index % _PARTITIONS_PER_STEP == _PARTITIONS_PER_STEP - 1:
                    yield
        finally:
            self.partition_count -= len(topic.partitions)
            self._busy.discard(topic.name)

    def led_by(self, instance_id: str) -> tuple[int, int]:
        """(partitions led, bytes stored) of one instance, for the traffic point."""
        topics = self._by_instance.get(instance_id, {}).values()
        return sum(len(topic.partitions) for topic in topics), sum(topic.size_bytes for topic in topics)

    def led_by_instance(self) -> dict[str, tuple[int, int]]:
        """The same of every instance that has topics here."""
        return {instance_id: self.led_by(instance_id) for instance_id in self._by_instance}


def _belongs(log: PartitionLog, topic: StoredTopic | None) -> bool:
    """Whether a log found on disk is a partition of its topic.

    A log whose id is unreadable is kept: after a power cut it may be the only thing missing.
    """
    if topic is None or log.partition >= topic.partitions:
        return False
    return log.topic_id in (topic.topic_id, NO_TOPIC_ID)

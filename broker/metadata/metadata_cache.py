"""What this broker knows of the whole cluster: what the controller's last UpdateMetadata said. Pure.

Every broker answers Metadata from it. It may be behind the controller, never ahead of it.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from broker.metadata.topic_names import INTERNAL_TOPICS
from contracts.cluster import (
    NO_LEADER,
    LiveBroker,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
)
from contracts.names import owner_of

_NO_CONFIGS: Final[Mapping[str, str]] = {}


class CachedTopic:
    """One topic of the cluster. Only `MetadataCache` changes it."""

    __slots__ = ("configs", "encoded", "instance_id", "is_internal", "name", "partitions", "topic_id")

    def __init__(self, name: str, topic_id: UUID) -> None:
        self.name = name
        self.topic_id = topic_id
        self.configs: Mapping[str, str] = _NO_CONFIGS
        """The topic's own layer, without defaults."""
        self.partitions: dict[int, UpdateMetadataPartitionState] = {}
        self.is_internal = name in INTERNAL_TOPICS
        self.instance_id = owner_of(name)
        """Whose it is; None: the cluster's own or a standalone Kafka's."""
        self.encoded: dict[int, bytes] = {}
        """Parts of Metadata answers, by a key of the handler; emptied when what they show changes."""

    @property
    def replicas(self) -> int:
        """Replicas of its partition with the most."""
        return max((len(state.replicas) for state in self.partitions.values()), default=1)


class MetadataChange(NamedTuple):
    """What an update has changed."""

    topics: Collection[str]
    """New, gone, or with other partition states."""
    configs: Collection[str]
    """Topics whose own layer was told."""
    brokers: bool
    """Who is registered, or who is controller."""
    broker_configs: bool
    """Dynamic configs of some broker."""


class MetadataCache:
    """The cluster as the controller last described it."""

    def __init__(self) -> None:
        self.controller_id = NO_LEADER
        self.controller_epoch = -1
        self.brokers: dict[int, LiveBroker] = {}
        """Brokers that are registered now."""
        self.broker_configs: Mapping[str, Mapping[str, str]] = {}
        """Dynamic configs by broker id, "" for the cluster-wide default (`/config/brokers`)."""
        self.encoded: dict[int, tuple[bytes, bytes]] = {}
        """What stands around the topics of Metadata answers; emptied when brokers change."""
        self._topics: dict[str, CachedTopic] = {}
        self._by_id: dict[UUID, CachedTopic] = {}
        self._by_instance: dict[str, dict[str, CachedTopic]] = {}
        self._partition_count = 0
        self._on_change: list[Callable[[MetadataChange], None]] = []
        self._on_deleted: list[Callable[[CachedTopic], None]] = []

    # -- reading -----------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[CachedTopic]:
        return iter(self._topics.values())

    def __len__(self) -> int:
        return len(self._topics)

    @property
    def is_known(self) -> bool:
        """Whether a controller has ever described the cluster."""
        return self.controller_epoch >= 0

    @property
    def live_controller_id(self) -> int:
        """The controller as clients are told of it: NO_LEADER when it is not registered any more."""
        return self.controller_id if self.controller_id in self.brokers else NO_LEADER

    @property
    def partition_count(self) -> int:
        """Partitions of the whole cluster."""
        return self._partition_count

    def topic(self, name: str) -> CachedTopic | None:
        """A topic by its physical name."""
        return self._topics.get(name)

    def topic_by_id(self, topic_id: UUID) -> CachedTopic | None:
        """A topic by its id."""
        return self._by_id.get(topic_id)

    def partition(self, name: str, index: int) -> UpdateMetadataPartitionState | None:
        """The state of one partition."""
        topic = self._topics.get(name)
        return None if topic is None else topic.partitions.get(index)

    def configs(self, name: str) -> Mapping[str, str]:
        """The topic's own layer of configs; empty for a topic not known."""
        topic = self._topics.get(name)
        return _NO_CONFIGS if topic is None else topic.configs

    def of_instance(self, instance_id: str) -> list[CachedTopic]:
        """The topics of one instance."""
        return list(self._by_instance.get(instance_id, {}).values())

    def is_live(self, broker_id: int, broker_epoch: int | None = None) -> bool:
        """Whether the broker is registered, with this epoch if one is given."""
        broker = self.brokers.get(broker_id)
        return broker is not None and broker_epoch in (None, broker.broker_epoch)

    def may_join_isr(self, broker_id: int, broker_epoch: int) -> bool:
        """KIP-841, KIP-903: only the registered incarnation of a broker that is not shutting down."""
        broker = self.brokers.get(broker_id)
        return (
            broker is not None and broker.broker_epoch == broker_epoch and not broker.in_controlled_shutdown
        )

    # -- who listens -------------------------------------------------------------------------------------

    def on_change(self, callback: Callable[[MetadataChange], None]) -> None:
        """Have `callback` called after each update."""
        self._on_change.append(callback)

    def on_deleted(self, callback: Callable[[CachedTopic], None]) -> None:
        """`callback(topic)` when a topic is no longer there."""
        self._on_deleted.append(callback)

    def note_shutdowns(self, live_brokers: Collection[LiveBroker]) -> None:
        """What a LeaderAndIsr says ahead of the UpdateMetadata behind it: a leader must not take back into an
        ISR who has just been taken out to shut down."""
        leaving = {
            each.broker_id: each
            for each in live_brokers
            if each.in_controlled_shutdown and self.is_live(each.broker_id, each.broker_epoch)
        }
        if leaving:
            self.brokers = self.brokers | leaving

    # -- the controller's word ---------------------------------------------------------------------------

    def apply(self, request: UpdateMetadataRequest) -> None:
        """Take over what changed. The caller has refused stale controllers and other incarnations."""
        assert request.controller_epoch >= self.controller_epoch, "a stale controller is refused before"
        brokers_changed = self._take_brokers(request)
        changed = dict.fromkeys(self._remove_deleted(request))
        configs: list[str] = []
        for state in request.topic_states:
            topic = self._current(state.topic, state.topic_id) or self._add(state.topic, state.topic_id)
            topic.configs = state.configs
            configs.append(state.topic)
        for partition in request.partition_states:
            self._take_partition(partition)
            changed[partition.topic] = None
        if brokers_changed:
            self.encoded.clear()
            for each in self._topics.values():
                each.encoded.clear()
        configs_changed = request.broker_configs not in (None, self.broker_configs)
        if request.broker_configs is not None:
            self.broker_configs = request.broker_configs
        for callback in self._on_change:
            callback(MetadataChange(changed.keys(), configs, brokers_changed, configs_changed))

    def _take_brokers(self, request: UpdateMetadataRequest) -> bool:
        """Whether anything about brokers is new."""
        brokers = {broker.broker_id: broker for broker in request.live_brokers}
        changed = (brokers, request.controller_id) != (self.brokers, self.controller_id)
        self.brokers = brokers
        self.controller_id = request.controller_id
        self.controller_epoch = request.controller_epoch
        return changed

    def _remove_deleted(self, request: UpdateMetadataRequest) -> list[str]:
        """Names of topics that went."""
        gone = [topic for each in request.deleted_topics if (topic := self._by_id.get(each.topic_id))]
        if request.is_full:
            named = {state.topic_id for state in request.topic_states}
            gone += [topic for topic in self._topics.values() if topic.topic_id not in named]
        names = []
        for topic in gone:
            if topic.topic_id in self._by_id:
                self._remove(topic)
                names.append(topic.name)
        return names

    def _current(self, name: str, topic_id: UUID) -> CachedTopic | None:
        """The topic if it is the one we know; another that had the name was deleted without our hearing."""
        topic = self._topics.get(name)
        if topic is not None and topic.topic_id != topic_id:
            self._remove(topic)
            return None
        return topic

    def _take_partition(self, state: UpdateMetadataPartitionState) -> None:
        topic = self._topics[state.topic]  # the controller names a topic before its partitions
        if state.partition not in topic.partitions:
            self._partition_count += 1
        topic.partitions[state.partition] = state
        topic.encoded.clear()

    def _add(self, name: str, topic_id: UUID) -> CachedTopic:
        topic = self._topics[name] = self._by_id[topic_id] = CachedTopic(name, topic_id)
        if topic.instance_id is not None:
            self._by_instance.setdefault(topic.instance_id, {})[name] = topic
        return topic

    def _remove(self, topic: CachedTopic) -> None:
        del self._topics[topic.name]
        del self._by_id[topic.topic_id]
        self._partition_count -= len(topic.partitions)
        if topic.instance_id is not None:
            del self._by_instance[topic.instance_id][topic.name]
            if not self._by_instance[topic.instance_id]:
                del self._by_instance[topic.instance_id]
        for callback in self._on_deleted:
            callback(topic)

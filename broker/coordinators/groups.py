"""The group coordinators of this broker: one for each partition of `__consumer_offsets` that it leads."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from broker.coordinators.runtime import CoordinatorRuntime
from broker.coordinators.shard import Shard, Written, nobody_pays
from broker.groups.consumer_messages import TopicOfGroup
from broker.groups.coordinator import GroupCoordinator, none_held
from broker.groups.group_config import GroupConfig
from broker.groups.group_totals import GroupTotals
from broker.groups.messages import ListedGroup
from broker.groups.records import OFFSETS_TOPIC
from broker.metadata.metadata_cache import MetadataCache, MetadataChange
from broker.replication.partition import Partition
from contracts.names import owner_of
from runtime.machine import THIS_MACHINE, Machine


class _Topics:
    """The topics of the cluster, as groups see them."""

    def __init__(self, metadata: MetadataCache) -> None:
        self._metadata = metadata
        self._versions: Counter[str | None] = Counter()
        metadata.on_change(self._changed)
        metadata.on_deleted(lambda topic: self._versions.update((topic.instance_id,)))

    def _changed(self, change: MetadataChange) -> None:
        self._versions.update({owner_of(name) for name in change.topics})

    def version(self, owner: str | None) -> int:
        return self._versions[owner]

    def topic(self, name: str) -> TopicOfGroup | None:
        topic = self._metadata.topic(name)
        return None if topic is None else TopicOfGroup(topic.topic_id, len(topic.partitions))

    def names(self, owner: str | None) -> Iterable[str]:
        if owner is not None:
            return [topic.name for topic in self._metadata.of_instance(owner)]
        return [topic.name for topic in self._metadata if topic.instance_id is None and not topic.is_internal]


class GroupCoordinators(CoordinatorRuntime[GroupCoordinator]):
    """Every group of the cluster has its shard on one broker."""

    def __init__(
        self,
        metadata: MetadataCache,
        config: GroupConfig | None = None,
        on_written: Written = nobody_pays,
        *,
        is_held: Callable[[str], bool] = none_held,
        machine: Machine = THIS_MACHINE,
    ) -> None:
        """`is_held` says of a group's name whether its offsets must not expire now."""
        super().__init__(
            OFFSETS_TOPIC, metadata, self._new_coordinator, _no_command, on_written, machine.clock
        )
        self._uuid4 = machine.uuid4
        self.config: Final = config or GroupConfig()
        self._usage = GroupTotals()
        self._topics = _Topics(metadata)
        self._is_held = is_held

    def _new_coordinator(self, _partition: Partition) -> GroupCoordinator:
        return GroupCoordinator(
            self.config, lambda: str(self._uuid4()), self._topics, self._usage, is_held=self._is_held
        )

    def list_groups(self, states: frozenset[str]) -> list[ListedGroup]:
        """All groups that are coordinated and served here."""
        return [group for shard in self if shard.error is None for group in shard.core.list_groups(states)]

    def committed_offsets(self) -> Iterator[tuple[str, str, int, int]]:
        """(group, topic, partition, offset) of all groups that are coordinated and served here."""
        for shard in self:
            if shard.error is None:
                yield from shard.core.committed_offsets()

    def topics_deleted(self, names: Iterable[str]) -> None:
        """Committed offsets of deleted topics go."""
        gone = tuple(names)
        for shard in self:
            shard.once_loaded(lambda each=shard: each.core.forget_topics(gone, each.now()))  # type: ignore[misc]

    def purge_instance(self, instance_id: str) -> None:
        """Everything of a deleted instance goes. Safe to repeat."""
        for shard in self:
            shard.once_loaded(lambda each=shard: each.core.purge_instance(instance_id, each.now()))  # type: ignore[misc]


def _no_command(_shard: Shard[GroupCoordinator], command: Any) -> None:
    raise AssertionError(f"groups give no commands: {command}")

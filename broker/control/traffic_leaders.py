"""What the traffic point is told of leaders: which partitions this broker leads, and who leads the others."""

from collections import Counter
from collections.abc import Iterable

from broker.metadata.metadata_cache import MetadataCache, MetadataChange
from broker.replication.partition import Partition
from broker.replication.replicas import Key, Replicas
from contracts.names import owner_of
from contracts.quota import leaders_version
from traffic.point import TrafficPoint


class TrafficLeaders:
    """Listens to roles and metadata."""

    def __init__(self, traffic: TrafficPoint, replicas: Replicas, metadata: MetadataCache) -> None:
        self._traffic = traffic
        self._replicas = replicas
        self._metadata = metadata
        self._led: set[Key] = set()
        self.elsewhere: set[str] = set()
        """Instances that live on another cluster: what is here of them is a copy, before or after a move, and
        is told to nobody as theirs. The control plane counts it itself."""
        replicas.on_leadership(self._leadership_changed)
        metadata.on_change(self._metadata_changed)

    def measure(self, instance_ids: Iterable[str | None]) -> None:
        """What is led and stored now: deletion lifts a block without waiting a second."""
        for instance_id in set(instance_ids):
            if instance_id is not None and instance_id not in self.elsewhere:
                self._traffic.set_led(instance_id, *self._replicas.led_by(instance_id))

    def measure_all(self) -> None:
        """Measure every instance."""
        led = self._replicas.led_by_instance()
        self._traffic.set_all_led({key: value for key, value in led.items() if key not in self.elsewhere})

    def _leadership_changed(self, partition: Partition, is_leader: bool) -> None:
        """A move neither fills nor frees an instance; the end of a topic does."""
        instance_id, key = partition.instance_id, partition.key
        if instance_id is None or is_leader == (key in self._led):
            return
        if is_leader:
            self._led.add(key)
        else:
            self._led.discard(key)
            if self._metadata.topic(partition.topic) is None:
                self.measure([instance_id])
                return
        sign = 1 if is_leader else -1
        if instance_id in self.elsewhere:
            return
        self._traffic.move_leadership(instance_id, sign, sign * partition.log.size_bytes)

    def _metadata_changed(self, change: MetadataChange) -> None:
        for instance_id in {owner_of(name) for name in change.topics}:
            if instance_id is not None:
                self._tell_leaders(instance_id)

    def lives_here(self, instance_id: str, is_so: bool) -> None:
        """The feed says on which cluster an instance is served."""
        if is_so == (instance_id not in self.elsewhere):
            return
        if is_so:
            self.elsewhere.discard(instance_id)
            self.measure([instance_id])
            self._tell_leaders(instance_id)
        else:
            self.elsewhere.add(instance_id)
            if any(self._metadata.of_instance(instance_id)):
                self._traffic.set_led(instance_id, 0, 0)
                self._traffic.set_leaders(instance_id, {}, 0)

    def _tell_leaders(self, instance_id: str) -> None:
        if instance_id in self.elsewhere:
            return
        states = [
            state for topic in self._metadata.of_instance(instance_id) for state in topic.partitions.values()
        ]
        leaders = Counter(state.leader for state in states if self._metadata.is_live(state.leader))
        version = leaders_version(self._metadata.controller_epoch, (state.leader_epoch for state in states))
        self._traffic.set_leaders(instance_id, leaders, version)

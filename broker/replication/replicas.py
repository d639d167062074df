"""The replicas of this broker as the rest of it sees them. Pure."""

from collections.abc import Callable, Iterator
from typing import Protocol

from kio.schema.errors import ErrorCode

from broker.log.errors import LogError, StorageFailed
from broker.replication.host import IsrChange, NotLeader
from broker.replication.partition import Partition

Key = tuple[str, int]


class ClusterView(Protocol):
    """What is asked of the MetadataCache."""

    def partition(self, name: str, index: int) -> object | None:
        """Not None when the cluster has the partition."""

    def may_join_isr(self, broker_id: int, broker_epoch: int) -> bool:
        """Whether the registered incarnation asks, and is not shutting down."""


class Replicas:
    """The partitions hosted here, and who listens to them. Implements `PartitionHost` for them."""

    def __init__(self, broker_id: int, cluster: ClusterView, replica_lag_max_ms: int) -> None:
        self.broker_id = broker_id
        self.replica_lag_max_ms = replica_lag_max_ms
        self._cluster = cluster
        self._partitions: dict[Key, Partition] = {}
        self._by_instance: dict[str, dict[Key, Partition]] = {}
        self._offline: dict[Key, str] = {}
        """Replicas whose log cannot be used, and why."""
        self._on_leadership: list[Callable[[Partition, bool], None]] = []
        self._on_stopped: list[Callable[[Partition, bool], None]] = []
        self._on_isr_proposed: list[Callable[[Partition, IsrChange], None]] = []
        self._on_appended: list[Callable[[Partition], None]] = []
        self._on_committed: list[Callable[[Partition, int], None]] = []

    # -- what handlers ask -------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Partition]:
        return iter(list(self._partitions.values()))

    def __len__(self) -> int:
        return len(self._partitions)

    def hosted(self, topic: str, index: int) -> Partition | None:
        """The replica, whatever its role."""
        return self._partitions.get((topic, index))

    def replica(self, topic: str, index: int) -> Partition:
        """The replica of a name. Raises: LogError, as `leader`."""
        partition = self._partitions.get((topic, index))
        if partition is None:
            raise self._not_hosted(topic, index)
        return partition

    def leader(self, topic: str, index: int, current_leader_epoch: int = -1) -> Partition:
        """The partition if this broker leads it, in this epoch if one is given (KIP-320).

        Raises: LogError with UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH,
        UNKNOWN_LEADER_EPOCH or KAFKA_STORAGE_ERROR.
        """
        partition = self.replica(topic, index)
        if current_leader_epoch not in (-1, partition.leader_epoch):
            if current_leader_epoch < partition.leader_epoch:
                raise LogError(ErrorCode.fenced_leader_epoch, f"epoch {current_leader_epoch} is over")
            raise LogError(
                ErrorCode.unknown_leader_epoch, f"epoch {current_leader_epoch} is not known here yet"
            )
        if not partition.is_leader:
            raise NotLeader(topic, index)
        return partition

    def _not_hosted(self, topic: str, index: int) -> LogError:
        if (topic, index) in self._offline:
            return StorageFailed(f"{topic}-{index}: {self._offline[topic, index]}")
        if self._cluster.partition(topic, index) is not None:
            return NotLeader(topic, index)
        return LogError(ErrorCode.unknown_topic_or_partition, f"{topic}-{index} does not exist")

    def led_by(self, instance_id: str) -> tuple[int, int]:
        """(partitions led, bytes stored in them) of one instance, for the traffic point."""
        led = [each for each in self._by_instance.get(instance_id, {}).values() if each.is_leader]
        return len(led), sum(each.log.size_bytes for each in led)

    def led_by_instance(self) -> dict[str, tuple[int, int]]:
        """Partitions led here, of every instance that has replicas here."""
        return {instance_id: self.led_by(instance_id) for instance_id in self._by_instance}

    # -- who listens -------------------------------------------------------------------------------------

    def on_leadership(self, callback: Callable[[Partition, bool], None]) -> None:
        """`callback(partition, is_leader)` in every new leader epoch, and when leading ends."""
        self._on_leadership.append(callback)

    def on_stopped(self, callback: Callable[[Partition, bool], None]) -> None:
        """`callback(partition, is_deleted)` when a replica is no longer hosted."""
        self._on_stopped.append(callback)

    def on_isr_proposed(self, callback: Callable[[Partition, IsrChange], None]) -> None:
        """`callback(partition, change)`: write it, then tell the partition."""
        self._on_isr_proposed.append(callback)

    def on_appended(self, callback: Callable[[Partition], None]) -> None:
        """`callback(partition)` after a leader's log grew."""
        self._on_appended.append(callback)

    def on_committed(self, callback: Callable[[Partition, int], None]) -> None:
        """`callback(partition, bytes)` after a high watermark moved; the bytes are an upper estimate."""
        self._on_committed.append(callback)

    # -- PartitionHost (for partitions) ------------------------------------------------------------------

    def may_join_isr(self, replica_id: int, broker_epoch: int) -> bool:
        return self._cluster.may_join_isr(replica_id, broker_epoch)

    def propose_isr(self, partition: Partition, change: IsrChange) -> None:
        for callback in self._on_isr_proposed:
            callback(partition, change)

    def appended(self, partition: Partition) -> None:
        for callback in self._on_appended:
            callback(partition)

    def high_watermark_moved(self, partition: Partition, committed_bytes: int) -> None:
        for callback in self._on_committed:
            callback(partition, committed_bytes)

    def leadership_lost(self, partition: Partition) -> None:
        """The state node says that another leads; the controller's command will follow."""
        self.tell_leadership(partition, is_leader=False)

    # -- what is hosted (for the replica manager) --------------------------------------------------------

    def add(self, partition: Partition) -> None:
        """Host one more."""
        self._partitions[partition.key] = partition
        self._offline.pop(partition.key, None)
        if partition.instance_id is not None:
            self._by_instance.setdefault(partition.instance_id, {})[partition.key] = partition

    def remove(self, partition: Partition) -> None:
        """Host it no longer; `tell_stopped` follows."""
        del self._partitions[partition.key]
        if partition.instance_id is not None:
            replicas = self._by_instance[partition.instance_id]
            del replicas[partition.key]
            if not replicas:
                del self._by_instance[partition.instance_id]

    def went_offline(self, key: Key, reason: str) -> None:
        """A replica's log cannot be used: whoever asks hears KAFKA_STORAGE_ERROR."""
        self._offline[key] = reason

    def forget_offline(self, key: Key) -> None:
        """The replica is deleted, wherever its log is."""
        self._offline.pop(key, None)

    def tell_leadership(self, partition: Partition, *, is_leader: bool) -> None:
        for callback in self._on_leadership:
            callback(partition, is_leader)

    def tell_stopped(self, partition: Partition, *, is_deleted: bool) -> None:
        for callback in self._on_stopped:
            callback(partition, is_deleted)

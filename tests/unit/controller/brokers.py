"""Brokers of a cluster of pure parts. What fences and obeys in them is the real thing; only logs are not."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any, Final, NamedTuple
from uuid import UUID

from broker.cluster.commands import CommandReceiver
from broker.log.errors import StorageFailed
from broker.log.log_config import LogConfig
from broker.log.offsets import LogOffsets
from broker.metadata.metadata_cache import MetadataCache
from broker.replication.partition import Partition
from broker.replication.replicas import Replicas
from broker.replicator.manager import ReplicaManager
from contracts.cluster import Command, CommandResponse, LiveBroker

Key = tuple[str, int]
_CONFIG: Final = LogConfig()
_LAG_MAX_MS: Final = 30_000


class EmptyLog:
    """A log that nothing is appended to."""

    def __init__(self, key: Key, topic_id: UUID) -> None:
        self.topic, self.partition = key
        self.topic_id = topic_id
        self.config = _CONFIG
        self.offsets = LogOffsets(0, 0, 0, 0)

    def reconfigure(self, config: LogConfig) -> None:
        self.config = config

    def begin_epoch(self, epoch: int) -> None:
        """Nothing to note it in."""


class EmptyLogs:
    """What the replica manager asks of the log manager. Outlives the process."""

    def __init__(self) -> None:
        self.logs: dict[Key, EmptyLog] = {}
        self.failed: dict[Key, EmptyLog | None] = {}
        """In a directory that failed; None where the log was never made."""

    def get(self, topic: str, partition: int) -> EmptyLog | None:
        return self.logs.get((topic, partition))

    def begin_creation(self, _topic_ids: Mapping[Key, UUID]) -> None:
        """Nothing is made for these."""

    def create(
        self,
        topic: str,
        partition: int,
        topic_id: UUID,
        _config: LogConfig,
        _now_ms: int,
        *,
        is_new: bool,
        begun: None,
    ) -> EmptyLog:
        key = (topic, partition)
        if key in self.failed:
            raise StorageFailed(f"{topic}-{partition}: its directory has failed")
        log = self.logs[key] = EmptyLog(key, topic_id)
        return log

    def delete(self, topic: str, partition: int) -> None:
        del self.logs[topic, partition]

    def forget_offline(self, topic: str, partition: int) -> None:
        self.failed.pop((topic, partition), None)

    def fail(self, key: Key) -> None:
        self.failed[key] = self.logs.pop(key, None)

    def mend(self) -> None:
        self.logs |= {key: log for key, log in self.failed.items() if log is not None}
        self.failed.clear()


class Role(NamedTuple):
    """What a broker has been told to be in a partition."""

    topic_id: UUID
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]


class _Loop:
    """Whose callbacks run when the test has let a command in."""

    def __init__(self) -> None:
        self._soon: deque[Callable[[], None]] = deque()

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._soon.append(callback)

    def run(self) -> None:
        while self._soon:
            self._soon.popleft()()


class _Process:
    """What a broker loses with its process: what it was told."""

    def __init__(self, broker_id: int, broker_epoch: int, logs: EmptyLogs) -> None:
        self.metadata = MetadataCache()
        self.replicas = Replicas(broker_id, self.metadata, _LAG_MAX_MS)
        self.replica_manager = ReplicaManager(
            self.replicas,
            logs,  # type: ignore[arg-type]
            configs_of=self.metadata.configs,
            log_config=lambda *_: _CONFIG,
            now_ms=lambda: 0,
            epoch_ms=lambda: 0,
        )
        self.replica_manager.followers = _Followers()
        self.loop = _Loop()
        self.commands = CommandReceiver(
            self.loop,  # type: ignore[arg-type]
            SimpleNamespace(last_epoch=broker_epoch),  # type: ignore[arg-type]
            self.metadata,
            self.replica_manager,
            SimpleNamespace(received=lambda *_: None),  # type: ignore[arg-type]
        )


class _Followers:
    """Nothing is fetched."""

    def __init__(self) -> None:
        self._leaders: dict[Key, int] = {}

    def follow(self, partition: Partition, leader: LiveBroker) -> None:
        self._leaders[partition.key] = leader.broker_id

    def follows(self, partition: Partition) -> bool:
        return partition.key in self._leaders

    def unfollow(self, partition: Partition) -> None:
        self._leaders.pop(partition.key, None)

    def close_idle(self) -> None:
        """There are no connections."""


class PureBroker:
    """One broker: its logs, and its process while it lives."""

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.session = 0
        self.broker_epoch = -1
        self.disk = EmptyLogs()
        self._process: _Process | None = None

    @property
    def is_alive(self) -> bool:
        return self.session != 0

    def registered(self, broker_epoch: int) -> None:
        """The process begins."""
        self.broker_epoch = broker_epoch
        self._process = _Process(self.broker_id, broker_epoch, self.disk)

    def crash(self) -> None:
        """The process is gone, its logs stay."""
        self.session = 0
        self._process = None

    def fail_log(self, key: Key) -> None:
        """The directory of one log fails."""
        self.disk.fail(key)
        if self._process is not None:
            self._process.replica_manager.log_directory_failed([key], "its directory has failed")

    def carry_out(self, command: Command) -> CommandResponse:
        """As the broker's one way in does it."""
        assert self._process is not None
        answers: list[CommandResponse] = []
        self._process.commands.receive(command, answers.append)
        self._process.loop.run()
        (answer,) = answers
        return answer

    @property
    def logs(self) -> set[Key]:
        """What is on its disks, failed or not."""
        return self.disk.logs.keys() | {key for key, log in self.disk.failed.items() if log is not None}

    @property
    def partitions(self) -> Iterator[Partition]:
        return iter(()) if self._process is None else iter(self._process.replicas)

    @property
    def roles(self) -> dict[Key, Role]:
        return {
            each.key: Role(each.topic_id, each.index, each.leader_id, each.leader_epoch, each.replicas)
            for each in self.partitions
        }

    def role(self, key: Key) -> Role | None:
        found = None if self._process is None else self._process.replicas.hosted(*key)
        if found is None:
            return None
        return Role(found.topic_id, found.index, found.leader_id, found.leader_epoch, found.replicas)

    @property
    def metadata(self) -> dict[Key, tuple[int, tuple[int, ...]]]:
        """(leader, ISR) of every partition it knows of."""
        known: Any = () if self._process is None else self._process.metadata
        return {
            (topic.name, index): (state.leader, state.isr)
            for topic in known
            for index, state in topic.partitions.items()
        }

    def may_join_isr(self, other: "PureBroker") -> bool:
        """Whether a leader here takes that broker's replicas into ISRs."""
        process = self._process
        return process is not None and process.metadata.may_join_isr(other.broker_id, other.broker_epoch)

"""Every replica of this broker: who leads, who follows, and what the controller commands (seed 001).

Commands are idempotent and may come late or twice: the controller epoch fences old controllers, the leader
epoch and the state node's version old decisions. What fails for one partition is that partition's answer.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Final, Protocol
from uuid import UUID

from kio.schema.errors import ErrorCode

from broker.log.errors import StorageFailed
from broker.log.log_config import LogConfig
from broker.log.partition_log import PartitionLog
from broker.log.partition_metadata import NO_TOPIC_ID
from broker.replication.partition import Partition
from broker.replication.replicas import Key, Replicas
from broker.storage.jobs import CreationJob
from broker.storage.manager import LogManager
from contracts.cluster import (
    EPOCH_DURING_DELETE,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LiveBroker,
    PartitionError,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
)
from runtime.logs import get_logger

_log = get_logger(__name__)
_PARTITIONS_PER_STEP: Final = 10

LeaderAndIsrSteps = Generator[CreationJob | None, None, LeaderAndIsrResponse]
StopReplicaSteps = Generator[None, None, StopReplicaResponse]


class Followers(Protocol):
    """What fetches from leaders elsewhere."""

    def follow(self, partition: Partition, leader: LiveBroker) -> None:
        """Fetch a partition from this leader in the partition's leader epoch, ending what went before."""

    def follows(self, partition: Partition) -> bool:
        """Whether it is fetched from anyone."""

    def unfollow(self, partition: Partition) -> None:
        """Fetch it no longer."""

    def close_idle(self) -> None:
        """Close fetchers without partitions."""


class _NoFollowers:
    """A broker without others."""

    def follow(self, partition: Partition, leader: LiveBroker) -> None:
        raise AssertionError(f"{partition} cannot follow broker {leader.broker_id}")

    def follows(self, partition: Partition) -> bool:
        raise AssertionError(f"{partition} cannot follow anyone")

    def unfollow(self, partition: Partition) -> None:
        pass

    def close_idle(self) -> None:
        pass


class ReplicaManager:
    """What becomes of the replicas."""

    def __init__(
        self,
        replicas: Replicas,
        logs: LogManager,
        *,
        configs_of: Callable[[str], Mapping[str, str]],
        log_config: Callable[[str, Mapping[str, str]], LogConfig],
        now_ms: Callable[[], int],
        epoch_ms: Callable[[], int],
    ) -> None:
        """`configs_of` a topic is its own layer, of which `log_config` makes a log's settings; `now_ms` is
        monotonic."""
        self.controller_epoch = -1
        """Of the newest controller that commanded."""
        self.followers: Followers = _NoFollowers()
        self._replicas = replicas
        self._logs = logs
        self._configs_of = configs_of
        self._log_config = log_config
        self._now_ms = now_ms
        self._epoch_ms = epoch_ms

    # -- commands ----------------------------------------------------------------------------------------

    def leader_and_isr(self, request: LeaderAndIsrRequest) -> LeaderAndIsrSteps:
        """Take the roles the controller gives out, in steps between which clients are served. A job is to be
        run, on a thread, before the next step."""
        if request.controller_epoch < self.controller_epoch:
            return LeaderAndIsrResponse(error_code=_code(ErrorCode.stale_controller_epoch))
        self.controller_epoch = request.controller_epoch
        leaders = {broker.broker_id: broker for broker in request.live_brokers}
        errors: list[PartitionError] = []
        states = request.partition_states
        for first in range(0, len(states), _PARTITIONS_PER_STEP):
            step = states[first : first + _PARTITIONS_PER_STEP]
            begun = self._begin_logs(step)
            if begun is not None or first > 0:
                yield begun
            for state in step:
                configs = request.topic_configs.get(state.topic)
                error_code = self._take_role(state, configs, leaders.get(state.leader), begun)
                if error_code is not ErrorCode.none:
                    errors.append(_error(state, error_code))
            if begun is not None:
                self._logs.complete_creation(begun)
        if request.is_full:
            self._stop_strays({(state.topic, state.partition) for state in request.partition_states})
        self.followers.close_idle()
        return LeaderAndIsrResponse(partition_errors=tuple(errors))

    def _begin_logs(self, states: Sequence[LeaderAndIsrPartitionState]) -> CreationJob | None:
        """One that others have to make way for is made in its turn."""
        return self._logs.begin_creation(
            {
                (state.topic, state.partition): state.topic_id
                for state in states
                if self._replicas.broker_id in state.replicas
            }
        )

    def _take_role(
        self,
        state: LeaderAndIsrPartitionState,
        configs: Mapping[str, str] | None,
        leader: LiveBroker | None,
        begun: CreationJob | None,
    ) -> ErrorCode:
        if self._replicas.broker_id not in state.replicas:
            _log.warning("a replica of others was assigned", topic=state.topic, partition=state.partition)
            return ErrorCode.unknown_topic_or_partition
        try:
            partition = self._partition_of(state, configs, begun)
        except StorageFailed as error:
            self._replicas.went_offline((state.topic, state.partition), error.message)
            _log.error("a replica's log cannot be opened", error=error.message)
            return error.error_code
        if state.leader_epoch < partition.leader_epoch:
            return ErrorCode.fenced_leader_epoch
        is_new_epoch = state.leader_epoch > partition.leader_epoch
        if state.partition_epoch <= partition.partition_epoch and not is_new_epoch:
            return ErrorCode.none  # known already
        try:
            if state.leader == self._replicas.broker_id:
                self._lead(partition, state)
            else:
                self._follow(partition, state, leader)
        except StorageFailed as error:
            return error.error_code
        return ErrorCode.none

    def _lead(self, partition: Partition, state: LeaderAndIsrPartitionState) -> None:
        self.followers.unfollow(partition)
        if partition.make_leader(state, self._now_ms()):
            self._replicas.tell_leadership(partition, is_leader=True)

    def _follow(
        self, partition: Partition, state: LeaderAndIsrPartitionState, leader: LiveBroker | None
    ) -> None:
        was_leader = partition.is_leader
        is_new_epoch = partition.make_follower(state)
        if was_leader:
            self._replicas.tell_leadership(partition, is_leader=False)
        if leader is None:
            self.followers.unfollow(partition)
        elif is_new_epoch or not self.followers.follows(partition):
            self.followers.follow(partition, leader)

    def _partition_of(
        self,
        state: LeaderAndIsrPartitionState,
        configs: Mapping[str, str] | None,
        begun: CreationJob | None,
    ) -> Partition:
        """The hosted replica; its log is made when there is none. Raises: StorageFailed."""
        key = (state.topic, state.partition)
        partition = self._replicas.hosted(*key)
        if partition is not None and partition.topic_id in (state.topic_id, NO_TOPIC_ID):
            return partition
        if partition is not None:
            self._stop(partition, delete=True)
        layer = self._configs_of(state.topic) if configs is None else configs
        config = self._log_config(state.topic, layer)
        log = self._log_of(key, state.topic_id, config, is_new=state.is_new, begun=begun)
        log.reconfigure(config)
        partition = Partition(log, self._replicas)
        self._replicas.add(partition)
        return partition

    def _log_of(
        self, key: Key, topic_id: UUID, config: LogConfig, *, is_new: bool, begun: CreationJob | None
    ) -> PartitionLog:
        log = self._logs.get(*key)
        if log is not None and log.topic_id not in (topic_id, NO_TOPIC_ID):
            # Deletions wait for every broker, so this name was taken again without one: the tree was lost.
            path = self._logs.set_aside(*key)
            _log.error("a log of another topic of this name is set aside", path=str(path), topic=key[0])
            log = None
        if log is not None:
            return log
        return self._logs.create(*key, topic_id, config, self._epoch_ms(), is_new=is_new, begun=begun)

    def _stop_strays(self, named: set[Key]) -> None:
        """Stop what the controller did not name. Logs stay: only a StopReplica deletes, since a controller
        that read a damaged tree must not cost data."""
        for partition in self._replicas:
            if partition.key not in named:
                self._stop(partition, delete=False)
        for key in self._logs.logs.keys() - named:
            _log.warning("a log that nobody assigned is kept", topic=key[0], partition=key[1])

    def stop_replica(self, request: StopReplicaRequest) -> StopReplicaSteps:
        """Stop replicas, deleting logs where the controller says so, in steps."""
        if request.controller_epoch < self.controller_epoch:
            return StopReplicaResponse(error_code=_code(ErrorCode.stale_controller_epoch))
        self.controller_epoch = request.controller_epoch
        errors: list[PartitionError] = []
        for number, state in enumerate(request.partition_states, 1):
            error_code = self._stop_one(state)
            if error_code is not ErrorCode.none:
                errors.append(_error(state, error_code))
            if state.delete_partition or number % _PARTITIONS_PER_STEP == 0:
                yield  # a directory was renamed, for which the file system may take its time
        self.followers.close_idle()
        return StopReplicaResponse(partition_errors=tuple(errors))

    def _stop_one(self, state: StopReplicaPartitionState) -> ErrorCode:
        key = (state.topic, state.partition)
        log = self._logs.get(*key)
        if log is not None and log.topic_id not in (state.topic_id, NO_TOPIC_ID):
            return ErrorCode.none  # that topic is gone; this one took its name
        partition = self._replicas.hosted(*key)
        try:
            if partition is None:
                if state.delete_partition:
                    self._delete_log(key)
                return ErrorCode.none
            if state.leader_epoch != EPOCH_DURING_DELETE and state.leader_epoch < partition.leader_epoch:
                return ErrorCode.fenced_leader_epoch
            self._stop(partition, delete=state.delete_partition)
        except StorageFailed as error:
            _log.error("a replica's log cannot be deleted", error=error.message)
            return error.error_code
        return ErrorCode.none

    def _stop(self, partition: Partition, *, delete: bool) -> None:
        """Raises: StorageFailed when the log cannot be deleted; it is not hosted any more then."""
        was_leader = partition.is_leader
        self.followers.unfollow(partition)
        self._replicas.remove(partition)
        partition.resign()
        if was_leader:
            self._replicas.tell_leadership(partition, is_leader=False)
        if delete:
            self._delete_log(partition.key)
        self._replicas.tell_stopped(partition, is_deleted=delete)

    def _delete_log(self, key: Key) -> None:
        self._replicas.forget_offline(key)
        self._logs.forget_offline(*key)
        if self._logs.get(*key) is not None:
            self._logs.delete(*key)

    def log_directory_failed(self, keys: Iterable[Key], reason: str) -> None:
        """These replicas are lost until a restart; whoever asks hears KAFKA_STORAGE_ERROR."""
        for key in keys:
            partition = self._replicas.hosted(*key)
            if partition is not None:
                self._stop(partition, delete=False)
            self._replicas.went_offline(key, reason)

    # -- upkeep ------------------------------------------------------------------------------------------

    def reconfigure(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        """A topic's configs have changed."""
        config = self._log_config(topic, configs)
        for index in range(partitions):
            partition = self._replicas.hosted(topic, index)
            if partition is not None:
                partition.log.reconfigure(config)
                partition.reconfigured()

    def review_isrs(self) -> None:
        """See who lags and who has caught up. Call it every half `replica.lag.time.max.ms` or more often."""
        now_ms = self._now_ms()
        for partition in self._replicas:
            partition.review_isr(now_ms)


def _code(error_code: ErrorCode) -> int:
    return int(error_code.value)


def _error(state: LeaderAndIsrPartitionState | StopReplicaPartitionState, code: ErrorCode) -> PartitionError:
    return PartitionError(topic=state.topic, partition=state.partition, error_code=_code(code))

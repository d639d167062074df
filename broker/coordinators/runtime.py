"""All coordinators of one internal topic on this broker: a shard for each partition that it leads.

Who coordinates a key follows from its hash: the leader of that partition of the topic.
Source: Kafka's CoordinatorRuntime, GroupCoordinator.partitionFor.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, Final, Generic

from kio.schema.errors import ErrorCode

from broker.coordination.java_hash import partition_for
from broker.coordinators.shard import C, Shard, Written, nobody_pays
from broker.metadata.metadata_cache import MetadataCache
from broker.replication.partition import Partition
from contracts.cluster import LiveBroker
from runtime.clock import SYSTEM_CLOCK, Clock
from runtime.logs import get_logger

_log = get_logger(__name__)
SWEEP_INTERVAL_MS: Final = 600_000
"""`offsets.retention.check.interval.ms`."""


class CoordinatorRuntime(Generic[C]):
    """Loads shards when leadership comes, drops them when it goes."""

    def __init__(
        self,
        topic: str,
        metadata: MetadataCache,
        new_core: Callable[[Partition], C],
        on_command: Callable[[Shard[C], Any], None],
        on_written: Written = nobody_pays,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.clock: Final = clock
        self.topic: Final = topic
        self._metadata = metadata
        self._new_core = new_core
        self._on_command = on_command
        self._on_written = on_written
        self._shards: dict[int, Shard[C]] = {}
        self._loads: set[asyncio.Task[None]] = set()

    def __iter__(self) -> Iterator[Shard[C]]:
        return iter(tuple(self._shards.values()))

    @property
    def is_loading(self) -> bool:
        """Whether some of what this broker leads is not served yet."""
        return any(shard.is_loading for shard in self._shards.values())

    def partition_of(self, key: str) -> int | None:
        """The partition that owns a key; None while the topic is not there."""
        topic = self._metadata.topic(self.topic)
        return None if topic is None else partition_for(key, len(topic.partitions))

    def node_of(self, key: str) -> LiveBroker | None:
        """The broker that coordinates a key, None while there is none."""
        index = self.partition_of(key)
        state = None if index is None else self._metadata.partition(self.topic, index)
        return None if state is None else self._metadata.brokers.get(state.leader)

    def of(self, key: str) -> Shard[C] | ErrorCode:
        """The shard that coordinates a key and serves, or what the request gets."""
        index = self.partition_of(key)
        return ErrorCode.coordinator_not_available if index is None else self.at(index)

    def at(self, index: int) -> Shard[C] | ErrorCode:
        """The shard of a partition, if it serves, or what the request gets."""
        shard = self._shards.get(index)
        if shard is None:
            return ErrorCode.not_coordinator
        return shard.error or shard

    def leadership(self, partition: Partition, is_leader: bool) -> None:
        """The replica manager says that this broker leads a partition, in a new epoch, or no longer."""
        if partition.topic != self.topic:
            return
        former = self._shards.pop(partition.index, None)
        if former is not None and is_leader and former.leader_epoch == partition.leader_epoch:
            self._shards[partition.index] = former
            return
        if former is not None:
            former.resign()
        if is_leader:
            self._begin(partition)

    def _begin(self, partition: Partition) -> None:
        core = self._new_core(partition)
        shard = Shard(partition, core, self._on_command, self._replace, self._on_written, self.clock)
        self._shards[partition.index] = shard
        task = asyncio.get_running_loop().create_task(self._load(shard), name=f"load {self.topic}")
        self._loads.add(task)
        task.add_done_callback(self._loads.discard)

    async def _load(self, shard: Shard[C]) -> None:
        try:
            await shard.load()
        except asyncio.CancelledError:
            raise
        except Exception:  # noqa: BLE001 - this partition is not served until someone looks; others are
            _log.exception(
                "a coordinator could not be loaded", topic=self.topic, partition=shard.partition.index
            )

    def _replace(self, shard: Shard[C]) -> None:
        """The shard may not match its log: read it again, if we still lead."""
        index = shard.partition.index
        if self._shards.get(index) is shard:
            del self._shards[index]
            shard.resign()
            if shard.partition.is_leader:
                self._begin(shard.partition)

    async def sweep(self) -> None:
        """Now and then look for what has expired, for ever."""
        while True:
            await asyncio.sleep(SWEEP_INTERVAL_MS / 1000)
            for shard in self:
                if shard.error is None:
                    shard.submit(shard.core.sweep(shard.now()))
                    await asyncio.sleep(0)

    def close(self) -> None:
        """Stop timers and loads; parked calls end with their connections."""
        for task in self._loads:
            task.cancel()
        for shard in self:
            shard.close()

"""One broker's replicas of internal topics on a real disk. Controller and follower are the test's."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_DNS, UUID, uuid5

from broker.log.log_config import LogConfig
from broker.metadata.metadata_cache import MetadataCache
from broker.replication.partition import Partition
from broker.replication.remote import FollowerLink
from broker.replication.replicas import Replicas
from broker.replicator.manager import ReplicaManager
from broker.storage.manager import LogManager
from contracts.cluster import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LiveBroker,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from runtime.clock import epoch_ms, monotonic_ms
from tests.unit.replication.steps import carried_out

ME, FOLLOWER = 1, 2
PARTITIONS = 3
CONFIG = LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=4096, min_insync_replicas=1)


def _topic_id(topic: str) -> UUID:
    return uuid5(NAMESPACE_DNS, topic)


class NoFetching:
    """This broker follows nobody in earnest."""

    def follow(self, partition: Partition, leader: LiveBroker) -> None:
        pass

    def follows(self, partition: Partition) -> bool:
        return False

    def unfollow(self, partition: Partition) -> None:
        pass

    def close_idle(self) -> None:
        pass


class Disk:
    """The directory of the topic, with the broker that hosts it; `restart` is a crash and a new process."""

    def __init__(self, directory: Path, *topics: str, replicas: tuple[int, ...] = (ME,)) -> None:
        self._directory = directory
        self.topics = topics
        self._assigned = replicas
        self._epoch = 0
        self._partition_epoch = 0
        self._start()

    def _start(self) -> None:
        self.logs = LogManager([self._directory], cluster_id="c", node_id=ME)
        self.logs.load(lambda _topic: CONFIG, 0)
        self.metadata = MetadataCache()
        self.replicas = Replicas(ME, self.metadata, 10_000)
        self.replica_manager = ReplicaManager(
            self.replicas,
            self.logs,
            configs_of=self.metadata.configs,
            log_config=lambda _topic, _layer: CONFIG,
            now_ms=monotonic_ms,
            epoch_ms=epoch_ms,
        )
        self.replica_manager.followers = NoFetching()

    def restart(self) -> None:
        self.close()
        self._start()

    def close(self) -> None:
        self.logs.close(clean=False)

    def lead(self, leader: int = ME, isr: tuple[int, ...] | None = None) -> None:
        """The controller gives out all partitions anew."""
        self._epoch += 1
        self._partition_epoch += 1
        isr = isr or self._assigned
        brokers = tuple(
            LiveBroker(broker_id=number, host="127.0.0.1", port=9000 + number, broker_epoch=number)
            for number in (ME, FOLLOWER)
        )
        role: dict[str, Any] = {
            "controller_epoch": 1,
            "leader": leader,
            "leader_epoch": self._epoch,
            "isr": isr,
            "partition_epoch": self._partition_epoch,
            "replicas": self._assigned,
        }
        named = [(topic, index) for topic in self.topics for index in range(PARTITIONS)]
        self.metadata.apply(
            UpdateMetadataRequest(
                controller_id=ME,
                controller_epoch=1,
                broker_epoch=ME,
                topic_states=tuple(
                    UpdateMetadataTopicState(topic=topic, topic_id=_topic_id(topic)) for topic in self.topics
                ),
                partition_states=tuple(
                    UpdateMetadataPartitionState(topic=topic, partition=index, **role)
                    for topic, index in named
                ),
                live_brokers=brokers,
            )
        )
        roles = LeaderAndIsrRequest(
            controller_id=ME,
            controller_epoch=1,
            broker_epoch=ME,
            partition_states=tuple(
                LeaderAndIsrPartitionState(topic=topic, partition=index, topic_id=_topic_id(topic), **role)
                for topic, index in named
            ),
            live_brokers=brokers,
        )
        carried_out(self.replica_manager.leader_and_isr(roles))

    def partition(self, index: int, topic: str | None = None) -> Partition:
        found = self.replicas.hosted(topic or self.topics[0], index)
        assert found is not None
        return found

    def replicate(self) -> None:
        """The follower has everything."""
        for partition in self.replicas:
            end_offset = partition.log.log_end_offset
            partition.replica_fetched(FollowerLink(FOLLOWER, FOLLOWER), end_offset, 0, monotonic_ms())


async def until(is_so: Callable[[], bool]) -> None:
    """Wait a moment for something."""
    for _ in range(6_000):
        if is_so():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it did not come to pass")

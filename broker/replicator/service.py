"""Replication of one broker, assembled: sessions of its followers, links to its leaders, its ISR writer."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from broker.config import BrokerConfig
from broker.log.partition_log import PartitionLog
from broker.metadata.metadata_cache import MetadataCache
from broker.replication.partition import Partition
from broker.replication.remote import FollowerLink
from broker.replication.replicas import Replicas
from broker.replication.sessions import ReplicaSessions
from broker.replication.throttle import FOLLOWER, LEADER, ReplicationThrottle
from broker.replicator.fetcher import Fetcher
from broker.replicator.healing import Healing
from broker.replicator.isr_writer import IsrWriter
from broker.replicator.link import LeaderLink
from broker.replicator.manager import ReplicaManager
from broker.replicator.replica_fetch import ReplicaFetches
from broker.requests.call import Channel
from broker.requests.login import PeerBroker
from broker.storage.flusher import Flusher
from contracts.cluster import LiveBroker
from contracts.tree import Tree
from runtime.machine import Machine
from wire.client import plain_token

_SESSION_ID_MAX: Final = 2**31 - 1
_LAG_CHECK_S: Final = 1.0
_LINK_CHECK_S: Final = 1.0
_HEAL_S: Final = 1.0


class Replication:
    """Links exist while there is something to follow at their leader."""

    def __init__(
        self,
        config: BrokerConfig,
        replicas: Replicas,
        manager: ReplicaManager,
        metadata: MetadataCache,
        flusher: Flusher,
        *,
        loop: asyncio.AbstractEventLoop,
        machine: Machine,
        me: Callable[[], PeerBroker],
        answered: Callable[[int], None],
        storage_failed: Callable[[str, Exception], None],
        handler_failed: Callable[[Channel, int], None],
    ) -> None:
        """`me` names this broker and its current epoch; `answered` hears how many nanoseconds the answer to
        a follower took."""
        self._config = config
        self._replicas = replicas
        self._manager = manager
        self._metadata = metadata
        self._flusher = flusher
        self._loop = loop
        self._now_ms = machine.clock.monotonic_ms
        self._epoch_ms = machine.clock.epoch_ms
        self._network = machine.network
        self._me = me
        self._storage_failed = storage_failed
        self.sessions = ReplicaSessions(
            lambda: machine.random.randrange(_SESSION_ID_MAX) + 1, self._follower_left
        )
        self.isr_writer = IsrWriter(config.node_id, self._sync, replicas.leadership_lost)
        self.fetches = ReplicaFetches(
            replicas=replicas,
            sessions=self.sessions,
            throttle=ReplicationThrottle(config.node_id, metadata, LEADER),
            broker_of=lambda broker_id: metadata.brokers.get(broker_id),
            bytes_max=config.fetch_bytes_max,
            sendfile_bytes_min=config.sendfile_bytes_min,
            now_ms=self._now_ms,
            call_soon=loop.call_soon,
            call_later=lambda delay_ms, callback: loop.call_later(delay_ms / 1000, callback),
            answered=answered,
            storage_failed=storage_failed,
            handler_failed=handler_failed,
        )
        self._follower_throttle = ReplicationThrottle(config.node_id, metadata, FOLLOWER)
        self._links: dict[int, LeaderLink] = {}
        self._leader_of: dict[tuple[str, int], int] = {}
        replicas.on_isr_proposed(self.isr_writer.propose)
        manager.followers = self

    def tasks(self, tree: Tree) -> list[tuple[str, Callable[[], Awaitable[None]]]]:
        """Name and loop of each background task."""
        return [
            ("write ISRs", lambda: self.isr_writer.run(tree)),
            ("review ISRs", self._review_isrs),
            ("check leaders", self._check_links),
            ("heal logs", lambda: self._heal(tree)),
        ]

    async def _heal(self, tree: Tree) -> None:
        healing = Healing(
            self._replicas,
            self,
            tree,
            leader=lambda broker_id: self._metadata.brokers.get(broker_id),
            now_ms=self._now_ms,
        )
        while True:
            await asyncio.sleep(_HEAL_S)
            await healing.tick()

    async def _review_isrs(self) -> None:
        while True:
            await asyncio.sleep(min(_LAG_CHECK_S, self._config.replica_lag_time_max_ms / 2000))
            self._manager.review_isrs()

    async def _check_links(self) -> None:
        while True:
            await asyncio.sleep(_LINK_CHECK_S)
            for link in list(self._links.values()):
                link.check()

    async def _sync(self, logs: Sequence[PartitionLog]) -> set[PartitionLog]:
        """Make logs durable; those that could not be."""
        failed: set[PartitionLog] = set()
        for log in logs:
            done: asyncio.Future[bool] = self._loop.create_future()
            self._flusher.sync([log], done.set_result)
            if await done:
                failed.add(log)
        return failed

    def _follower_left(self, link: FollowerLink, key: tuple[str, int], gives_up: bool) -> None:
        partition = self._replicas.hosted(*key)
        if partition is not None:
            partition.replica_left(link, gives_up=gives_up)

    def connection_closed(self, connection_id: int) -> None:
        """A follower's connection is gone."""
        self.sessions.connection_closed(connection_id)

    @property
    def fetched_bytes(self) -> int:
        """Replicated from the leaders that are followed now."""
        return sum(link.fetcher.fetched_bytes for link in self._links.values())

    # -- Followers (for the replica manager) -------------------------------------------------------------

    def follow(self, partition: Partition, leader: LiveBroker) -> None:
        """Fetch a partition from this leader in the partition's epoch."""
        before = self._leader_of.get(partition.key)
        if before is not None and before != leader.broker_id:
            self.unfollow(partition)
        self._leader_of[partition.key] = leader.broker_id
        link = self._links.get(leader.broker_id)
        if link is None:
            link = self._links[leader.broker_id] = self._open(leader)
        link.moved_to(leader)
        link.check()
        link.fetcher.follow(partition)
        link.nudge()

    def follows(self, partition: Partition) -> bool:
        """Whether it is fetched from anyone."""
        return partition.key in self._leader_of

    def unfollow(self, partition: Partition) -> None:
        """Fetch it no longer."""
        leader_id = self._leader_of.pop(partition.key, None)
        if leader_id is not None:
            self._links[leader_id].fetcher.unfollow(partition.key)

    def close_idle(self) -> None:
        """Close links with nothing to follow."""
        for leader_id, link in list(self._links.items()):
            if not link.fetcher:
                del self._links[leader_id]
                link.close()

    def _open(self, leader: LiveBroker) -> LeaderLink:
        fetcher = Fetcher(
            self._config.node_id,
            now_ms=self._now_ms,
            epoch_ms=self._epoch_ms,
            storage_failed=self._storage_failed,
            throttle=self._follower_throttle,
        )
        link = LeaderLink(fetcher, leader, self._login, self._now_ms, self._network)
        link.start()
        return link

    def _login(self) -> bytes:
        secret = self._config.secret
        assert secret is not None, "a cluster has a secret"
        return plain_token(secret, self._me().authorization_id)

    def close(self) -> None:
        """Fetch nothing any more."""
        for link in self._links.values():
            link.close()
        self._links.clear()
        self._leader_of.clear()

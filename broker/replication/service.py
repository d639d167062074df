"""Replication of one broker, assembled: sessions of its followers, links to its leaders, its ISR writer."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

from broker.log.partition_log import PartitionLog
from broker.replication.fetcher import Fetcher
from broker.replication.healing import Healing
from broker.replication.isr_writer import IsrWriter
from broker.replication.link import LeaderLink
from broker.replication.partition import Partition
from broker.replication.remote import FollowerLink
from broker.replication.sessions import ReplicaSessions
from broker.replication.throttle import FOLLOWER, LEADER, ReplicationThrottle
from broker.sasl import PeerBroker
from contracts.cluster import LiveBroker
from contracts.tree import Tree
from runtime.kafka_client import plain_token

if TYPE_CHECKING:
    from broker.app import Broker

_SESSION_ID_MAX: Final = 2**31 - 1
_LAG_CHECK_S: Final = 1.0
_LINK_CHECK_S: Final = 1.0
_HEAL_S: Final = 1.0


class Replication:
    """What `Broker` holds. Links exist while there is something to follow at their leader."""

    def __init__(self, broker: "Broker", me: Callable[[], PeerBroker]) -> None:
        """`me` names this broker and its current epoch."""
        self._broker = broker
        self._me = me
        self.sessions = ReplicaSessions(lambda: secrets.randbelow(_SESSION_ID_MAX) + 1, self._follower_left)
        self.isr_writer = IsrWriter(broker.config.node_id, self._sync, broker.replicas.leadership_lost)
        self.leader_throttle = ReplicationThrottle(broker.config.node_id, broker.metadata, LEADER)
        self._follower_throttle = ReplicationThrottle(broker.config.node_id, broker.metadata, FOLLOWER)
        self._links: dict[int, LeaderLink] = {}
        self._leader_of: dict[tuple[str, int], int] = {}
        broker.fetches.listen(broker.replicas, self.sessions)
        broker.replicas.on_isr_proposed(self.isr_writer.propose)
        broker.replica_manager.followers = self

    def tasks(self, tree: Tree) -> list[tuple[str, Callable[[], Awaitable[None]]]]:
        """Name and loop of each background task."""
        return [
            ("write ISRs", lambda: self.isr_writer.run(tree)),
            ("review ISRs", self._review_isrs),
            ("check leaders", self._check_links),
            ("heal logs", lambda: self._heal(tree)),
        ]

    async def _heal(self, tree: Tree) -> None:
        broker = self._broker
        healing = Healing(
            broker.replicas, self, tree, leader=broker.metadata.brokers.get, now_ms=broker.now_ms
        )
        while True:
            await asyncio.sleep(_HEAL_S)
            await healing.tick()

    async def _review_isrs(self) -> None:
        while True:
            await asyncio.sleep(min(_LAG_CHECK_S, self._broker.config.replica_lag_time_max_ms / 2000))
            self._broker.replica_manager.review_isrs()

    async def _check_links(self) -> None:
        while True:
            await asyncio.sleep(_LINK_CHECK_S)
            for link in list(self._links.values()):
                link.check()

    async def _sync(self, logs: Sequence[PartitionLog]) -> set[PartitionLog]:
        """Make logs durable; those that could not be."""
        failed: set[PartitionLog] = set()
        for log in logs:
            done: asyncio.Future[bool] = self._broker.loop.create_future()
            self._broker.flusher.sync([log], done.set_result)
            if await done:
                failed.add(log)
        return failed

    def _follower_left(self, link: FollowerLink, key: tuple[str, int], gives_up: bool) -> None:
        partition = self._broker.replicas.hosted(*key)
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
        broker = self._broker
        fetcher = Fetcher(
            broker.config.node_id,
            now_ms=broker.now_ms,
            epoch_ms=broker.epoch_ms,
            storage_failed=broker.storage_failed,
            throttle=self._follower_throttle,
        )
        link = LeaderLink(fetcher, leader, self._login, broker.now_ms)
        link.start()
        return link

    def _login(self) -> bytes:
        secret = self._broker.config.secret
        assert secret is not None, "a cluster has a secret"
        return plain_token(secret, self._me().authorization_id)

    def close(self) -> None:
        """Fetch nothing any more."""
        for link in self._links.values():
            link.close()
        self._links.clear()
        self._leader_of.clear()

"""A follower with damaged records fetches them anew: it leaves the ISR, cuts its log in front of the damage,
and follows again.

In that order: a replica that is in the ISR with less than it had could be elected, and what is committed
would be gone. So it first stops fetching, until its leader has dropped it and the state node says so; then
nobody can elect it before it has caught up. A leader goes on, with errors for the damaged range: it may be
all that is left. Started again, it has left every ISR, and follows.
"""

from collections.abc import Callable
from typing import Final

from broker.log.errors import LogError
from broker.metadata.znode_paths import state_path
from broker.metadata.znodes import PartitionState, ZnodeDamaged, decode_state
from broker.replication.partition import Partition
from broker.replication.replicas import Replicas
from broker.replicator.manager import Followers
from contracts.cluster import LiveBroker
from contracts.tree import Tree, TreeUnavailable
from runtime.logs import get_logger

_log = get_logger(__name__)
_LAGS: Final = 2
"""So many times `replica.lag.time.max.ms` nothing is fetched before the state node is asked: an ISR change
that its leader had begun is written by then, or never will be."""

Key = tuple[str, int]


class Healing:
    """Call `tick` every second or so."""

    def __init__(
        self,
        replicas: Replicas,
        followers: Followers,
        tree: Tree,
        *,
        leader: Callable[[int], LiveBroker | None],
        now_ms: Callable[[], int],
    ) -> None:
        """`leader` finds a live broker by its id; `now_ms` is monotonic."""
        self._replicas = replicas
        self._followers = followers
        self._tree = tree
        self._leader = leader
        self._now_ms = now_ms
        self._resting: dict[Key, tuple[int, int]] = {}
        """Partitions that are not fetched for now: (leader epoch, since when)."""

    async def tick(self) -> None:
        """Take each damaged replica one step further."""
        damaged = [partition for partition in self._replicas if partition.log.damage]
        keys = {partition.key for partition in damaged}
        self._resting = {key: rest for key, rest in self._resting.items() if key in keys}
        for partition in damaged:
            self._forget_ends(partition)
            if partition.log.damage:
                await self._heal(partition)

    def _forget_ends(self, partition: Partition) -> None:
        """A follower that has fetched its end again has lost nothing."""
        if not partition.is_leader and len(partition.replicas) > 1:
            partition.log.forget_ends_fetched_again()

    async def _heal(self, partition: Partition) -> None:
        leader = self._leader(partition.leader_id)
        holes = [each.first_offset for each in partition.log.damage if each.kind.is_hole]
        if partition.is_leader or leader is None or not holes:
            return
        epoch, now_ms = partition.leader_epoch, self._now_ms()
        rest = self._resting.get(partition.key)
        if rest is None or rest[0] != epoch or self._followers.follows(partition):
            self._followers.unfollow(partition)
            self._resting[partition.key] = (epoch, now_ms)
            return
        if now_ms - rest[1] < _LAGS * self._replicas.replica_lag_max_ms:
            return
        state = await self._state(partition)
        if (
            state is None
            or (state.leader, state.leader_epoch) != (partition.leader_id, epoch)
            or partition.leader_epoch != epoch
            or self._replicas.broker_id in state.isr
        ):
            return
        self._fetch_anew(partition, leader, min(holes))

    async def _state(self, partition: Partition) -> PartitionState | None:
        try:
            node = await self._tree.get(state_path(*partition.key))
            return None if node is None else decode_state(node.data)
        except (TreeUnavailable, ZnodeDamaged) as error:
            _log.warning("who is in sync cannot be asked", partition=str(partition), error=str(error))
            return None

    def _fetch_anew(self, partition: Partition, leader: LiveBroker, offset: int) -> None:
        log = partition.log
        before = log.log_end_offset
        try:
            log.truncation.truncate_to(offset)
        except LogError as error:
            _log.error("a damaged log cannot be cut", partition=str(partition), error=error.message)
            return
        del self._resting[partition.key]
        self._followers.follow(partition, leader)
        _log.warning(
            "damaged records are fetched anew",
            topic=partition.topic,
            partition=partition.index,
            leader=leader.broker_id,
            first_offset=log.log_end_offset,
            next_offset=before,
        )

"""Writes ISR changes to state nodes, each a compare-and-set on the node's version, and tells the controller.

A change stays pending, and the maximal ISR counts, until its outcome is known for certain: after a lost
connection the node is read, and written again when it is as it was.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from broker.log.partition_log import PartitionLog
from broker.metadata.znode_paths import ISR_CHANGE_PREFIX, broker_path, state_path
from broker.metadata.znodes import PartitionState, ZnodeDamaged, decode_state, encode_partitions, encode_state
from broker.replication.host import IsrChange
from broker.replication.partition import Partition
from contracts.tree import (
    ANY_VERSION,
    Check,
    CommitResult,
    Create,
    Node,
    Op,
    SetData,
    Tree,
    TreeConflict,
    TreeUnavailable,
)
from runtime.logs import get_logger

_log = get_logger(__name__)
_AGAIN_S: Final = 0.1
_LOGGED_MAX: Final = 20
_NOTIFIED_MAX: Final = 3_000
"""Partitions in one notification: a node holds at most 1 MiB."""


class _Proposal(NamedTuple):
    partition: Partition
    change: IsrChange

    @property
    def is_open(self) -> bool:
        return self.partition.pending_isr is self.change

    @property
    def path(self) -> str:
        return state_path(self.partition.topic, self.partition.index)


class IsrWriter:
    """`sync` makes logs durable and returns those it could not; `on_lost` hears of partitions that are led
    elsewhere, as their nodes say."""

    def __init__(
        self,
        broker_id: int,
        sync: Callable[[Sequence[PartitionLog]], Awaitable[set[PartitionLog]]],
        on_lost: Callable[[Partition], None],
    ) -> None:
        self._broker_id = broker_id
        self._sync = sync
        self._on_lost = on_lost
        self._fresh: list[_Proposal] = []
        self._uncertain: list[_Proposal] = []
        """A write may be on its way."""
        self._changed: list[tuple[Partition, tuple[int, ...]]] = []
        """What is to be logged, with the ISR before."""
        self._unannounced: list[tuple[str, int]] = []
        self._work = asyncio.Event()

    def propose(self, partition: Partition, change: IsrChange) -> None:
        """Write a change that is pending at its partition."""
        self._fresh.append(_Proposal(partition, change))
        self._work.set()

    async def run(self, tree: Tree) -> None:
        """Write what is proposed, for ever."""
        while True:
            await self._work.wait()
            try:
                await self._settle_uncertain(tree)
                await self._write_fresh(tree)
                self._log_changed()
                await self._announce(tree)
            except TreeUnavailable as error:
                _log.warning("ISR changes wait for the metadata tree", error=str(error))
                await asyncio.sleep(_AGAIN_S)
                continue
            if not (self._fresh or self._uncertain or self._unannounced):
                self._work.clear()

    async def _settle_uncertain(self, tree: Tree) -> None:
        """Raises: TreeUnavailable."""
        uncertain = [each for each in self._uncertain if each.is_open]
        if uncertain:
            nodes = await tree.get_many([each.path for each in uncertain])
            for proposal, node in zip(uncertain, nodes, strict=True):
                if node is not None and node.stat.version == proposal.change.partition_epoch:
                    self._fresh.append(proposal)
                else:
                    self._refused(proposal, node)
        self._uncertain = []

    async def _write_fresh(self, tree: Tree) -> None:
        """Raises: TreeUnavailable."""
        fresh, self._fresh = self._fresh, []
        self._uncertain = fresh = [each for each in fresh if each.is_open]
        fresh = await self._without_restarted(tree, await self._synced(fresh))
        if not fresh:
            self._uncertain = []
            return
        results = await tree.commit_many([_ops(each) for each in fresh])
        refused: list[_Proposal] = []
        for proposal, result in zip(fresh, results, strict=True):
            if isinstance(result, TreeConflict):
                refused.append(proposal)
            else:
                self._written(proposal, result)
        self._uncertain = refused
        if refused:
            nodes = await tree.get_many([each.path for each in refused])
            for proposal, node in zip(refused, nodes, strict=True):
                if node is not None and node.stat.version == proposal.change.partition_epoch:
                    proposal.partition.isr_abandoned(proposal.change)  # who was to join has gone
                else:
                    self._refused(proposal, node)
        self._uncertain = []

    async def _synced(self, proposals: list[_Proposal]) -> list[_Proposal]:
        """Whoever stays as the only member must not lose to a power cut what it alone has (KIP-966)."""
        alone = [each for each in proposals if each.change.isr == (self._broker_id,)]
        if not alone:
            return proposals
        failed = await self._sync([each.partition.log for each in alone])
        for each in alone:
            if each.partition.log in failed:
                each.partition.isr_abandoned(each.change)
        return [each for each in proposals if each.is_open]

    async def _without_restarted(self, tree: Tree, proposals: list[_Proposal]) -> list[_Proposal]:
        """A broker that was started again since it fetched is not the one that caught up (KIP-903)."""
        joining = {each.change.joining.replica_id for each in proposals if each.change.joining is not None}
        if not joining:
            return proposals
        nodes = await tree.get_many([broker_path(each) for each in joining])
        epochs = {
            replica_id: -1 if node is None else node.stat.czxid
            for replica_id, node in zip(joining, nodes, strict=True)
        }
        for each in proposals:
            joined = each.change.joining
            if joined is not None and epochs[joined.replica_id] != joined.broker_epoch:
                each.partition.isr_abandoned(each.change)
        return [each for each in proposals if each.is_open]

    def _written(self, proposal: _Proposal, results: list[CommitResult]) -> None:
        partition, change = proposal
        stat = results[-1].stat
        assert stat is not None, "SetData has a stat"
        before = partition.isr
        if partition.isr_written(change, stat.version):
            self._unannounced.append(partition.key)
            self._changed.append((partition, before))

    def _refused(self, proposal: _Proposal, node: Node | None) -> None:
        partition, change = proposal
        found, version = None, change.partition_epoch + 1
        if node is not None:
            version = node.stat.version
            try:
                state = decode_state(node.data)
                found = (state.leader, state.leader_epoch, state.isr)
            except ZnodeDamaged as error:
                _log.error("a state node cannot be read", path=proposal.path, error=str(error))
        if found == (change.leader_id, change.leader_epoch, change.isr):
            if partition.isr_written(change, version):
                self._unannounced.append(partition.key)
            return
        was_leader = partition.is_leader
        if not partition.isr_refused(change, found, version) and was_leader:
            _log.warning(
                "another broker leads, says the state node", topic=partition.topic, partition=partition.index
            )
            self._on_lost(partition)

    def _log_changed(self) -> None:
        """One line each while they are few: a dead broker shrinks a thousand at once."""
        changed, self._changed = self._changed, []
        for partition, before in changed[:_LOGGED_MAX]:
            _log.info(
                "ISR changed",
                topic=partition.topic,
                partition=partition.index,
                isr=partition.isr,
                before=before,
            )
        if len(changed) > _LOGGED_MAX:
            _log.info("more ISRs changed", partitions=len(changed) - _LOGGED_MAX)

    async def _announce(self, tree: Tree) -> None:
        """Raises: TreeUnavailable; the same partitions are then told again."""
        while self._unannounced:
            told = self._unannounced[:_NOTIFIED_MAX]
            await tree.commit([Create(ISR_CHANGE_PREFIX, encode_partitions(told), sequential=True)])
            del self._unannounced[: len(told)]


def _ops(proposal: _Proposal) -> list[Op]:
    change = proposal.change
    state = PartitionState(
        leader=change.leader_id,
        leader_epoch=change.leader_epoch,
        isr=change.isr,
        controller_epoch=change.controller_epoch,
    )
    ops: list[Op] = []
    if change.joining is not None:
        ops.append(Check(broker_path(change.joining.replica_id), ANY_VERSION))
    ops.append(SetData(proposal.path, encode_state(state), change.partition_epoch))
    return ops

"""One partition on this broker: its log plus its role as leader or follower. Pure but for its log.

Single-threaded; clocks are arguments. `now_ms` is monotonic except in `append`, where it is the epoch time
records are stamped with. Invariants: the high watermark never moves back while we lead, and never above the
log end offset of a member of the maximal ISR (the ISR of the state node and the one being written, whichever
counts more members); at most one ISR change is under way; the leader is in the ISR.
Source: Kafka Partition.scala (3.9), KIP-101, KIP-497, KIP-841, KIP-903, KIP-966.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final

from kio.schema.errors import ErrorCode

from broker.log.errors import AppendRefused
from broker.log.partition_log import PartitionLog
from broker.log.results import AppendOrigin, AppendResult
from broker.metadata.topic_names import INTERNAL_TOPICS
from broker.replication.host import IsrChange, Joining, NotLeader, PartitionHost
from broker.replication.remote import UNKNOWN_OFFSET, FollowerLink, RemoteReplica
from contracts.cluster import NO_LEADER, LeaderAndIsrPartitionState
from contracts.names import owner_of
from contracts.topic_policy import default_min_insync_replicas
from wire.batch import WritableBuffer

Committed = Callable[[ErrorCode], None]
"""Called once: `none`, or why it is not known whether the records are committed."""
ACKS_ALL: Final = -1


class Partition:
    """One replica. The manager creates it and tells it its role."""

    __slots__ = (
        "_committed_bytes",
        "_epoch_start_offset",
        "_host",
        "_remotes",
        "_seen_ms",
        "_sequence",
        "_waiting",
        "controller_epoch",
        "index",
        "instance_id",
        "is_internal",
        "is_leader",
        "isr",
        "key",
        "leader_epoch",
        "leader_id",
        "log",
        "min_isr",
        "partition_epoch",
        "pending_isr",
        "replicas",
        "topic",
        "topic_id",
    )

    def __init__(self, log: PartitionLog, host: "PartitionHost[Partition]") -> None:
        self.log: Final = log
        self._host: Final = host
        self.topic: Final = log.topic
        self.index: Final = log.partition
        self.key: Final = (log.topic, log.partition)
        self.topic_id: Final = log.topic_id
        self.instance_id: Final = owner_of(log.topic)
        """Whose traffic and storage this is; None: the cluster's own or a standalone Kafka's."""
        self.is_internal: Final = log.topic in INTERNAL_TOPICS
        self.leader_id = NO_LEADER
        self.leader_epoch = self.controller_epoch = -1
        self.partition_epoch = -1
        """Version of the state node as last known."""
        self.replicas: tuple[int, ...] = ()
        self.isr: tuple[int, ...] = ()
        """The ISR in the state node."""
        self.pending_isr: IsrChange | None = None
        self.is_leader = False
        self._remotes: dict[int, RemoteReplica] = {}
        self._epoch_start_offset = 0
        """Where the log ended when we became leader in this epoch."""
        self.min_isr = 1
        """Effective min.insync.replicas: never more than there are replicas."""
        self._committed_bytes = 0
        """Appended since the high watermark last reached the end."""
        self._seen_ms = 0
        self._waiting: list[tuple[int, int, Committed]] = []
        """Heap of (offset that must be committed, order of asking, whom to tell)."""
        self._sequence = 0

    def __repr__(self) -> str:
        role = "leader" if self.is_leader else f"follower of {self.leader_id}"
        return f"<Partition {self.topic}-{self.index} {role} epoch {self.leader_epoch}>"

    @property
    def high_watermark(self) -> int:
        """Records below it are committed."""
        return self.log.offsets.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """Below it no transaction is undecided."""
        return self.log.last_stable_offset

    @property
    def has_reached_epoch(self) -> bool:
        """Whether the high watermark has come to where this leader began: before that it may lag behind
        what an earlier leader told."""
        return self.log.offsets.high_watermark >= self._epoch_start_offset

    @property
    def maximal_isr(self) -> frozenset[int]:
        """Who may be elected, whatever becomes of the change that is under way."""
        pending = self.pending_isr
        return frozenset(self.isr if pending is None else (*self.isr, *pending.isr))

    def remote(self, replica_id: int) -> RemoteReplica | None:
        """What is known of a follower; None when we do not lead or it is no replica."""
        return self._remotes.get(replica_id)

    # -- roles -------------------------------------------------------------------------------------------

    def make_leader(self, state: LeaderAndIsrPartitionState, now_ms: int) -> bool:
        """Lead, as the controller says; whether the leader epoch is new.

        Raises: StorageFailed when the log cannot note the new epoch.
        """
        is_new_epoch = state.leader_epoch > self.leader_epoch or not self.is_leader
        if is_new_epoch:
            self.log.begin_epoch(state.leader_epoch)
            self._epoch_start_offset = self.log.offsets.log_end_offset
            self._remotes = {}
        self._take(state)
        self.is_leader = True
        self._seen_ms = max(self._seen_ms, now_ms)
        self.reconfigured()
        self._align_remotes(now_ms)
        self._advance()
        return is_new_epoch

    def make_follower(self, state: LeaderAndIsrPartitionState) -> bool:
        """Follow, or wait for a leader; whether the leader epoch is new."""
        is_new_epoch = state.leader_epoch > self.leader_epoch
        self._take(state)
        self.resign()
        return is_new_epoch

    def resign(self) -> None:
        """Lead no longer: who waits for a commit hears that it is uncertain."""
        self.is_leader = False
        self.pending_isr = None
        self._remotes = {}
        waiting, self._waiting = sorted(self._waiting), []
        for _, _, tell in waiting:
            tell(ErrorCode.not_leader_or_follower)

    def _take(self, state: LeaderAndIsrPartitionState) -> None:
        assert state.leader_epoch >= self.leader_epoch, "leader epochs never decrease"
        self.leader_id = state.leader
        self.leader_epoch = state.leader_epoch
        self.controller_epoch = state.controller_epoch
        self.partition_epoch = state.partition_epoch
        self.replicas = state.replicas
        self.isr = state.isr
        self.pending_isr = None

    def _align_remotes(self, now_ms: int) -> None:
        """Followers in the ISR have `replica.lag.time.max.ms` to show themselves, others hold nothing up."""
        mine = self._host.broker_id
        known = self._remotes
        self._remotes = {
            each: known.get(each) or RemoteReplica(each, now_ms if each in self.isr else -(2**62))
            for each in self.replicas
            if each != mine
        }

    def reconfigured(self) -> None:
        """The log's settings or the replicas have changed."""
        replicas = len(self.replicas)
        asked = self.log.config.min_insync_replicas or default_min_insync_replicas(replicas)
        self.min_isr = max(1, min(asked, replicas))

    # -- appending ---------------------------------------------------------------------------------------

    def append(
        self,
        records: WritableBuffer,
        *,
        now_ms: int,
        origin: AppendOrigin,
        acks: int = ACKS_ALL,
        verification: int | None = None,
        is_looked: bool = False,
        transaction_version: int = 0,
    ) -> AppendResult:
        """Append as leader; `verification` is the guard of a transaction's first batch here (KIP-890),
        `is_looked` says that the records were found to be right, and `transaction_version` is that of what a
        marker ends.

        Raises: NotLeader, AppendRefused (also NOT_ENOUGH_REPLICAS), StorageFailed.
        """
        if not self.is_leader:
            raise NotLeader(self.topic, self.index)
        if acks == ACKS_ALL and len(self.isr) < self.min_isr:
            raise AppendRefused(
                ErrorCode.not_enough_replicas,
                f"The ISR {list(self.isr)} of {self.topic}-{self.index} is below min.insync.replicas "
                f"{self.min_isr}",
            )
        log = self.log
        before = log.offsets.log_end_offset
        result = log.append(
            records,
            now_ms=now_ms,
            leader_epoch=self.leader_epoch,
            origin=origin,
            verification=verification,
            is_looked=is_looked,
            transaction_version=transaction_version,
        )
        if result.appended_bytes:
            self._committed_bytes += result.appended_bytes
            for remote in self._remotes.values():
                remote.leader_appends(before)
            if len(self.isr) == 1:
                self._advance()  # else it waits for others
            if self._remotes:
                self._host.appended(self)
        return result

    def adopt(self, records: WritableBuffer, start_at: int | None, *, now_ms: int) -> None:
        """Append as leader what another cluster's log has, as a follower would: offsets, leader epochs and
        producers stay. A log that ends before `start_at` begins there anew. Without records nothing is
        appended. Raises: NotLeader, AppendRefused, StorageFailed.
        """
        if not self.is_leader:
            raise NotLeader(self.topic, self.index)
        log = self.log
        if start_at is not None and start_at > log.log_end_offset:
            log.truncation.truncate_fully_and_start_at(start_at)
            self._epoch_start_offset = start_at
        if records:
            if log.leader_epoch == self.leader_epoch:
                # It was noted to begin where the log ended. The records are of epochs before it: it begins
                # with the first record that a client of ours writes.
                log.truncation.truncate_to(log.log_end_offset)
            self.append(records, now_ms=now_ms, origin=AppendOrigin.REPLICATION)

    def when_committed(self, offset: int, tell: Committed) -> None:
        """Call `tell` once: as soon as everything below `offset` is committed (at once, if it is), or
        when we lead no longer. Giving up in time is the caller's."""
        if not self.is_leader:
            tell(ErrorCode.not_leader_or_follower)
        elif self.log.offsets.high_watermark >= offset:
            tell(self._verdict())
        else:
            self._sequence += 1
            heappush(self._waiting, (offset, self._sequence, tell))

    def _verdict(self) -> ErrorCode:
        """Committed, but perhaps by fewer than asked."""
        if len(self.maximal_isr) < self.min_isr:
            return ErrorCode.not_enough_replicas_after_append
        return ErrorCode.none

    def _advance(self) -> None:
        """Move the high watermark to the lowest log end offset of those that may be elected, and of those
        that are about to join: else a busy leader would run away from them."""
        log = self.log
        target = log.offsets.log_end_offset
        if target <= log.offsets.high_watermark or len(self.isr) < self.min_isr:
            return
        if self._remotes:
            maximal, lag_max_ms = self.maximal_isr, self._host.replica_lag_max_ms
            for replica_id, remote in self._remotes.items():
                if remote.log_end_offset < target and (
                    replica_id in maximal or self._is_joining(remote, lag_max_ms)
                ):
                    target = remote.log_end_offset
        if not log.advance_high_watermark(target):
            return
        committed_bytes = self._committed_bytes
        if log.offsets.high_watermark == log.log_end_offset:
            self._committed_bytes = 0
        self._host.high_watermark_moved(self, committed_bytes)
        self._tell_committed()

    def _is_joining(self, remote: RemoteReplica, lag_max_ms: int) -> bool:
        link = remote.link
        return (
            link is not None
            and remote.is_in_sync(self.log.offsets.log_end_offset, self._seen_ms, lag_max_ms)
            and self._host.may_join_isr(remote.replica_id, link.broker_epoch)
        )

    def _tell_committed(self) -> None:
        high_watermark = self.log.offsets.high_watermark
        while self._waiting and self._waiting[0][0] <= high_watermark:
            heappop(self._waiting)[2](self._verdict())

    # -- followers ---------------------------------------------------------------------------------------

    def replica_fetched(
        self, link: FollowerLink, fetch_offset: int, log_start_offset: int, now_ms: int
    ) -> None:
        """A follower asked from `fetch_offset` on: it has what is below. Raises: NotLeader.

        The caller has checked the leader epoch: offsets of another epoch mean another log.
        """
        remote = self._remotes.get(link.replica_id)
        if remote is None:
            raise NotLeader(self.topic, self.index)
        self._seen_ms = max(self._seen_ms, now_ms)
        moved = remote.log_end_offset != fetch_offset
        remote.fetched(link, fetch_offset, log_start_offset, self.log.offsets.log_end_offset, now_ms)
        if link.replica_id not in self.isr:
            self._expand_isr(remote)
        if moved:
            self._advance()

    def replica_left(self, link: FollowerLink, *, gives_up: bool) -> None:
        """A follower's connection is gone, or it says that it fetches the partition no longer: then nothing
        is known of its log, and it leaves the ISR unless it comes back in time."""
        remote = self._remotes.get(link.replica_id)
        if remote is not None and remote.link is link:
            remote.leader_appends(self.log.offsets.log_end_offset)
            remote.link = None
            if gives_up:
                remote.log_end_offset = UNKNOWN_OFFSET

    # -- the ISR -----------------------------------------------------------------------------------------

    def _expand_isr(self, remote: RemoteReplica) -> None:
        """KIP-320's rule: only who has everything committed, and all that earlier epochs left."""
        link = remote.link
        if (
            self.pending_isr is None
            and link is not None
            and remote.log_end_offset >= self.log.offsets.high_watermark
            and remote.log_end_offset >= self._epoch_start_offset
            and self._host.may_join_isr(remote.replica_id, link.broker_epoch)
        ):
            joining = Joining(remote.replica_id, link.broker_epoch)
            self._propose((*self.isr, remote.replica_id), joining)

    def review_isr(self, now_ms: int) -> None:
        """Drop members that have not caught up within `replica.lag.time.max.ms`, else see who may join. Call
        it now and then."""
        self._seen_ms = max(self._seen_ms, now_ms)
        if not self.is_leader or self.pending_isr is not None:
            return
        end_offset, lag_max_ms = self.log.offsets.log_end_offset, self._host.replica_lag_max_ms
        kept = tuple(
            each
            for each in self.isr
            if (remote := self._remotes.get(each)) is None
            or remote.is_in_sync(end_offset, now_ms, lag_max_ms)
        )
        if kept != self.isr:
            self._propose(kept)
            return
        self._advance()  # who was about to join may have given up
        self._expand_isr_again()

    def _expand_isr_again(self) -> None:
        """A follower that caught up while another change was under way, or before we knew its incarnation,
        need not fetch anything again."""
        for replica_id, remote in self._remotes.items():
            link = remote.link
            if (
                replica_id not in self.isr
                and link is not None
                and self._seen_ms - link.last_fetch_ms <= self._host.replica_lag_max_ms
            ):
                self._expand_isr(remote)

    def _propose(self, isr: tuple[int, ...], joining: Joining | None = None) -> None:
        assert self._host.broker_id in isr, "the leader is in the ISR"
        self.pending_isr = IsrChange(
            self.leader_id, self.leader_epoch, self.controller_epoch, isr, self.partition_epoch, joining
        )
        self._host.propose_isr(self, self.pending_isr)

    def isr_written(self, change: IsrChange, partition_epoch: int) -> bool:
        """The state node holds the change; False when it does not matter any more."""
        if self.pending_isr is not change:
            return False
        self.pending_isr = None
        self.isr = change.isr
        self.partition_epoch = partition_epoch
        self._advance()
        self._expand_isr_again()
        return True

    def isr_refused(
        self, change: IsrChange, found: tuple[int, int, tuple[int, ...]] | None, partition_epoch: int
    ) -> bool:
        """The state node had another version: `found` is its (leader, leader epoch, ISR), None without one.

        Adopts what the controller wrote within our epoch; otherwise we do not lead any more and say so from
        now on, although the controller's command is still on its way. Whether we still lead.
        """
        if self.pending_isr is not change:
            return self.is_leader
        self.pending_isr = None
        if found is None or found[:2] != (self.leader_id, self.leader_epoch):
            self.partition_epoch = partition_epoch - 1  # so that commands from before are recognized
            self.resign()
            return False
        self.isr = found[2]
        self.partition_epoch = partition_epoch
        self._advance()
        self._expand_isr_again()
        return True

    def isr_abandoned(self, change: IsrChange) -> None:
        """It is certain that the change was not written and will not be."""
        if self.pending_isr is change:
            self.pending_isr = None
            self._advance()

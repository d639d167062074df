"""One consumer's Fetch from its request to its answer: read what is committed, wait for more."""

import asyncio
from collections.abc import Callable
from functools import partial
from time import perf_counter_ns
from typing import Final, Protocol
from uuid import UUID

from kio.schema.errors import ErrorCode

from broker.config import BrokerConfig
from broker.fetches.fetch_sessions import FetchContext
from broker.fetches.purgatory import Purgatory, Waiting
from broker.frames.fetch_reply import FetchReply, PartitionRead
from broker.log.errors import LogError
from broker.log.partition_log import PartitionLog
from broker.log.partition_metadata import NO_TOPIC_ID
from broker.log.results import LogSlice
from broker.log.txn_index import AbortedTransaction
from broker.metadata.metadata_cache import MetadataCache
from broker.net.later import Later
from broker.replication.partition import Partition
from broker.replication.replicas import Replicas
from broker.replication.sessions import ReplicaSessions
from broker.requests.call import Call
from broker.requests.causes import CloseCause
from broker.requests.metrics import BrokerMetrics
from broker.requests.payer import Charged, Payer
from broker.requests.throttling import Mute, Reservation, charge
from contracts.names import SCOPE_LENGTH, owner_of
from contracts.quota import Direction
from traffic.point import TrafficPoint
from wire.hot.fetch import FetchPartition, FetchScan

_READ_COMMITTED: Final = 1
DEBUGGING_REPLICA_ID: Final = -2
"""A tool that compares replicas: followers answer too, and no tenant is charged. Gateways refuse it."""
_NONE: Final = int(ErrorCode.none.value)
_ENTRY_BYTES: Final = 50
"""About what a partition takes in an answer beside its records."""
_RATES_CHANGE_MS: Final = 1_000
"""How often a wait is looked at: rates change meanwhile."""


class DelayedFetch(Waiting[tuple[str, int]]):
    """A Fetch that found less than min_bytes, and its deadline."""

    __slots__ = ("fetch", "timer")

    def __init__(self, fetch: "Fetch", missing_bytes: int, timer: asyncio.TimerHandle) -> None:
        super().__init__([(each.topic, each.partition) for each in fetch.context.wanted], missing_bytes)
        self.fetch = fetch
        self.timer = timer


class Fetches:
    """All delayed fetches of the broker."""

    def __init__(self, call_soon: Callable[..., object]) -> None:
        self._purgatory: Purgatory[DelayedFetch] = Purgatory()
        self._by_connection: dict[int, DelayedFetch] = {}
        self._awaiting_turn: dict[int, tuple[Fetch, asyncio.TimerHandle]] = {}
        """By connection, too: fetches whose answer waits until the instance has paid for what was before."""
        self._call_soon = call_soon
        self._sessions: ReplicaSessions | None = None

    def __len__(self) -> int:
        return self._purgatory.size

    def delay(self, waiting: DelayedFetch) -> None:
        """Wait for the partitions of a fetch."""
        self._purgatory.add(waiting)
        self._by_connection[waiting.fetch.call.connection_id] = waiting

    def listen(self, replicas: Replicas, sessions: ReplicaSessions) -> None:
        """Hear what happens to partitions, for those who wait here and for followers."""
        replicas.on_committed(self.committed)
        replicas.on_committed(lambda partition, _: sessions.noted(partition.key))
        replicas.on_appended(lambda partition: sessions.moved(partition.key))
        self._sessions = sessions
        replicas.on_leadership(lambda partition, _: self._role_changed(partition))
        replicas.on_stopped(lambda partition, _: self._role_changed(partition))

    def _role_changed(self, partition: Partition) -> None:
        """Whoever waits must hear it."""
        self.moved(partition.key)
        assert self._sessions is not None
        self._sessions.moved(partition.key)

    def log_start_moved(self, topic: str, index: int) -> None:
        """Records were deleted: who waits below the new start must hear it."""
        self.moved((topic, index))
        if self._sessions is not None:
            self._sessions.noted((topic, index))

    def committed(self, partition: Partition, size_bytes: int) -> None:
        """Records came; due fetches are answered as soon as the producer has its reply."""
        for waiting in self._purgatory.appended(partition.key, size_bytes):
            self._wake(waiting)

    def moved(self, key: tuple[str, int]) -> None:
        """The answer may be an error now."""
        for waiting in self._purgatory.watching(key):
            self._wake(waiting)

    def expired(self, fetch: "Fetch") -> None:
        """The deadline of a fetch has come."""
        waiting = self._by_connection.get(fetch.call.connection_id)
        if waiting is not None and waiting.fetch is fetch and self._forget(waiting):
            fetch.go_on(final=True)

    def end_all(self) -> None:
        """Answer everyone who waits: the broker stops."""
        for waiting in list(self._by_connection.values()):
            self.expired(waiting.fetch)
        for _fetch, timer in self._awaiting_turn.values():
            timer.cancel()  # their connections close without an answer, as all do that are throttled
        if self._sessions is not None:
            self._sessions.rouse_all()

    def connection_closed(self, connection_id: int) -> None:
        """Nobody waits for the answer any more."""
        waiting = self._by_connection.get(connection_id)
        if waiting is not None:
            self._forget(waiting)
        fetch, timer = self._awaiting_turn.pop(connection_id, (None, None))
        if fetch is not None and timer is not None:
            timer.cancel()
            fetch.withdraw()

    def await_turn(self, fetch: "Fetch", timer: asyncio.TimerHandle) -> None:
        """The fetch's answer waits for its turn, or for rates to change."""
        self._awaiting_turn[fetch.call.connection_id] = fetch, timer

    def turn_comes(self, fetch: "Fetch") -> None:
        """It is time to ask again."""
        del self._awaiting_turn[fetch.call.connection_id]

    def _wake(self, waiting: DelayedFetch) -> None:
        if self._forget(waiting):
            self._call_soon(waiting.fetch.go_on)

    def _forget(self, waiting: DelayedFetch) -> bool:
        waiting.timer.cancel()
        self._by_connection.pop(waiting.fetch.call.connection_id, None)
        return self._purgatory.remove(waiting)


class FetchDeps(Protocol):
    """What a Fetch uses of the broker."""

    config: BrokerConfig
    fetches: Fetches
    later: Later
    metrics: BrokerMetrics
    now_ms: Callable[[], int]
    metadata: MetadataCache
    replicas: Replicas
    traffic: TrafficPoint

    def storage_failed(self, what: str, error: Exception) -> None: ...


class Fetch:
    """One Fetch request in progress."""

    __slots__ = (
        "_deadline_ms",
        "_deps",
        "_is_debugging",
        "_read_committed",
        "_reservation",
        "call",
        "context",
        "scan",
    )

    def __init__(self, call: Call, deps: FetchDeps, scan: FetchScan, context: FetchContext) -> None:
        self._deps = deps
        self.call = call
        self.scan = scan
        self.context = context
        self._deadline_ms = call.received_at_ms + max(0, scan.max_wait_ms)
        self._read_committed = scan.isolation_level == _READ_COMMITTED
        self._is_debugging = scan.replica_id == DEBUGGING_REPLICA_ID
        self._reservation: Reservation | None = None

    def go_on(self, final: bool = False) -> None:
        """`attempt` when it is the instance's turn."""
        self._deps.later.in_turn(self.call, partial(self.attempt, final))

    def attempt(self, final: bool = False) -> None:
        """Answer if there is enough, or if it is time; else wait (on)."""
        started_ns = perf_counter_ns()
        self._conclude(self._read_all(self._deps.now_ms()), started_ns, final=final)

    def _conclude(self, reads: list[PartitionRead], started_ns: int, *, final: bool) -> None:
        now_ms = self._deps.now_ms()
        found = sum(read.records_bytes for read in reads)
        missing = max(self.scan.min_bytes, 0) - found
        if (
            final
            or missing <= 0
            or not reads
            or now_ms >= self._deadline_ms
            or any(read.error_code != _NONE for read in reads)
        ):
            self._try_answer(reads, now_ms)
            self._deps.metrics.fetch.observe(perf_counter_ns() - started_ns)
            return
        timer = self._deps.later.after_ms(self._deadline_ms - now_ms, self._expire)
        # A marker is small, but it may let a whole transaction through.
        waiting = DelayedFetch(self, min(missing, 1) if self._read_committed else missing, timer)
        self._deps.fetches.delay(waiting)

    def _expire(self) -> None:
        self._deps.fetches.expired(self)

    def _read_all(self, now_ms: int) -> list[PartitionRead]:
        left = min(self.scan.max_bytes, self._deps.config.fetch_bytes_max)
        allowances: dict[str, int] = {}
        reads = []
        is_first = True
        for wanted in self.context.wanted:
            read = self._read(wanted, left, is_first, allowances, now_ms)
            if read.records is not None:
                is_first = False
                left -= read.records_bytes
            reads.append(read)
        return reads

    def _read(
        self, wanted: FetchPartition, left: int, is_first: bool, allowances: dict[str, int], now_ms: int
    ) -> PartitionRead:
        try:
            partition = self._partition(wanted)
        except LogError as error:
            code = int(self._id_fault(wanted, error).value)
            return PartitionRead(wanted, code, owner_of(wanted.topic))
        log = partition.log
        instance_id = None if self._is_debugging else partition.instance_id
        max_bytes = min(wanted.max_bytes, left)
        if instance_id is not None:
            if instance_id not in allowances:
                allowances[instance_id] = self._deps.traffic.fetch_allowance(instance_id, now_ms)
            max_bytes = min(max_bytes, allowances[instance_id])
        high_watermark, last_stable_offset = log.offsets.high_watermark, log.last_stable_offset
        up_to = last_stable_offset if self._read_committed else high_watermark
        try:
            records = log.read(wanted.fetch_offset, max(max_bytes, 0), up_to=up_to, min_one_batch=is_first)
            aborted = self._aborted(log, records, up_to)
        except LogError as error:
            return PartitionRead(wanted, int(error.error_code.value), instance_id)
        if instance_id is not None and records is not None:
            allowances[instance_id] -= records.size_bytes
        offsets = (high_watermark, last_stable_offset, log.offsets.log_start_offset)
        return PartitionRead(wanted, _NONE, instance_id, *offsets, records, aborted)

    def _partition(self, wanted: FetchPartition) -> Partition:
        """Raises: LogError."""
        replicas = self._deps.replicas
        if self._is_debugging:
            return replicas.replica(wanted.topic, wanted.partition)
        if wanted.topic_id:
            found = replicas.replica(wanted.topic, wanted.partition).topic_id
            if found.bytes not in (wanted.topic_id, NO_TOPIC_ID.bytes):
                raise LogError(ErrorCode.inconsistent_topic_id, f"{wanted.topic} is another topic by now")
        return replicas.leader(wanted.topic, wanted.partition, wanted.current_leader_epoch)

    def _id_fault(self, wanted: FetchPartition, error: LogError) -> ErrorCode:
        """What is said where a topic is called by its id: of one that is gone, that."""
        if not wanted.topic_id or error.error_code is ErrorCode.inconsistent_topic_id:
            return error.error_code
        is_known = self._deps.metadata.topic_by_id(UUID(bytes=wanted.topic_id)) is not None
        return error.error_code if is_known else ErrorCode.unknown_topic_id

    def _aborted(
        self, log: PartitionLog, records: LogSlice | None, up_to: int
    ) -> list[AbortedTransaction] | None:
        """What a read_committed consumer must leave out. Raises: StorageFailed."""
        if not self._read_committed:
            return None
        return [] if records is None else log.reading.aborted_in(records, up_to)

    def _try_answer(self, reads: list[PartitionRead], now_ms: int) -> None:
        try:
            self._answer(reads, now_ms)
        except OSError as error:
            self._deps.storage_failed("a fetch cannot be read", error)
            self.call.close(CloseCause.STORAGE_ERROR)

    def _answer(self, reads: list[PartitionRead], now_ms: int) -> None:
        payer = self.call.channel.login.payer
        if (
            payer is not None
            and not (payer.has_fetched and self._reservation is None)
            and not self._is_due(payer, reads, now_ms)
        ):
            return
        reply = FetchReply(
            self.call.api_version,
            self._chosen(reads),
            sendfile_bytes_min=self._deps.config.sendfile_bytes_min,
        )
        frame_bytes = reply.body_bytes + 8
        if payer is not None:
            throttled = self._pay(payer, frame_bytes - reply.names * SCOPE_LENGTH, now_ms)
        else:
            sizes = self._sizes(reads, frame_bytes)
            throttled = charge(self._deps.traffic, Direction.CONSUME, sizes, now_ms)
        throttle_time_ms, mute = throttled
        throttle_time_ms = max(throttle_time_ms, self.call.channel.request_throttle_ms())
        if throttle_time_ms:
            self._deps.metrics.throttled_ms["consume"] += throttle_time_ms
            self.call.channel.told_throttle(self.call.header.api_key, throttle_time_ms)
        self.call.reply_parts(
            reply.framed(self.call.header.correlation_id, throttle_time_ms, self.context.session_id),
            mute=mute,
        )

    def _is_due(self, payer: Payer, reads: list[PartitionRead], now_ms: int) -> bool:
        """Whether the answer may leave: the first of a connection waits for what is owed before it.

        It is charged as it would be now, and read anew when its turn has come.
        """
        if self._reservation is None:
            estimate = sum(read.records_bytes for read in reads) + _ENTRY_BYTES * len(reads)
            self._reservation = payer.reserve(Charged.CONSUME, estimate, now_ms)
            if self._reservation is None:
                return True
        remaining_ms = self._reservation.remaining_ms(now_ms)
        if remaining_ms <= 0:
            return True
        timer = self._deps.later.after_ms(min(remaining_ms, _RATES_CHANGE_MS), self._turn_comes)
        self._deps.fetches.await_turn(self, timer)
        return False

    def _turn_comes(self) -> None:
        self._deps.fetches.turn_comes(self)
        self.go_on(final=True)

    def _pay(self, payer: Payer, size_bytes: int, now_ms: int) -> tuple[int, Mute | None]:
        reservation, self._reservation = self._reservation, None
        return payer.charge_fetch(size_bytes, reservation, now_ms)

    def withdraw(self) -> None:
        """The connection is gone: what was charged for the answer is given back."""
        if self._reservation is not None:
            self._reservation.release(self._deps.now_ms())
            self._reservation = None

    def _chosen(self, reads: list[PartitionRead]) -> list[PartitionRead]:
        """What the answer names: everything, or in an incremental session what is new."""
        session = self.context.session
        if session is None:
            return reads
        chosen = []
        for read in reads:
            key = (read.wanted.topic_key, read.wanted.partition)
            cached = session.partitions.get(key)
            if cached is None:
                continue
            is_new = cached.must_answer(
                read.error_code, read.records_bytes, read.high_watermark, read.log_start_offset
            )
            if is_new or not self.context.is_incremental:
                chosen.append(read)
            if read.records_bytes > 0:
                session.served(key)
        return chosen

    @staticmethod
    def _sizes(reads: list[PartitionRead], frame_bytes: int) -> list[tuple[str, int]]:
        """Each instance's part of the frame: its records, and what is around them by the first one."""
        sizes: dict[str, int] = {}
        for read in reads:
            if read.instance_id is not None:
                sizes[read.instance_id] = sizes.get(read.instance_id, 0) + read.records_bytes
        if sizes:
            first = next(iter(sizes))
            sizes[first] += frame_bytes - sum(read.records_bytes for read in reads)
        return list(sizes.items())

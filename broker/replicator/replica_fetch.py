"""A follower's Fetch: note how far it is, then answer what is ready, at once or when something comes."""

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Final, Protocol

from kio.schema.errors import ErrorCode

from broker.frames.fetch_reply import FetchReply, PartitionRead, error_frame
from broker.log.errors import LogError, OffsetOutOfRange
from broker.replication.remote import FollowerLink
from broker.replication.replicas import Replicas
from broker.replication.sessions import (
    INITIAL_EPOCH,
    Followed,
    ReplicaSession,
    ReplicaSessions,
    SessionRefused,
)
from broker.replication.throttle import ReplicationThrottle
from broker.requests.call import Call, Channel
from broker.requests.causes import CloseCause
from broker.requests.login import PeerBroker
from contracts.cluster import LiveBroker
from wire.api_table import ApiKey
from wire.hot.fetch import FetchPartition, FetchScan

_NONE: Final = int(ErrorCode.none.value)


class Timer(Protocol):
    """What can be called off."""

    def cancel(self) -> None: ...


@dataclass(slots=True, kw_only=True)
class ReplicaFetches:
    """Answers the fetches of followers."""

    replicas: Replicas
    sessions: ReplicaSessions
    throttle: ReplicationThrottle
    broker_of: Callable[[int], LiveBroker | None]
    bytes_max: int
    sendfile_bytes_min: int
    now_ms: Callable[[], int]
    call_soon: Callable[..., object]
    call_later: Callable[[int, Callable[[], None]], Timer]
    answered: Callable[[int], None]
    """Hears how many nanoseconds an answer took."""
    storage_failed: Callable[[str, Exception], None]
    handler_failed: Callable[[Channel, int], None]

    def begin(self, call: Call, scan: FetchScan, peer: PeerBroker) -> None:
        """Serve a request whose sender has proved to be the broker `peer`."""
        try:
            session = self._session(call, scan, peer)
        except SessionRefused as refusal:
            frame = error_frame(call.api_version, call.header.correlation_id, int(refusal.error_code.value))
            call.reply_parts([frame])
            return
        fetch = ReplicaFetch(self, call, scan, session)
        fetch.note_progress()
        fetch.attempt()

    def _session(self, call: Call, scan: FetchScan, peer: PeerBroker) -> ReplicaSession:
        """Raises: SessionRefused."""
        if scan.session_epoch != INITIAL_EPOCH:
            return self.sessions.go_on(scan, call.connection_id)
        registered = self.broker_of(peer.broker_id)
        if registered is not None and registered.broker_epoch > peer.broker_epoch:
            raise SessionRefused(ErrorCode.stale_broker_epoch)
        link = FollowerLink(peer.broker_id, peer.broker_epoch)
        return self.sessions.begin(scan, link, call.connection_id)


class ReplicaFetch:
    """One request in progress."""

    __slots__ = ("_call", "_deadline_ms", "_fetches", "_scan", "_session", "_timer")

    def __init__(self, fetches: ReplicaFetches, call: Call, scan: FetchScan, session: ReplicaSession) -> None:
        self._fetches = fetches
        self._call = call
        self._scan = scan
        self._session = session
        self._deadline_ms = call.received_at_ms + max(0, scan.max_wait_ms)
        self._timer: Timer | None = None

    def note_progress(self) -> None:
        """What the request names is how far the follower is; of all else it has what it had."""
        now_ms = self._fetches.now_ms()
        link = self._session.link
        for wanted in self._scan.partitions:
            try:
                partition = self._fetches.replicas.leader(
                    wanted.topic, wanted.partition, wanted.current_leader_epoch
                )
                partition.replica_fetched(link, wanted.fetch_offset, wanted.log_start_offset, now_ms)
            except LogError:
                continue  # the same error is this partition's answer
        link.last_fetch_ms = now_ms

    def attempt(self, final: bool = False) -> None:
        """Answer if anything is there or it is time, else wait (on)."""
        if self._call.is_gone or self._call.done:
            return
        started_ns = perf_counter_ns()
        reads, has_news = self._read_ready()
        now_ms = self._fetches.now_ms()
        if not (has_news or final or now_ms >= self._deadline_ms):
            self._session.wake = self._wake
            if self._timer is None:
                self._timer = self._fetches.call_later(self._deadline_ms - now_ms, self._expire)
            return
        if self._timer is not None:
            self._timer.cancel()
        self._answer(reads)
        self._fetches.answered(perf_counter_ns() - started_ns)

    def _wake(self, final: bool) -> None:
        self._fetches.call_soon(self._go_on, final)

    def _expire(self) -> None:
        self._session.wake = None
        self._go_on(final=True)

    def _go_on(self, final: bool) -> None:
        try:
            self.attempt(final)
        except Exception:  # noqa: BLE001 - as in dispatch: a bug costs one connection, not the process
            self._fetches.handler_failed(self._call.channel, ApiKey.FETCH)

    def _read_ready(self) -> tuple[list[PartitionRead], bool]:
        """What is ready, and whether the follower need not wait: there are records or errors, not mere
        offsets."""
        left = min(self._scan.max_bytes, self._fetches.bytes_max)
        reads: list[PartitionRead] = []
        has_records = has_error = False
        for followed in list(self._session.ready.values()):
            if left <= 0 and has_records:
                break
            read = self._read(followed, left, is_first=not has_records)
            if read.records is not None:
                has_records = True
                left -= read.records_bytes
            has_error |= read.error_code != _NONE
            reads.append(read)
        return reads, has_records or has_error

    def _read(self, followed: Followed, left: int, *, is_first: bool) -> PartitionRead:
        wanted = followed.wanted
        try:
            partition = self._fetches.replicas.leader(
                wanted.topic, wanted.partition, wanted.current_leader_epoch
            )
        except LogError as error:
            return _failed(wanted, error)
        log = partition.log
        high_watermark, log_start_offset = log.offsets.high_watermark, log.offsets.log_start_offset
        throttle = self._fetches.throttle
        is_throttled = throttle.applies(*partition.key, self._session.link.replica_id)
        if is_throttled:
            left = min(left, throttle.allowance(self._fetches.now_ms()))
            is_first = is_first and left > 0
        try:
            records = log.read(
                wanted.fetch_offset,
                max(min(wanted.max_bytes, left), 0),
                up_to=log.offsets.log_end_offset,
                min_one_batch=is_first,
            )
        except OffsetOutOfRange as error:
            return _failed(wanted, error)._replace(log_start_offset=log_start_offset)
        except LogError as error:
            return _failed(wanted, error)
        if is_throttled and records is not None:
            throttle.charge(records.size_bytes)
        return PartitionRead(
            wanted, _NONE, None, high_watermark, log.last_stable_offset, log_start_offset, records
        )

    def _answer(self, reads: list[PartitionRead]) -> None:
        try:
            reply = FetchReply(
                self._call.api_version,
                self._told(reads),
                sendfile_bytes_min=self._fetches.sendfile_bytes_min,
            )
        except OSError as error:
            self._fetches.storage_failed("a replica's fetch cannot be read", error)
            self._call.close(CloseCause.STORAGE_ERROR)
            return
        parts = reply.framed(self._call.header.correlation_id, 0, self._session.session_id)
        self._call.reply_parts(parts)

    def _told(self, reads: list[PartitionRead]) -> list[PartitionRead]:
        """What is news to the follower; it counts as told. Records and errors stay unready until the
        follower has come back to them, and what still has more is marked by its next request."""
        session = self._session
        told = []
        for read in reads:
            key = (read.wanted.topic, read.wanted.partition)
            followed = session.ready.pop(key)
            if read.records is None and read.error_code == _NONE:
                if (read.high_watermark, read.log_start_offset) == (
                    followed.high_watermark,
                    followed.log_start_offset,
                ):
                    if read.wanted.fetch_offset < self._end_of(key):
                        session.ready[key] = followed  # there was no room for its records
                    continue
                if read.wanted.fetch_offset < self._end_of(key):
                    session.ready[key] = followed
            followed.high_watermark, followed.log_start_offset = read.high_watermark, read.log_start_offset
            told.append(read)
        return told

    def _end_of(self, key: tuple[str, int]) -> int:
        partition = self._fetches.replicas.hosted(*key)
        return -1 if partition is None else partition.log.offsets.log_end_offset


def _failed(wanted: FetchPartition, error: LogError) -> PartitionRead:
    return PartitionRead(wanted, int(error.error_code.value), None)

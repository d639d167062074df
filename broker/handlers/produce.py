"""Produce (0), v0-13.

Behaviour: batches are checked, get their offsets in place in the received buffer, and are written; the answer
says where. acks=0 has no answer, and an error closes the connection. acks=all is answered once the records
are below the high watermark, or REQUEST_TIMED_OUT after the request's timeout (they may be committed later);
too few replicas in sync refuse it before (NOT_ENOUGH_REPLICAS) or after (NOT_ENOUGH_REPLICAS_AFTER_APPEND).
With flush.messages=1 the answer waits for the leader's fdatasync too. Every frame is charged, refused ones
included; an instance at capacity is refused or stalled (quota.md). Duplicates of idempotent producers get
their original offset. Messages of formats v0 and v1 (v0-2) become one record batch per partition. The first
batch of a transaction waits until its coordinator has confirmed the partition, or taken it in (KIP-890).
Records of compacted topics, of one compressed batch in many of others, and of batches of very many are looked
at one by one, elsewhere when that takes long (`broker.scanning`); a large request lets others have their turn
between its partitions. An id that no topic has is UNKNOWN_TOPIC_ID, one of a topic whose name another has by
now INCONSISTENT_TOPIC_ID.
Versions: v1 throttle time; v2 log append time; v3 record batches; v5 log start offset; v7 zstd; v8 error
messages and the records they are about (KIP-467); v9 flexible; v10 may tell leaders (KIP-951), which is left
to Metadata; v11 TRANSACTION_ABORTABLE instead of INVALID_TXN_STATE; v12 partitions join a transaction by
themselves (KIP-890); v13 topics are named by ids (KIP-516).
"""

from asyncio import TimerHandle
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from operator import attrgetter
from time import perf_counter_ns
from typing import Final, Protocol
from uuid import UUID

from kio.schema.errors import ErrorCode

from broker.coordinators.transactions import TransactionCoordinators
from broker.log.errors import AppendRefused, LogError, StorageFailed
from broker.log.partition_log import PartitionLog
from broker.log.partition_metadata import NO_TOPIC_ID
from broker.log.payload import Look
from broker.log.results import AppendOrigin
from broker.metadata.metadata_cache import MetadataCache
from broker.net.later import Later
from broker.replication.partition import ACKS_ALL, Partition
from broker.replication.replicas import Replicas
from broker.requests.call import Call
from broker.requests.causes import CloseCause
from broker.requests.metrics import BrokerMetrics
from broker.requests.throttling import Mute, charge
from broker.scanning.messages import CheckRecords, Convert, Converted, Failed, Refused, Result
from broker.scanning.scanner import Scanner
from broker.storage.flusher import Flusher
from contracts.names import owner_of
from contracts.quota import Direction
from contracts.specs import FullBehaviour
from traffic.point import TrafficPoint
from traffic.verdict import Full, stall_ms
from wire.batch import CODEC_MASK, CODEC_NONE, CODEC_ZSTD, HEADER_SIZE, BatchError, parse_header
from wire.hot.produce import (
    PartitionAnswer,
    ProducePartition,
    TopicKey,
    produce_response,
    request_growth,
    scan_produce,
)
from wire.record_lengths import WALKED_HERE_MAX
from wire.record_walk import RECORD_BYTES_MIN

_ACKS: Final = (ACKS_ALL, 0, 1)
_LEGACY_BELOW: Final = 3
"""Versions that carry messages of format v0 or v1 instead of a record batch."""
_STORAGE_ERROR_FROM_VERSION: Final = 4
_ZSTD_FROM_VERSION: Final = 7
_ABORTABLE_FROM_VERSION: Final = 11
_ADDS_FROM_VERSION: Final = 12
_ATTRIBUTES_LOW_BYTE: Final = 22
"""Of a batch of magic 2."""
_MANY_BYTES_MIN: Final = HEADER_SIZE + RECORD_BYTES_MIN * WALKED_HERE_MAX
"""Smaller batches have few records."""
_TURN_BYTES: Final = 4 * 1024 * 1024
"""Of one request, before others get their turn: two or three milliseconds of checking and writing."""
_PARTITION_COST_BYTES: Final = 16 * 1024
"""What a partition costs beside its bytes, in bytes of that turn."""
_ANSWER: Final = attrgetter("answer")


class _Deps(Protocol):
    epoch_ms: Callable[[], int]
    flusher: Flusher
    later: Later
    metadata: MetadataCache
    metrics: BrokerMetrics
    now_ms: Callable[[], int]
    replicas: Replicas
    scanner: Scanner
    traffic: TrafficPoint
    transactions: TransactionCoordinators

    def storage_failed(self, what: str, error: Exception) -> None: ...


def handle(call: Call, deps: _Deps) -> None:
    """Decode, append what may be appended, charge, wait for what the client wants to wait for, answer."""
    _Produce(call, deps).append_all()


def _name_of(metadata: MetadataCache, topic_id: bytes) -> str:
    topic = metadata.topic_by_id(UUID(bytes=topic_id))
    return "" if topic is None else topic.name


class _PartitionData:
    """The records for one partition on their way into its log, and what is answered about them."""

    __slots__ = (
        "answer",
        "confirmed",
        "end",
        "guard",
        "index",
        "is_looked",
        "kept",
        "partition",
        "start",
        "topic",
        "topic_id",
    )

    def __init__(self, topic: str, topic_id: bytes, place: ProducePartition) -> None:
        self.topic = topic
        """Empty where nothing has the id."""
        self.topic_id = topic_id
        """Where the request calls the topic by it."""
        self.index, self.start, self.end = place
        self.partition: Partition
        """Ours to lead, once that is known."""
        self.is_looked = False
        """The records themselves were found to be right, or need no look."""
        self.guard: int | None = None
        """Of a transaction's first batch here."""
        self.confirmed: ErrorCode | None = None
        """What the transaction's coordinator has answered."""
        self.kept: bytearray | None = None
        """The records of which it is still being asked, for the frame will be gone then."""
        self.answer: PartitionAnswer


class _Produce:
    """One request. Its steps stand here in their order; each begins the next, at once or when it may."""

    __slots__ = (
        "_awaited",
        "_call",
        "_data",
        "_deps",
        "_frame",
        "_names",
        "_next",
        "_refused",
        "_scan",
        "_stalled",
        "_throttled",
        "_timer",
        "_uncommitted",
        "_unsynced",
        "_verdicts",
    )

    def __init__(self, call: Call, deps: _Deps) -> None:
        self._call = call
        self._deps = deps
        self._frame: memoryview = call.request
        self._scan = scan_produce(self._frame, call.header.body_at, call.header.api_version)
        self._data: list[_PartitionData] = []
        self._names: list[str] = []
        """Of the topics, in the request's order."""
        for key, partitions in self._scan.topics:
            topic_id = b"" if isinstance(key, str) else key
            topic = key if isinstance(key, str) else _name_of(deps.metadata, key)
            self._names.append(topic)
            for each in partitions:
                self._data.append(_PartitionData(topic, topic_id, each))
        self._next = 0
        """The first that is not decided."""
        self._verdicts: dict[str, Full | None] = {}
        self._throttled: tuple[int, Mute | None] | None = None
        """throttle_time_ms and what then keeps the channel unread; None: the frame is not charged yet."""
        self._refused: str | None = None
        """The first error of the request, by name."""
        self._stalled = False
        """The instance is full, and its clients are to wait."""
        self._unsynced: list[PartitionLog] = []
        """Logs whose flush the answer waits for."""
        self._uncommitted: dict[_PartitionData, int] = {}
        """Up to which offset what is neither committed nor given up has to be."""
        self._timer: TimerHandle | None = None
        self._awaited = 1
        """What the next step waits for: `append_all` and coordinators, then what `_wait` says."""

    # -- one partition after the other: check, look at the records, append ---------------------------------

    def append_all(self) -> None:
        """Append what is left, in turns with others when it is much."""
        turn_bytes = _TURN_BYTES
        while self._next < len(self._data):
            if turn_bytes <= 0:
                self._hold()
                self._deps.later.after_others(self._call, self.append_all)
                return
            one = self._data[self._next]
            turn_bytes -= _PARTITION_COST_BYTES + max(one.end - one.start, 0)
            if not self._append_one(one):
                return
            self._next += 1
        if self._throttled is None:
            self._charge()
        payer = self._call.channel.login.payer
        if payer is not None and self._refused is not None:
            payer.refuse(self._refused)
        self._frame = self._frame[:0]
        self._awaited -= 1
        if not self._awaited:
            self._wait()

    def _append_one(self, one: _PartitionData) -> bool:
        """Whether its place in the answer is known, or its coordinator is being asked. False: its records are
        looked at elsewhere, `_looked` goes on, and the connection's next request waits for this one."""
        try:
            self._check(one)
            job = self._job(one)
        except (LogError, BatchError) as error:
            self._refuse(one, error)
            return True
        if job is None:
            self._append(one, self._frame[one.start : one.end])
            return True
        self._deps.scanner.submit(one.partition.instance_id, job, partial(self._looked_at, one))
        return False

    def _check(self, one: _PartitionData) -> None:
        """What can be told without the records. Raises: LogError."""
        if self._scan.acks not in _ACKS:
            raise LogError(ErrorCode.invalid_required_acks)
        if one.topic_id and not one.topic:
            raise LogError(ErrorCode.unknown_topic_id)
        one.partition = partition = self._deps.replicas.leader(one.topic, one.index)
        if one.topic_id and partition.topic_id.bytes not in (one.topic_id, NO_TOPIC_ID.bytes):
            raise LogError(ErrorCode.inconsistent_topic_id, f"{one.topic} is another topic by now")
        if partition.is_internal:
            raise LogError(ErrorCode.invalid_topic_exception, f"Cannot append to internal topic {one.topic}")
        if one.end < 0:
            raise LogError(ErrorCode.invalid_record, "The records are null.")
        is_zstd_known = not _LEGACY_BELOW <= self._call.header.api_version < _ZSTD_FROM_VERSION
        if not is_zstd_known and self._codec(one) == CODEC_ZSTD:
            raise LogError(ErrorCode.unsupported_compression_type)
        instance_id = partition.instance_id
        if instance_id is None:
            return
        if instance_id not in self._verdicts:  # which is asked for once per request
            verdict = self._deps.traffic.produce_verdict(instance_id)
            self._verdicts[instance_id] = verdict if isinstance(verdict, Full) else None
        full = self._verdicts[instance_id]
        if full is None:
            return
        if full.behaviour is FullBehaviour.STALL:
            self._stalled = True
            raise LogError(ErrorCode.request_timed_out, full.message)
        raise LogError(ErrorCode.policy_violation, full.message)

    def _codec(self, one: _PartitionData) -> int:
        at = one.start + _ATTRIBUTES_LOW_BYTE
        return self._frame[at] & CODEC_MASK if at < one.end else CODEC_NONE

    def _job(self, one: _PartitionData) -> CheckRecords | Convert | None:
        """What must be done elsewhere before the records are appended. Raises: AppendRefused."""
        log = one.partition.log
        if self._call.header.api_version < _LEGACY_BELOW:
            self._hold()
            return Convert(self._frame[one.start : one.end], log.config.is_compacted)
        codec = self._codec(one)
        are_many = (
            not codec
            and one.end - one.start > _MANY_BYTES_MIN
            and parse_header(self._frame, one.start).record_count > WALKED_HERE_MAX
        )
        if not (codec or are_many or log.config.is_compacted):
            return None
        look = log.look_here(self._frame[one.start : one.end], self._deps.epoch_ms(), are_many=are_many)
        if isinstance(look, Look):
            self._hold()
            return CheckRecords(self._frame[one.start + HEADER_SIZE : one.end], *look)
        one.is_looked = look
        return None

    def _hold(self) -> None:
        """Keep the frame: other requests come in between."""
        if self._throttled is None:
            self._frame = self._call.hold_frame()
            self._charge()  # the client may be gone when it is through

    def _looked_at(self, one: _PartitionData, result: Result) -> None:
        self._deps.later.in_turn(self._call, partial(self._looked, one, result))

    def _looked(self, one: _PartitionData, result: Result) -> None:
        one.is_looked = True
        if isinstance(result, Refused):
            error_code = ErrorCode(result.error_code)
            self._refuse(one, AppendRefused(error_code, result.message, result.record_indexes))
        elif isinstance(result, Failed):
            self._refuse(one, LogError(ErrorCode.request_timed_out, result.message))
        elif isinstance(result, Converted):
            self._append(one, memoryview(bytearray(result.records)))
        else:
            self._append(one, self._frame[one.start : one.end])
        self._next += 1
        self.append_all()

    def _append(self, one: _PartitionData, records: memoryview) -> None:
        """Append, if it is in a transaction once that is confirmed."""
        partition, deps, acks = one.partition, self._deps, self._scan.acks
        try:
            if self._scan.transactional_id is not None and not self._is_confirmed(one, records):
                return
            started_ns = perf_counter_ns()
            result = partition.append(
                records,
                now_ms=deps.epoch_ms(),
                origin=AppendOrigin.CLIENT,
                acks=acks,
                verification=one.guard,
                is_looked=one.is_looked,
            )
        except (LogError, BatchError) as error:
            if isinstance(error, StorageFailed):
                deps.storage_failed("an append failed", error)
            self._refuse(one, error)
            return
        metrics = deps.metrics
        metrics.append.observe(perf_counter_ns() - started_ns)
        if result.appended_bytes:
            metrics.appended_bytes += result.appended_bytes
            if partition.instance_id is not None:
                deps.traffic.count_appended(partition.instance_id, result.appended_bytes)
        if result.flush_due:
            self._unsynced.append(partition.log)
        if acks == ACKS_ALL and result.last_offset >= partition.log.offsets.high_watermark:
            self._uncommitted[one] = result.last_offset + 1
        one.answer = PartitionAnswer(
            one.index, 0, result.base_offset, result.log_append_time_ms, result.log_start_offset
        )

    def _is_confirmed(self, one: _PartitionData, records: memoryview) -> bool:
        """Whether the partition is in the transaction (KIP-890). False: its coordinator is being asked.

        It is asked about a transaction's first batch here only, and may be this broker: then it answers at
        once. Raises: BatchError, LogError.
        """
        if one.confirmed is None:
            adds = self._call.header.api_version >= _ADDS_FROM_VERSION
            header = parse_header(records)
            producer = (header.producer_id, header.producer_epoch)
            if header.is_transactional:
                producers, now_ms = one.partition.log.producers, self._deps.epoch_ms()
                one.guard = producers.begin_verification(
                    *producer, header.base_sequence, now_ms, starts_at_zero=adds
                )
            if one.guard is None:
                return True
            transactional_id = self._scan.transactional_id
            assert transactional_id is not None
            tell = partial(self._confirmed, one)
            ask = self._deps.transactions.add if adds else self._deps.transactions.verify
            ask(*one.partition.key, transactional_id, *producer, tell)
        if one.confirmed is None:
            one.kept = bytearray(records)
            self._awaited += 1
            return False
        if one.confirmed is not ErrorCode.none:
            raise LogError(one.confirmed)
        return True

    def _confirmed(self, one: _PartitionData, error_code: ErrorCode) -> None:
        """The coordinator has answered, at once or later."""
        if error_code is ErrorCode.invalid_txn_state and self._call.api_version >= _ABORTABLE_FROM_VERSION:
            error_code = ErrorCode.transaction_abortable
        one.confirmed = error_code
        if one.kept is not None and not self._call.is_gone:
            self._deps.later.guarded(self._call, partial(self._append_kept, one, one.kept))

    def _append_kept(self, one: _PartitionData, records: bytearray) -> None:
        self._append(one, memoryview(records))
        one.kept = None
        self._awaited -= 1
        if not self._awaited:
            self._wait()

    def _refuse(self, one: _PartitionData, error: LogError | BatchError) -> None:
        """None of the partition's records were appended."""
        error_code = error.error_code
        self._refused = self._refused or error_code.name
        self._deps.metrics.append_refused[error_code.name] += 1
        if (
            error_code is ErrorCode.kafka_storage_error
            and self._call.header.api_version < _STORAGE_ERROR_FROM_VERSION
        ):
            error_code = ErrorCode.not_leader_or_follower
        indexes = error.record_indexes if isinstance(error, AppendRefused) else ()
        one.answer = PartitionAnswer(
            one.index, int(error_code.value), error_message=error.message or None, record_indexes=indexes
        )

    # -- charge the frame ----------------------------------------------------------------------------------

    def _charge(self) -> None:
        """Charge the frame, refused or not: to who pays for the connection, else by the names in it."""
        deps, call = self._deps, self._call
        frame_bytes = len(self._frame) + 4
        payer = call.channel.login.payer
        if payer is not None:
            version, scan = call.header.api_version, self._scan
            growth = request_growth(version, len(scan.topics), scan.transactional_id)
            size_bytes = frame_bytes - growth  # what crossed the tenant's own socket
            throttled = payer.charge_produce(size_bytes, call.reservation, deps.now_ms())
        else:
            throttled = charge(deps.traffic, Direction.PRODUCE, self._sizes(frame_bytes), deps.now_ms())
        self._throttled = throttled
        throttle_time_ms, _ = throttled
        if throttle_time_ms:
            deps.metrics.throttled_ms["produce"] += throttle_time_ms
            call.channel.told_throttle(call.header.api_key, throttle_time_ms)

    def _sizes(self, frame_bytes: int) -> Iterable[tuple[str, int]]:
        """Each instance's part of a frame that may name several: records, and the rest to the first."""
        sizes: dict[str, int] = {}
        if len(self._names) == 1:
            owner = owner_of(self._names[0])
            return () if owner is None else ((owner, frame_bytes),)
        for name, (_, partitions) in zip(self._names, self._scan.topics, strict=True):
            owner = owner_of(name)
            if owner is not None:
                records = sum(each.end - each.start for each in partitions if each.end >= 0)
                sizes[owner] = sizes.get(owner, 0) + records
        if sizes:
            sizes[next(iter(sizes))] += frame_bytes - sum(sizes.values())
        return sizes.items()

    # -- wait for followers, the disk, the end of a stall --------------------------------------------------

    def _wait(self) -> None:
        """All is appended: answer when it is committed and synced, or the instance's stall is over."""
        self._awaited = bool(self._stalled) + bool(self._unsynced) + len(self._uncommitted)
        if not self._awaited or self._scan.acks == 0:
            self._reply()
            return
        assert self._throttled is not None
        _, mute = self._throttled
        if mute is None and not self._stalled:
            self._call.release()
        if self._stalled:
            self._deps.later.after_ms(stall_ms(self._scan.timeout_ms), self._one_done)
        if self._unsynced:
            self._deps.flusher.sync(self._unsynced, self._synced)
        if self._uncommitted:
            self._timer = self._deps.later.after_ms(max(0, self._scan.timeout_ms), self._timed_out)
            for one, end in list(self._uncommitted.items()):
                one.partition.when_committed(end, partial(self._committed, one))

    def _committed(self, one: _PartitionData, error_code: ErrorCode) -> None:
        """Called by the partition, perhaps long after the answer has left."""
        if self._call.done or one not in self._uncommitted:
            return  # given up in time, although the answer still waits for the disk
        self._deps.later.guarded(self._call, partial(self._note_committed, one, error_code))

    def _note_committed(self, one: _PartitionData, error_code: ErrorCode) -> None:
        del self._uncommitted[one]
        if error_code is not ErrorCode.none:
            self._fail(one, error_code)
        if not self._uncommitted and self._timer is not None:
            self._timer.cancel()
        self._one_done()

    def _timed_out(self) -> None:
        """The records are in the log and may be committed yet: the producer has to try again."""
        given_up, self._uncommitted = self._uncommitted, {}
        for one in given_up:
            self._fail(one, ErrorCode.request_timed_out)
            self._one_done()

    def _fail(self, one: _PartitionData, error_code: ErrorCode) -> None:
        self._deps.metrics.append_refused[error_code.name] += 1
        one.answer = PartitionAnswer(one.index, int(error_code.value))

    def _synced(self, failed: bool) -> None:
        """The flush that the answer waited for has ended."""
        if failed:
            error_code = int(ErrorCode.kafka_storage_error.value)
            for one in self._data:
                one.answer = PartitionAnswer(one.index, error_code)
        self._one_done()

    def _one_done(self) -> None:
        self._awaited -= 1
        if self._awaited == 0:
            self._reply()

    # -- answer --------------------------------------------------------------------------------------------

    def _reply(self) -> None:
        """Reply, or what acks=0 has instead."""
        call = self._call
        if call.is_gone:
            return
        assert self._throttled is not None
        throttle_time_ms, mute = self._throttled
        if self._scan.acks != 0:
            throttle_time_ms = max(throttle_time_ms, call.channel.request_throttle_ms())
            topics: list[tuple[TopicKey, list[PartitionAnswer]]] = []
            answers = iter(self._data)
            for key, partitions in self._scan.topics:
                topics.append((key, list(map(_ANSWER, islice(answers, len(partitions))))))
            header = call.header
            reply = produce_response(header.correlation_id, header.api_version, topics, throttle_time_ms)
            call.reply_parts([reply], mute=mute)
        elif self._refused is not None:
            call.close(CloseCause.ACKS_ZERO_REFUSED)
        else:
            call.reply_nothing(mute=mute)

"""Produce (0), v0-8.

Behaviour: batches are checked, get their offsets in place in the received buffer, and are written; the answer
says where. acks=0 has no answer, and an error closes the connection. acks=all is answered once the records
are below the high watermark, or REQUEST_TIMED_OUT after the request's timeout (they may be committed later);
too few replicas in sync refuse it before (NOT_ENOUGH_REPLICAS) or after (NOT_ENOUGH_REPLICAS_AFTER_APPEND).
With flush.messages=1 the answer waits for the leader's fdatasync too. Every frame is charged, refused ones
included; an instance at capacity is refused or stalled (quota.md). Duplicates of idempotent producers get
their original offset. Messages of formats v0 and v1 (v0-2) become one record batch per partition. The first
batch of a transaction waits until its coordinator has confirmed the partition (KIP-890). Records of compacted
topics, of one compressed batch in many of others, and of batches of very many are looked at one by one,
elsewhere when that takes long (`broker.scanning`); a large request lets others have their turn between its
partitions.
Versions: v1 throttle time; v2 log append time; v3 record batches; v5 log start offset; v7 zstd; v8 error
messages and the records they are about (KIP-467).
"""

from asyncio import TimerHandle
from collections.abc import Callable, Iterable
from functools import partial
from time import perf_counter_ns
from typing import Final, Protocol

from kio.schema.errors import ErrorCode

from broker.coordinators.transactions import TransactionCoordinators
from broker.log.errors import AppendRefused, LogError, StorageFailed
from broker.log.partition_log import PartitionLog
from broker.log.payload import Look
from broker.log.results import AppendOrigin
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
from contracts.names import SCOPE_LENGTH, owner_of
from contracts.quota import Direction
from contracts.specs import FullBehaviour
from traffic.point import TrafficPoint
from traffic.verdict import Full, stall_ms
from wire.batch import CODEC_MASK, CODEC_ZSTD, HEADER_SIZE, BatchError, parse_header
from wire.hot.produce import PartitionAnswer, ProducePartition, produce_response, scan_produce
from wire.record_lengths import WALKED_HERE_MAX
from wire.record_walk import RECORD_BYTES_MIN

_ACKS: Final = (ACKS_ALL, 0, 1)
_LEGACY_BELOW: Final = 3
"""Versions that carry messages of format v0 or v1 instead of a record batch."""
_STORAGE_ERROR_FROM_VERSION: Final = 4
_ZSTD_FROM_VERSION: Final = 7
_ATTRIBUTES_LOW_BYTE: Final = 22
"""Of a batch of magic 2."""
_MANY_BYTES_MIN: Final = HEADER_SIZE + RECORD_BYTES_MIN * WALKED_HERE_MAX
"""Smaller batches have few records."""
_TURN_BYTES: Final = 4 * 1024 * 1024
"""Of one request, before others get their turn: two or three milliseconds of checking and writing."""
_PARTITION_COST_BYTES: Final = 16 * 1024
"""What a partition costs beside its bytes, in bytes of that turn."""


class _Deps(Protocol):
    epoch_ms: Callable[[], int]
    flusher: Flusher
    later: Later
    metrics: BrokerMetrics
    now_ms: Callable[[], int]
    replicas: Replicas
    scanner: Scanner
    traffic: TrafficPoint
    transactions: TransactionCoordinators

    def storage_failed(self, what: str, error: Exception) -> None: ...


def handle(call: Call, deps: _Deps) -> None:
    """Append what may be appended, then answer."""
    _Request(call, deps).go_on()


class _Uncommitted:
    """Records whose commit the answer waits for, and where their answer stands."""

    __slots__ = ("answers", "offset", "partition", "position")

    def __init__(
        self, partition: Partition, offset: int, answers: list[PartitionAnswer], position: int
    ) -> None:
        self.partition = partition
        self.offset = offset
        self.answers = answers
        self.position = position


class _Verified:
    """Takes the coordinator's answer about one partition, at once or later."""

    __slots__ = (
        "_records",
        "_request",
        "answers",
        "each",
        "error_code",
        "guard",
        "is_looked",
        "partition",
        "position",
    )

    def __init__(
        self,
        request: "_Request",
        partition: Partition,
        each: ProducePartition,
        answers: list[PartitionAnswer],
        guard: int,
        *,
        is_looked: bool,
    ) -> None:
        self._request = request
        self._records: bytearray | None = None
        self.partition = partition
        self.each = each
        self.answers = answers
        self.position = len(answers)
        self.guard = guard
        self.is_looked = is_looked
        self.error_code: ErrorCode | None = None

    def wait(self, records: bytearray) -> None:
        """The answer will come later; the frame will be gone then."""
        self._records = records

    def __call__(self, error_code: ErrorCode) -> None:
        self.error_code = error_code
        if self._records is not None:
            self._request.verified(self, self._records, error_code)


class _Request:
    """One Produce request in progress."""

    __slots__ = (
        "_answers",
        "_awaited",
        "_call",
        "_deps",
        "_frame",
        "_has_error",
        "_is_held",
        "_is_through",
        "_mute",
        "_refused",
        "_scan",
        "_stalled",
        "_throttle_time_ms",
        "_timer",
        "_uncommitted",
        "_unsynced",
        "_verdicts",
        "_verifying",
    )

    def __init__(self, call: Call, deps: _Deps) -> None:
        self._deps = deps
        self._call = call
        self._frame: memoryview = call.request
        self._scan = scan_produce(self._frame, call.header.body_at, call.api_version)
        self._answers: list[tuple[str, list[PartitionAnswer]]] = []
        self._verdicts: dict[str, Full | None] = {}
        self._throttle_time_ms = 0
        self._mute: Mute | None = None
        self._has_error = False
        self._refused: str | None = None
        """The first error of the request, by name."""
        self._stalled = False
        self._unsynced: list[PartitionLog] = []
        """Logs whose flush the answer waits for."""
        self._uncommitted: dict[_Uncommitted, None] = {}
        """What is neither committed nor given up."""
        self._awaited = 0
        """How much the answer still waits for."""
        self._timer: TimerHandle | None = None
        self._verifying = 0
        """Partitions whose transaction the coordinator is being asked about."""
        self._is_held = False
        """The frame stays until we release it: other requests come in between."""
        self._is_through = False
        """Every partition was looked at."""

    def go_on(self) -> None:
        """Append what is left, then answer when the answer is known."""
        if self._append_on():
            self._is_through = True
            if not self._is_held:
                self.charge()
            payer = self._call.channel.payer
            if payer is not None and self._refused is not None:
                payer.refuse(self._refused)
            self.answer_when_done()

    def _append_on(self) -> bool:
        """Append the records of the partitions without an answer; False: it goes on later by itself."""
        refusal = None if self._scan.acks in _ACKS else ErrorCode.invalid_required_acks
        topics = self._scan.topics
        answers: list[PartitionAnswer]
        if len(topics) == 1 and len(topics[0][1]) == 1 and not self._answers:
            name, (only,) = topics[0]  # what most requests have
            answers = []
            self._answers.append((name, answers))
            answer = self._partition(name, only, refusal, answers)
            if answer is not None:
                answers.append(answer)
            return answer is not None
        turn_bytes = _TURN_BYTES
        at = max(len(self._answers) - 1, 0)
        for name, partitions in topics[at:]:
            if at == len(self._answers):
                self._answers.append((name, []))
            answers = self._answers[at][1]
            for each in partitions[len(answers) :]:
                if turn_bytes <= 0:
                    self._hold()
                    self._deps.later.after_others(self._call, self.go_on)
                    return False
                turn_bytes -= _PARTITION_COST_BYTES + max(each.end - each.start, 0)
                answer = self._partition(name, each, refusal, answers)
                if answer is None:
                    return False
                answers.append(answer)
            at += 1
        return True

    def _hold(self) -> None:
        if not self._is_held:
            self._is_held = True
            self._frame = self._call.hold_frame()
            self.charge()  # the client may be gone when it is through

    def charge(self) -> None:
        """Charge the frame, refused or not: to who pays for the connection, else by the names in it."""
        deps, call = self._deps, self._call
        frame_bytes = len(self._frame) + 4
        payer = call.channel.payer
        if payer is not None:
            names = len(self._scan.topics) + (self._scan.transactional_id is not None)
            size_bytes = frame_bytes - names * SCOPE_LENGTH  # what crossed the tenant's own socket
            throttled = payer.charge_produce(size_bytes, call.reservation, deps.now_ms())
        else:
            throttled = charge(deps.traffic, Direction.PRODUCE, self._sizes(frame_bytes), deps.now_ms())
        self._throttle_time_ms, self._mute = throttled
        if self._throttle_time_ms:
            deps.metrics.throttled_ms["produce"] += self._throttle_time_ms
            call.channel.told_throttle(call.header.api_key, self._throttle_time_ms)

    def _sizes(self, frame_bytes: int) -> Iterable[tuple[str, int]]:
        """Each instance's part of a frame that may name several: records, and the rest to the first."""
        sizes: dict[str, int] = {}
        if len(self._scan.topics) == 1:
            owner = owner_of(self._scan.topics[0][0])
            return () if owner is None else ((owner, frame_bytes),)
        for name, partitions in self._scan.topics:
            owner = owner_of(name)
            if owner is not None:
                records = sum(each.end - each.start for each in partitions if each.end >= 0)
                sizes[owner] = sizes.get(owner, 0) + records
        if sizes:
            sizes[next(iter(sizes))] += frame_bytes - sum(sizes.values())
        return sizes.items()

    def answer_when_done(self) -> None:
        """Answer now, or when the records are committed and synced, or the instance's stall is over."""
        self._frame = self._frame[:0]
        if self._verifying:
            return  # `verified` comes back here
        if not (self._stalled or self._unsynced or self._uncommitted) or self._scan.acks == 0:
            self._answer()
            return
        if self._mute is None and not self._stalled:
            self._call.release()
        self._awaited = bool(self._stalled) + bool(self._unsynced) + len(self._uncommitted)
        if self._stalled:
            self._deps.later.after_ms(stall_ms(self._scan.timeout_ms), self._one_done)
        if self._unsynced:
            self._deps.flusher.sync(self._unsynced, self._synced)
        if self._uncommitted:
            self._timer = self._deps.later.after_ms(max(0, self._scan.timeout_ms), self._timed_out)
            for waiting in list(self._uncommitted):
                waiting.partition.when_committed(waiting.offset, partial(self._committed, waiting))

    def _committed(self, waiting: "_Uncommitted", error_code: ErrorCode) -> None:
        """Called by the partition, perhaps long after the answer has left."""
        if self._call.done or waiting not in self._uncommitted:
            return  # given up in time, although the answer still waits for the disk
        self._deps.later.guarded(self._call, partial(self._note_committed, waiting, error_code))

    def _note_committed(self, waiting: "_Uncommitted", error_code: ErrorCode) -> None:
        del self._uncommitted[waiting]
        if error_code is not ErrorCode.none:
            self._fail(waiting, error_code)
        if not self._uncommitted and self._timer is not None:
            self._timer.cancel()
        self._one_done()

    def _timed_out(self) -> None:
        """The records are in the log and may be committed yet: the producer has to try again."""
        waiting, self._uncommitted = self._uncommitted, {}
        for each in waiting:
            self._fail(each, ErrorCode.request_timed_out)
            self._one_done()

    def _fail(self, waiting: "_Uncommitted", error_code: ErrorCode) -> None:
        self._deps.metrics.append_refused[error_code.name] += 1
        waiting.answers[waiting.position] = PartitionAnswer(waiting.partition.index, int(error_code.value))

    def _one_done(self) -> None:
        self._awaited -= 1
        if self._awaited == 0:
            self._answer()

    def _answer(self) -> None:
        """Reply, or what acks=0 has instead."""
        call = self._call
        if call.is_gone:
            return
        if self._scan.acks != 0:
            throttle_time_ms = max(self._throttle_time_ms, call.channel.request_throttle_ms())
            reply = produce_response(
                call.header.correlation_id, call.api_version, self._answers, throttle_time_ms
            )
            call.reply_parts([reply], mute=self._mute)
        elif self._has_error:
            call.close(CloseCause.ACKS_ZERO_REFUSED)
        else:
            call.reply_nothing(mute=self._mute)

    def _synced(self, failed: bool) -> None:
        """The flush that the answer waited for has ended."""
        if failed:
            error_code = int(ErrorCode.kafka_storage_error.value)
            for _name, partitions in self._answers:
                partitions[:] = [PartitionAnswer(each.partition, error_code) for each in partitions]
        self._one_done()

    def _partition(
        self, topic: str, each: ProducePartition, refusal: ErrorCode | None, answers: list[PartitionAnswer]
    ) -> PartitionAnswer | None:
        """None: `_looked` comes back."""
        if refusal is not None:
            return self._error(each, refusal, None)
        try:
            partition = self._deps.replicas.leader(topic, each.partition)
        except LogError as error:
            return self._error(each, error.error_code, error.message)
        if partition.is_internal:
            return self._error(
                each, ErrorCode.invalid_topic_exception, f"Cannot append to internal topic {topic}"
            )
        if each.end < 0:
            return self._error(each, ErrorCode.invalid_record, "The records are null.")
        api_version = self._call.header.api_version
        if _LEGACY_BELOW <= api_version < _ZSTD_FROM_VERSION and self._is_zstd(each):
            return self._error(each, ErrorCode.unsupported_compression_type, None)
        if partition.instance_id is not None:
            full = self._full(partition.instance_id)
            if full is not None:
                return self._full_answer(each, full)
        if api_version < _LEGACY_BELOW:
            self._hold()
            message_set = self._frame[each.start : each.end]
            job = Convert(message_set, partition.log.config.is_compacted)
            done = partial(self._looked, partition, each, answers)
            self._deps.scanner.submit(partition.instance_id, job, done)
            return None
        codec_at = each.start + _ATTRIBUTES_LOW_BYTE
        is_compressed = codec_at < each.end and self._frame[codec_at] & CODEC_MASK
        are_many = not is_compressed and each.end - each.start > _MANY_BYTES_MIN and self._are_many(each)
        if is_compressed or are_many or partition.log.config.is_compacted:
            records = self._frame[each.start : each.end]
            try:
                look = partition.log.look_here(records, self._deps.epoch_ms(), are_many=are_many)
            except AppendRefused as error:
                return self._error(each, error.error_code, error.message, error.record_indexes)
            if isinstance(look, Look):
                self._look(partition, each, answers, look)
                return None
            return self._carry(partition, each, answers, is_looked=look)
        carry = self._append if self._scan.transactional_id is None else self._carry
        return carry(partition, each, answers, is_looked=False)

    def _are_many(self, each: ProducePartition) -> bool:
        """Whether so many records are declared that going along them takes the loop too long."""
        return parse_header(self._frame, each.start).record_count > WALKED_HERE_MAX

    def _look(
        self, partition: Partition, each: ProducePartition, answers: list[PartitionAnswer], look: Look
    ) -> None:
        """Have the records looked at elsewhere. The connection's next request waits for this one."""
        self._hold()
        payload = self._frame[each.start + HEADER_SIZE : each.end]
        self._deps.scanner.submit(
            partition.instance_id,
            CheckRecords(payload, *look),
            partial(self._result_came, partition, each, answers),
        )

    def _result_came(
        self, partition: Partition, each: ProducePartition, answers: list[PartitionAnswer], result: Result
    ) -> None:
        self._deps.later.in_turn(self._call, partial(self._looked, partition, each, answers, result))

    def _looked(
        self, partition: Partition, each: ProducePartition, answers: list[PartitionAnswer], result: Result
    ) -> None:
        if isinstance(result, Refused):
            error_code = ErrorCode(result.error_code)
            answer = self._error(each, error_code, result.message, result.record_indexes)
        elif isinstance(result, Failed):
            answer = self._error(each, ErrorCode.request_timed_out, result.message)
        elif isinstance(result, Converted):
            answer = self._append_converted(partition, each, answers, bytearray(result.records))
        else:
            answer = self._carry(partition, each, answers, is_looked=True)
        answers.append(answer)
        self.go_on()

    def _append_converted(
        self,
        partition: Partition,
        each: ProducePartition,
        answers: list[PartitionAnswer],
        records: bytearray,
    ) -> PartitionAnswer:
        """Append the batch that an old client's messages have become."""
        frame, self._frame = self._frame, memoryview(records)
        whole = ProducePartition(each.partition, 0, len(records))
        try:
            return self._append(partition, whole, answers, is_looked=True)
        finally:
            self._frame = frame

    def _carry(
        self,
        partition: Partition,
        each: ProducePartition,
        answers: list[PartitionAnswer],
        *,
        is_looked: bool = False,
    ) -> PartitionAnswer:
        """Append, in a transaction if it is one."""
        if self._scan.transactional_id is None:
            return self._append(partition, each, answers, is_looked=is_looked)
        return self._verify(partition, each, answers, self._scan.transactional_id, is_looked=is_looked)

    def _verify(
        self,
        partition: Partition,
        each: ProducePartition,
        answers: list[PartitionAnswer],
        transactional_id: str,
        *,
        is_looked: bool,
    ) -> PartitionAnswer:
        """Append once the coordinator has confirmed that the partition is in the transaction (KIP-890).

        It is asked about a transaction's first batch here only, and may be this broker: then it answers at
        once. Otherwise the records are kept until it has.
        """
        try:
            header = parse_header(self._frame[each.start : each.end])
        except BatchError as error:
            return self._error(each, error.error_code, error.message)
        producer = (header.producer_id, header.producer_epoch)
        guard = None
        if header.is_transactional:
            now_ms = self._deps.epoch_ms()
            guard = partition.log.producers.begin_verification(*producer, header.base_sequence, now_ms)
        if guard is None:
            return self._append(partition, each, answers, is_looked=is_looked)
        verified = _Verified(self, partition, each, answers, guard, is_looked=is_looked)
        self._deps.transactions.verify(*partition.key, transactional_id, *producer, verified)
        if verified.error_code is None:
            verified.wait(bytearray(self._frame[each.start : each.end]))
            self._verifying += 1
            return PartitionAnswer(each.partition, 0)
        if verified.error_code is not ErrorCode.none:
            return self._error(each, verified.error_code, None)
        return self._append(partition, each, answers, verification=guard, is_looked=is_looked)

    def verified(self, one: "_Verified", records: bytearray, error_code: ErrorCode) -> None:
        """The coordinator's answer came later; `one` says where its answer belongs."""
        if self._call.is_gone:
            return
        self._deps.later.guarded(self._call, partial(self._append_verified, one, records, error_code))

    def _append_verified(self, one: "_Verified", records: bytearray, error_code: ErrorCode) -> None:
        frame, self._frame = self._frame, memoryview(records)
        whole = ProducePartition(one.each.partition, 0, len(records))
        if error_code is not ErrorCode.none:
            answer = self._error(whole, error_code, None)
        else:
            answer = self._append(
                one.partition,
                whole,
                one.answers,
                position=one.position,
                verification=one.guard,
                is_looked=one.is_looked,
            )
        one.answers[one.position] = answer
        self._frame = frame
        self._verifying -= 1
        if self._verifying == 0 and self._is_through:
            self.answer_when_done()

    def _is_zstd(self, each: ProducePartition) -> bool:
        at = each.start + _ATTRIBUTES_LOW_BYTE
        return at < each.end and self._frame[at] & CODEC_MASK == CODEC_ZSTD

    def _full(self, instance_id: str) -> Full | None:
        """Whether the instance is full, asked once per request."""
        if instance_id not in self._verdicts:
            verdict = self._deps.traffic.produce_verdict(instance_id)
            self._verdicts[instance_id] = verdict if isinstance(verdict, Full) else None
        return self._verdicts[instance_id]

    def _full_answer(self, each: ProducePartition, full: Full) -> PartitionAnswer:
        if full.behaviour is FullBehaviour.STALL:
            self._stalled = True
            return self._error(each, ErrorCode.request_timed_out, full.message)
        return self._error(each, ErrorCode.policy_violation, full.message)

    def _append(
        self,
        partition: Partition,
        each: ProducePartition,
        answers: list[PartitionAnswer],
        *,
        position: int | None = None,
        verification: int | None = None,
        is_looked: bool,
    ) -> PartitionAnswer:
        """Append; the answer's place is the next one unless `position` says where."""
        started_ns = perf_counter_ns()
        try:
            result = partition.append(
                self._frame[each.start : each.end],
                now_ms=self._deps.epoch_ms(),
                origin=AppendOrigin.CLIENT,
                acks=self._scan.acks,
                verification=verification,
                is_looked=is_looked,
            )
        except (LogError, BatchError) as error:
            if isinstance(error, StorageFailed):
                self._deps.storage_failed("an append failed", error)
            indexes = error.record_indexes if isinstance(error, AppendRefused) else ()
            return self._error(each, error.error_code, error.message, indexes)
        metrics = self._deps.metrics
        metrics.append.observe(perf_counter_ns() - started_ns)
        if result.appended_bytes:
            metrics.appended_bytes += result.appended_bytes
            if partition.instance_id is not None:
                self._deps.traffic.count_appended(partition.instance_id, result.appended_bytes)
        if result.flush_due:
            self._unsynced.append(partition.log)
        if self._scan.acks == ACKS_ALL and result.last_offset >= partition.log.offsets.high_watermark:
            at = len(answers) if position is None else position
            self._uncommitted[_Uncommitted(partition, result.last_offset + 1, answers, at)] = None
        return PartitionAnswer(
            each.partition, 0, result.base_offset, result.log_append_time_ms, result.log_start_offset
        )

    def _error(
        self,
        each: ProducePartition,
        error_code: ErrorCode,
        message: str | None,
        record_indexes: tuple[int, ...] = (),
    ) -> PartitionAnswer:
        self._has_error = True
        self._refused = self._refused or error_code.name
        self._deps.metrics.append_refused[error_code.name] += 1
        if (
            error_code is ErrorCode.kafka_storage_error
            and self._call.api_version < _STORAGE_ERROR_FROM_VERSION
        ):
            error_code = ErrorCode.not_leader_or_follower
        return PartitionAnswer(
            each.partition, int(error_code.value), error_message=message, record_indexes=record_indexes
        )

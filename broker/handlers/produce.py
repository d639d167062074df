"""Produce (0), v3-8 (v0 is advertised for librdkafka's sake, KAFKA-18659, and not served).

Behaviour: batches are checked, get their offsets in place in the received buffer, and are written; the answer
says where. acks=0 has no answer, and an error closes the connection. acks=1 and all are the same with one
replica; with flush.messages=1 they wait for fdatasync. An instance at capacity is refused or stalled
(quota.md). Duplicates of idempotent producers get their original offset.
Deliberately not done: message formats v0 and v1; transactions (TRANSACTIONAL_ID_AUTHORIZATION_FAILED).
Versions: v5 log start offset; v7 zstd; v8 error messages (KIP-467).
"""

from time import perf_counter_ns
from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from broker.call import Mute
from broker.causes import CloseCause
from broker.leadership import LEADER_EPOCH
from broker.log.errors import LogError, StorageFailed
from broker.log.partition_log import PartitionLog
from broker.log.results import AppendOrigin
from broker.produce_wire import PartitionAnswer, ProducePartition, produce_response, scan_produce
from broker.throttling import charge
from broker.topics import Topic
from contracts.quota import Direction
from contracts.specs import FullBehaviour
from traffic.verdict import Full, stall_ms
from wire.batch import CODEC_MASK, CODEC_ZSTD

if TYPE_CHECKING:
    from broker.app import Broker
    from broker.call import Call

_ACKS: Final = (-1, 0, 1)
_ZSTD_FROM_VERSION: Final = 7
_ATTRIBUTES_LOW_BYTE: Final = 22
"""Of a batch of magic 2."""


def handle(broker: "Broker", call: "Call") -> None:
    """Append what may be appended, then answer."""
    request = _Request(broker, call)
    request.append_all()
    request.charge()
    if request.stalled:
        broker.call_later(stall_ms(request.scan.timeout_ms), request.answer)
    elif request.unsynced and request.scan.acks != 0:
        broker.flusher.sync(request.unsynced, request.synced)
    else:
        request.answer()


class _Request:
    """One Produce request in progress."""

    __slots__ = (
        "_answers",
        "_broker",
        "_call",
        "_frame",
        "_has_error",
        "_instance_bytes",
        "_mute",
        "_throttle_time_ms",
        "_verdicts",
        "scan",
        "stalled",
        "unsynced",
    )

    def __init__(self, broker: "Broker", call: "Call") -> None:
        self._broker = broker
        self._call = call
        self._frame: memoryview = call.request
        self.scan = scan_produce(self._frame, call.header.body_at)
        self._answers: list[tuple[str, list[PartitionAnswer]]] = []
        self._instance_bytes: dict[str, int] = {}
        """Instance id -> its record bytes in this request."""
        self._verdicts: dict[str, Full | None] = {}
        self._throttle_time_ms = 0
        self._mute: Mute | None = None
        self._has_error = False
        self.stalled = False
        self.unsynced: list[PartitionLog] = []
        """Logs whose flush the answer waits for."""

    def append_all(self) -> None:
        """Append every partition's records."""
        refusal = self._refusal()
        get = self._broker.topics.get
        for name, partitions in self.scan.topics:
            topic = get(name)
            self._answers.append((name, [self._partition(topic, each, refusal) for each in partitions]))

    def charge(self) -> None:
        """Charge each instance its part of the frame: its records, and what is around them to the first."""
        sizes = self._instance_bytes
        if not sizes:
            return
        first = next(iter(sizes))
        sizes[first] += len(self._frame) + 4 - sum(sizes.values())
        self._throttle_time_ms, self._mute = charge(
            self._broker.traffic, Direction.PRODUCE, sizes.items(), self._broker.now_ms()
        )
        self._broker.metrics.throttled_ms["produce"] += self._throttle_time_ms

    def answer(self) -> None:
        """Reply, or what acks=0 has instead."""
        call = self._call
        if call.is_gone:
            return
        if self.scan.acks != 0:
            reply = produce_response(
                call.header.correlation_id, call.api_version, self._answers, self._throttle_time_ms
            )
            call.reply_parts([reply], mute=self._mute)
        elif self._has_error:
            call.close(CloseCause.ACKS_ZERO_REFUSED)
        else:
            call.reply_nothing(mute=self._mute)

    def synced(self, failed: bool) -> None:
        """The flush that the answer waited for has ended."""
        if failed:
            error_code = int(ErrorCode.kafka_storage_error.value)
            for _name, partitions in self._answers:
                partitions[:] = [PartitionAnswer(each.partition, error_code) for each in partitions]
        self.answer()

    def _refusal(self) -> ErrorCode | None:
        """What the whole request gets, if it cannot be served."""
        if self.scan.transactional_id is not None:
            return ErrorCode.transactional_id_authorization_failed
        if self.scan.acks not in _ACKS:
            return ErrorCode.invalid_required_acks
        return None

    def _partition(
        self, topic: Topic | None, each: ProducePartition, refusal: ErrorCode | None
    ) -> PartitionAnswer:
        if refusal is not None:
            return self._error(each, refusal, None)
        log = None if topic is None else topic.partition(each.partition)
        if topic is None or log is None:
            return self._error(each, ErrorCode.unknown_topic_or_partition, None)
        if topic.is_internal:
            return self._error(
                each, ErrorCode.invalid_topic_exception, f"Cannot append to internal topic {topic.name}"
            )
        if each.end < 0:
            return self._error(each, ErrorCode.invalid_record, "The records are null.")
        if self._call.api_version < _ZSTD_FROM_VERSION and self._is_zstd(each):
            return self._error(each, ErrorCode.unsupported_compression_type, None)
        if topic.instance_id is not None:
            full = self._full(topic.instance_id, each)
            if full is not None:
                return self._full_answer(each, full)
        return self._append(topic, log, each)

    def _is_zstd(self, each: ProducePartition) -> bool:
        at = each.start + _ATTRIBUTES_LOW_BYTE
        return at < each.end and self._frame[at] & CODEC_MASK == CODEC_ZSTD

    def _full(self, instance_id: str, each: ProducePartition) -> Full | None:
        """Count the bytes; whether the instance is full, asked once per request."""
        if instance_id not in self._verdicts:
            verdict = self._broker.traffic.produce_verdict(instance_id)
            self._verdicts[instance_id] = verdict if isinstance(verdict, Full) else None
            self._instance_bytes[instance_id] = 0
        self._instance_bytes[instance_id] += each.end - each.start
        return self._verdicts[instance_id]

    def _full_answer(self, each: ProducePartition, full: Full) -> PartitionAnswer:
        if full.behaviour is FullBehaviour.STALL:
            self.stalled = True
            return self._error(each, ErrorCode.request_timed_out, full.message)
        return self._error(each, ErrorCode.policy_violation, full.message)

    def _append(self, topic: Topic, log: PartitionLog, each: ProducePartition) -> PartitionAnswer:
        started_ns = perf_counter_ns()
        try:
            result = log.append(
                self._frame[each.start : each.end],
                now_ms=self._broker.epoch_ms(),
                leader_epoch=LEADER_EPOCH,
                origin=AppendOrigin.CLIENT,
            )
        except LogError as error:
            if isinstance(error, StorageFailed):
                self._broker.storage_failed("an append failed", error)
            return self._error(each, error.error_code, error.message)
        metrics = self._broker.metrics
        metrics.append.observe(perf_counter_ns() - started_ns)
        log.advance_high_watermark()
        if result.appended_bytes:
            metrics.appended_bytes += result.appended_bytes
            if topic.instance_id is not None:
                self._broker.traffic.count_appended(topic.instance_id, result.appended_bytes)
            self._broker.fetches.appended(topic.name, each.partition, result.appended_bytes)
        if result.flush_due:
            self.unsynced.append(log)
        return PartitionAnswer(
            each.partition, 0, result.base_offset, result.log_append_time_ms, result.log_start_offset
        )

    def _error(self, each: ProducePartition, error_code: ErrorCode, message: str | None) -> PartitionAnswer:
        self._has_error = True
        self._broker.metrics.append_refused[error_code.name] += 1
        return PartitionAnswer(each.partition, int(error_code.value), error_message=message)

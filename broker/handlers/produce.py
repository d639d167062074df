"""Produce (0), v3-8 (v0 is advertised for librdkafka's sake, KAFKA-18659, and not served).

Behaviour: batches are checked, get their offsets in place in the received buffer, and are written; the answer
says where. acks=0 has no answer, and an error closes the connection. acks=1 and all are the same with one
replica; with flush.messages=1 they wait for fdatasync. An instance at capacity is refused or stalled
(quota.md). Duplicates of idempotent producers get their original offset.
Deliberately not done: message formats v0 and v1; transactions (TRANSACTIONAL_ID_AUTHORIZATION_FAILED).
Versions: v5 log start offset; v7 zstd; v8 error messages (KIP-467).
"""

from collections.abc import Callable
from time import perf_counter_ns
from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from broker.causes import CloseCause
from broker.leadership import LEADER_EPOCH
from broker.log.errors import LogError, StorageFailed
from broker.log.partition_log import PartitionLog
from broker.log.results import AppendOrigin
from broker.produce_wire import PartitionAnswer, ProducePartition, ProduceScan, produce_response, scan_produce
from broker.throttling import charge
from broker.topics import Topic
from contracts.quota import Direction
from contracts.specs import FullBehaviour
from traffic.verdict import Full, stall_ms

if TYPE_CHECKING:
    from broker.app import Broker
    from broker.call import Call

_ACKS: Final = (-1, 0, 1)
Answers = list[tuple[str, list[PartitionAnswer]]]


def handle(broker: "Broker", call: "Call") -> None:
    """Append what may be appended, then answer."""
    frame = call.request
    scan = scan_produce(frame, call.header.body_at)
    append = _Append(broker, call, scan, frame)
    answers = append.run()
    throttle_time_ms, mute = charge(broker.traffic, Direction.PRODUCE, append.sizes(), broker.now_ms())
    broker.metrics.throttled_ms["produce"] += throttle_time_ms

    def finish() -> None:
        if scan.acks != 0:
            call.reply_parts(
                [produce_response(call.header.correlation_id, call.api_version, answers, throttle_time_ms)],
                mute=mute,
            )
        elif append.has_error:
            call.close(CloseCause.ACKS_ZERO_REFUSED)
        else:
            call.reply_nothing(mute=mute)

    if append.stalled:
        broker.call_later(stall_ms(scan.timeout_ms), lambda: None if call.is_gone else finish())
    elif append.unsynced and scan.acks != 0:
        broker.flusher.sync(append.unsynced, lambda failed: append.synced(failed, answers, finish))
    else:
        finish()


class _Append:
    """One request's appends."""

    def __init__(self, broker: "Broker", call: "Call", scan: ProduceScan, frame: memoryview) -> None:
        self._broker = broker
        self._call = call
        self._scan = scan
        self._frame = frame
        self._instance_bytes: dict[str, int] = {}
        self._verdicts: dict[str, Full | None] = {}
        self.has_error = False
        self.stalled = False
        self.unsynced: list[PartitionLog] = []
        """Logs whose flush the answer waits for."""

    def run(self) -> Answers:
        """Append every partition's records; what each gets."""
        refusal = self._refusal()
        answers: Answers = []
        for name, partitions in self._scan.topics:
            topic = self._broker.topics.get(name)
            answers.append((name, [self._partition(topic, each, refusal) for each in partitions]))
        return answers

    def _refusal(self) -> ErrorCode | None:
        """What the whole request gets, if it cannot be served."""
        if self._scan.transactional_id is not None:
            return ErrorCode.transactional_id_authorization_failed
        if self._scan.acks not in _ACKS:
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
        if topic.instance_id is not None:
            full = self._full(topic.instance_id, each)
            if full is not None:
                return self._full_answer(each, full)
        return self._append(topic, log, each)

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
        self.has_error = True
        self._broker.metrics.append_refused[error_code.name] += 1
        return PartitionAnswer(each.partition, int(error_code.value), error_message=message)

    def sizes(self) -> list[tuple[str, int]]:
        """Each instance's part of the frame: its records, and what is around them by the first one."""
        sizes = dict(self._instance_bytes)
        if sizes:
            first = next(iter(sizes))
            sizes[first] += len(self._frame) + 4 - sum(sizes.values())
        return list(sizes.items())

    def synced(self, failed: bool, answers: Answers, finish: Callable[[], None]) -> None:
        """The flush that the answer waited for has ended."""
        if failed:
            self.has_error = True
            error_code = int(ErrorCode.kafka_storage_error.value)
            for _name, partitions in answers:
                partitions[:] = [PartitionAnswer(each.partition, error_code) for each in partitions]
        if not self._call.is_gone:
            finish()

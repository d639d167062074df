"""ListOffsets (2), v0-11.

Behaviour: timestamp -2 earliest, -1 latest (the high watermark, or the last stable offset with
read_committed), else the first committed record at or after the timestamp (KAFKA-5522). While a new leader's
high watermark has not come to where it began, the latest offset would seem to go back: OFFSET_NOT_AVAILABLE
(KIP-207; LEADER_NOT_AVAILABLE to those who do not know it). Where a time takes long to find it is looked for
elsewhere (`broker.scanning`). To an operator who asks as a replica (Kafka: -2, for debugging) the latest
offset is the end of the log, committed or not. A partition that is named twice is refused, as Kafka does.
Timestamps that ask for a kind of offset: -3 the first record with the largest timestamp (KIP-734), -4 where
the local log begins, -5 and -6 what is or waits to be in tiered storage, of which there is none; from the
version on that knows them, before UNSUPPORTED_VERSION.
Versions: v0 offsets of segments (`broker.records.legacy_offsets`); v2 isolation level; v4 leader epoch and
its fencing (KIP-320); v5 OFFSET_NOT_AVAILABLE; v6 flexible; v7 -3; v8 -4 (KIP-405); v9 -5 (KIP-1005); v10
a time limit for tiered storage (KIP-1075); v11 -6 (KIP-1023).
"""

from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import Final, Protocol

from kio.schema.errors import ErrorCode
from kio.static.protocol import Entity

from broker.log.errors import LogError
from broker.log.results import TimestampOffset
from broker.log.time_lookup import LatestSearch, Search, TimeSearch
from broker.net.later import Later
from broker.records.legacy_offsets import SegmentDeps, segment_offsets
from broker.replication.partition import Partition
from broker.requests.call import Call
from broker.scanning.messages import FindLatest, FindTime, Found, Job, Result
from broker.scanning.scanner import Scanner
from wire.api_table import ApiKey
from wire.build import ResponseShape, response_shape
from wire.codec import duration
from wire.messages import ListOffsetsPartition, ListOffsetsTopic

_LATEST: Final = -1
_EARLIEST: Final = -2
_LARGEST_TIMESTAMP: Final = -3
_EARLIEST_LOCAL: Final = -4
_LATEST_TIERED: Final = -5
_EARLIEST_NOT_TIERED: Final = -6
_KNOWN_FROM: Final = {_LARGEST_TIMESTAMP: 7, _EARLIEST_LOCAL: 8, _LATEST_TIERED: 9, _EARLIEST_NOT_TIERED: 11}
_READ_COMMITTED: Final = 1
_CONSUMER: Final = -1
_OFFSET_NOT_AVAILABLE_FROM: Final = 5
_PARTITIONS_PER_TURN: Final = 200
"""Of one request, before others get their turn: a few milliseconds."""


class _Deps(SegmentDeps, Protocol):
    later: Later
    scanner: Scanner


def handle(call: Call, deps: _Deps) -> None:
    if call.api_version == 0:
        call.reply(segment_offsets(call.request, deps))
    else:
        _Request(deps, call).go_on()


class _Request:
    """One ListOffsets request in progress."""

    __slots__ = ("_answers", "_call", "_deps", "_read_committed", "_repeated", "_shape", "_to_the_end")

    def __init__(self, deps: _Deps, call: Call) -> None:
        self._deps = deps
        self._call = call
        self._shape: ResponseShape = response_shape(ApiKey.LIST_OFFSETS, call.api_version)
        self._read_committed = getattr(call.request, "isolation_level", 0) == _READ_COMMITTED
        self._to_the_end = call.request.replica_id != _CONSUMER and call.may_operate
        self._repeated = _repeated(call.request.topics)
        self._answers: list[list[Entity]] = []

    def go_on(self) -> None:
        """Look up the partitions without an answer, then answer; others get their turn in between."""
        left = _PARTITIONS_PER_TURN
        topics, answers = self._call.request.topics, self._answers
        for at in range(max(len(answers) - 1, 0), len(topics)):
            if at == len(answers):
                answers.append([])
            topic = topics[at]
            for asked in topic.partitions[len(answers[at]) :]:
                if not left:
                    self._deps.later.after_others(self._call, self.go_on)
                    return
                left -= 1
                answer = self._partition(topic.name, asked)
                if answer is None:
                    return
                answers[at].append(answer)
        self._reply()

    def _reply(self) -> None:
        topics = tuple(
            self._shape.nested("ListOffsetsTopicResponse", name=topic.name, partitions=tuple(partitions))
            for topic, partitions in zip(self._call.request.topics, self._answers, strict=True)
        )
        self._call.reply(self._shape.make(throttle_time=duration(0), topics=topics))

    def _partition(self, topic: str, asked: ListOffsetsPartition) -> Entity | None:
        """None: `_found` comes back."""
        if (topic, asked.partition_index) in self._repeated:
            return self._answer(asked, error_code=ErrorCode.invalid_request)
        if self._call.api_version < _KNOWN_FROM.get(asked.timestamp, 0):
            return self._answer(asked, error_code=ErrorCode.unsupported_version)
        try:
            partition = self._deps.replicas.leader(
                topic, asked.partition_index, getattr(asked, "current_leader_epoch", -1)
            )
            if self._to_the_end and asked.timestamp == _LATEST:
                return self._answer(asked, -1, partition.log.log_end_offset, partition.leader_epoch)
            found = _look_up(partition, asked.timestamp, self._read_committed)
        except LogError as error:
            return self._answer(asked, error_code=error.error_code)
        if isinstance(found, TimeSearch):
            job: Job = FindTime(found)
        elif isinstance(found, LatestSearch):
            job = FindLatest(found)
        else:
            return self._answer(asked, *found)
        self._deps.scanner.submit(partition.instance_id, job, partial(self._found, partition, asked))
        return None

    def _found(self, partition: Partition, asked: ListOffsetsPartition, result: Result) -> None:
        if self._call.is_gone:
            return
        if not isinstance(result, Found):  # a file has gone meanwhile: the client asks again
            answer = self._answer(asked, error_code=ErrorCode.offset_not_available)
        elif result.record is not None:
            answer = self._answer(asked, *_of_record(partition, result.record))
        elif not partition.has_reached_epoch:
            answer = self._answer(asked, error_code=ErrorCode.offset_not_available)
        else:
            answer = self._answer(asked)
        self._answers[-1].append(answer)
        self._deps.later.in_turn(self._call, self.go_on)

    def _answer(
        self,
        asked: ListOffsetsPartition,
        timestamp_ms: int = -1,
        offset: int = -1,
        leader_epoch: int = -1,
        *,
        error_code: ErrorCode = ErrorCode.none,
    ) -> Entity:
        if (
            error_code is ErrorCode.offset_not_available
            and self._call.api_version < _OFFSET_NOT_AVAILABLE_FROM
        ):
            error_code = ErrorCode.leader_not_available
        return self._shape.nested(
            "ListOffsetsPartitionResponse",
            partition_index=asked.partition_index,
            error_code=error_code,
            timestamp=timestamp_ms,
            offset=offset,
            leader_epoch=leader_epoch,
        )


def _repeated(topics: Iterable[ListOffsetsTopic]) -> frozenset[tuple[str, int]]:
    """Partitions that are named more than once: Kafka refuses them, and nobody pays for the same twice."""
    named = Counter((topic.name, asked.partition_index) for topic in topics for asked in topic.partitions)
    return frozenset(key for key, count in named.items() if count > 1)


def _look_up(partition: Partition, timestamp_ms: int, read_committed: bool) -> tuple[int, int, int] | Search:
    """(timestamp, offset, its leader epoch), all -1 when there is no such record; a search where that may be
    much work. Raises: LogError."""
    log = partition.log
    latest = log.last_stable_offset if read_committed else log.high_watermark
    if timestamp_ms in (_EARLIEST, _EARLIEST_LOCAL):
        return -1, log.log_start_offset, log.epoch_of(log.log_start_offset)
    if timestamp_ms >= 0 or timestamp_ms == _LARGEST_TIMESTAMP:
        reading = log.reading
        found = (
            reading.offset_for_timestamp(timestamp_ms, up_to=latest)
            if timestamp_ms >= 0
            else reading.offset_of_latest(up_to=latest)
        )
        if isinstance(found, TimestampOffset):
            return _of_record(partition, found)
        if found is not None:
            return found
    if (timestamp_ms >= _LATEST or timestamp_ms == _LARGEST_TIMESTAMP) and not partition.has_reached_epoch:
        raise LogError(ErrorCode.offset_not_available, "a new leader has not committed yet")
    if timestamp_ms == _LATEST:
        return -1, latest, partition.leader_epoch
    return -1, -1, -1


def _of_record(partition: Partition, found: TimestampOffset) -> tuple[int, int, int]:
    return found.timestamp_ms, found.offset, partition.log.epoch_of(found.offset)

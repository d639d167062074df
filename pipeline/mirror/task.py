"""What a task does: mirror one partition, in order, from where it really is to where it may stop."""

import gc
import logging
import time
from contextlib import closing
from typing import Any, Final

import msgspec
from confluent_kafka import KafkaException

from pipeline.ingest.admin import EARLIEST, LATEST
from pipeline.mirror.clients import PartitionReader, UnitWriter
from pipeline.mirror.cluster import Cluster
from pipeline.mirror.planning import lineage
from pipeline.mirror.planning.errors import Fenced, Paused, Stopped, TooLarge, Unreachable
from pipeline.mirror.planning.progress import (
    PROGRESS_PARTITION,
    PROGRESS_TOPIC,
    Pair,
    Position,
    Progress,
    progress_records,
)
from pipeline.mirror.planning.tracks import Plan
from pipeline.mirror.planning.units import Outcome, State
from pipeline.mirror.read_progress import ProgressReader

_log: Final = logging.getLogger(__name__)
_TRANSACTION_BYTES: Final = 48 * 1024 * 1024
_TRANSACTION_S: Final = 2.0
_WORK_S: Final = 15.0
"""Within about this time a task ends."""
_BATCH_HEAD_BYTES: Final = 61
_NUMBERS_BYTES_MAX: Final = 40
"""All varints of a record but those of its headers, and the digits of an offset."""
_HEADER_NUMBERS_BYTES_MAX: Final = 10
_STATES: Final = {
    Paused: State.PAUSED,
    TooLarge: State.PAUSED,
    Fenced: State.FENCED,
    Stopped: State.STOPPED,
    Unreachable: State.RETRY,
}


def mirror_partition(plan: Plan) -> Outcome:
    """Mirror what a plan says. Whatever happens becomes an outcome: other partitions go on."""
    copier = _Copier(plan)
    done = copier.done
    gc.disable()  # messages are in no circles: looking through each batch for some takes a twelfth of the CPU
    try:
        copier.run()
    except tuple(_STATES) as error:
        done.state, done.sentence = _STATES[type(error)], str(error)
    finally:
        gc.enable()
    return done


class _Copier:
    """One task's work."""

    def __init__(self, plan: Plan) -> None:
        self._plan, self._request = plan, plan.request
        self._track, self._unit = plan.track, plan.track.unit
        self._source = Cluster(self._request.source_address, "source")
        self._target = Cluster(self._request.target_address, "target")
        self._place = (self._unit.target_topic, self._unit.partition)
        track = plan.track
        self.done = Outcome(self._unit, position=track.position, target_position=track.target_position)
        room = _BATCH_HEAD_BYTES + _NUMBERS_BYTES_MAX + len(lineage.HEADER) + len(self._unit.lineage)
        self._overhead_bytes = room + _HEADER_NUMBERS_BYTES_MAX
        self._first_offset = -1
        """The first source offset of the open transaction."""
        self._began = 0.0
        self._pending_bytes = self._pending_records = 0
        self._newest_ms = -1

    def run(self) -> None:
        """Take the partition over, find out where it is, go on from there."""
        self._writer = UnitWriter(self._request.target_address, self._track)
        self._resume()
        with closing(self._reader()) as reader:
            try:
                self._copy(reader)
            except (Paused, Stopped):
                self._give_up()
                raise

    def _resume(self) -> None:
        """Read what was committed since the driver planned: perhaps by an earlier attempt of this task."""
        progress = Progress()
        progress.next_offset = self._plan.progress_from
        with closing(ProgressReader(self._target, progress)) as reader:
            reader.catch_up(wait=True)
        found = progress.positions.get(self._unit.key)
        if found is not None and found.target_topic_id == self._track.target_topic_id:
            self.done.position, self.done.target_position = found.position, found.target_position
            self.done.timestamp_ms = found.timestamp_ms

    def _reader(self) -> PartitionReader:
        """Raises: Stopped where the source is not what was mirrored, or has lost what was not."""
        unit, done = self._unit, self.done
        self._check_source()
        place = (unit.topic, unit.partition)
        start = self._source.offset(place, EARLIEST, committed=True)
        end = self._source.offset(place, LATEST, committed=False)
        if done.position > end:
            raise Unreachable(f"{unit} ends at {end} at the source, but was mirrored up to {done.position}")
        if 0 <= done.position < start:
            if not self._request.skip_lost:
                raise Stopped(
                    f"{unit}: the source's retention removed offsets {done.position}..{start - 1} before"
                    " they were mirrored; start with --on-data-loss skip to go on behind them"
                )
            done.lost = start - done.position
        done.position = max(done.position, start)
        return PartitionReader(self._request.source_address, *place, done.position)

    def _copy(self, reader: PartitionReader) -> None:
        until = time.monotonic() + _WORK_S
        while reader.position < self._track.end and time.monotonic() < until:
            if records := reader.read():
                self._write(records)
                self._writer.serve()
            elif reader.is_silent:
                if reader.fault:
                    raise Unreachable(reader.fault)
                self._check_source()  # it answers, so there is nothing more to read
                self.done.drained = True
                break
            self._commit_if_full(reader.position)
        self._commit(reader.position)

    def _commit_if_full(self, position: int) -> None:
        old = time.monotonic() - self._began > _TRANSACTION_S
        if self._pending_records and (old or self._pending_bytes >= _TRANSACTION_BYTES):
            self._commit(position)

    def _write(self, messages: list[Any]) -> None:
        """Put records into the open transaction. This loop is what a mirror's time goes to."""
        topic, partition = self._place
        produce, prefix = self._writer.produce, self._unit.lineage
        returned = self._plan.target_id.encode() + b"/"
        single_bytes_max = self._track.batch_bytes_max - self._overhead_bytes
        offset = messages[0].offset()
        self._begin(offset)
        written = written_bytes = 0
        try:
            for message in messages:
                offset, key, value = message.offset(), message.key(), message.value()
                size = (0 if value is None else len(value)) + (0 if key is None else len(key))
                origin = (lineage.HEADER, prefix + b"%d" % offset)
                headers = message.headers()
                if headers is None:
                    headers = [origin]
                elif lineage.came_from(headers, returned):
                    self.done.filtered += 1
                    continue
                else:
                    size += sum(len(name) + len(each or b"") for name, each in headers)
                    size += len(headers) * _HEADER_NUMBERS_BYTES_MAX
                    headers = [*headers, origin]
                time_ms = message.timestamp()[1] or 1  # librdkafka takes 0 for now
                record = (topic, value, key, partition, None, None, time_ms, headers)  # by name is slower
                if size > single_bytes_max:
                    self._count(written, written_bytes)
                    written = written_bytes = 0
                    self._write_alone(offset, size, record)
                    continue
                try:
                    produce(*record)
                except BufferError:
                    self._writer.produce_later(*record)
                self._newest_ms = time_ms
                written += 1
                written_bytes += size
        except KafkaException as error:
            raise self._writer.failure(error) from error
        except UnicodeDecodeError as error:
            raise Paused(f"the record at offset {offset} has a header whose name is no UTF-8") from error
        self._count(written, written_bytes)

    def _count(self, written: int, written_bytes: int) -> None:
        self._pending_records += written
        self._pending_bytes += written_bytes

    def _begin(self, offset: int) -> None:
        self._writer.begin()
        if not self._pending_records:
            self._began = time.monotonic()
            self._first_offset = offset

    def _write_alone(self, offset: int, size: int, record: tuple[Any, ...]) -> None:
        """A record that only fits if it compresses well is in a transaction of its own: if that fails, no
        other one waits for somebody to raise the target's bound."""
        self._commit(offset)
        self._begin(offset)
        self._writer.produce_later(*record)
        self._count(1, size)
        *_, self._newest_ms, _ = record
        try:
            self._commit(offset + 1)
        except TooLarge as error:
            raise Paused(
                f"the record at offset {offset} needs a batch of {size + self._overhead_bytes} bytes, and"
                f" compressed still more than the target takes, which is {self._track.batch_bytes_max}: raise"
                " max.message.bytes of the target topic"
            ) from error
        self._begin(offset + 1)

    def _commit(self, position: int) -> None:
        """Everything below a source offset has been written or is not to be: that, and the progress."""
        done = self.done
        if position <= done.position:
            return
        self._check_source()
        self._writer.begin()
        pair, target_position, timestamp_ms = None, done.target_position, done.timestamp_ms
        if self._pending_records:
            pair = Pair(self._first_offset, max(0, target_position))
            self._writer.flush()
            target_position = self._target.offset(self._place, LATEST, committed=False)
            timestamp_ms = self._newest_ms
        noted = Position(
            **msgspec.structs.asdict(self._unit),
            source=self._request.source,
            target_topic_id=self._track.target_topic_id,
            position=position,
            target_position=target_position,
            timestamp_ms=timestamp_ms,
        )
        try:
            for key, value in progress_records(noted, pair):
                self._writer.produce(PROGRESS_TOPIC, value, key, partition=PROGRESS_PARTITION)
        except KafkaException as error:
            raise self._writer.failure(error) from error
        self._writer.commit()
        done.position, done.target_position, done.timestamp_ms = position, target_position, timestamp_ms
        done.records += self._pending_records
        done.bytes += self._pending_bytes
        self._pending_records = self._pending_bytes = 0

    def _check_source(self) -> None:
        """What was fetched is of this topic, for it was the same before and after. Raises: Stopped."""
        topic = self._source.topic(self._unit.topic)
        if topic is None or topic.text_id != self._unit.topic_id:
            raise Stopped(source_changed(self._unit.topic, exists=topic is not None))

    def _give_up(self) -> None:
        try:
            self._writer.abort()
        except (Unreachable, Fenced, Paused) as error:
            # the transaction's timeout does it then; the first failure is the one to tell of
            _log.debug("aborting %s: %s", self._unit, error)


def source_changed(topic: str, *, exists: bool) -> str:
    """What is said of a topic that is not the one that was mirrored."""
    if not exists:
        return f"topic '{topic}' was deleted at the source; what was mirrored of it stays at the target"
    return (
        f"topic '{topic}' was deleted and created again at the source: delete its copy at the target, or"
        " mirror the new one to another name with --rename"
    )

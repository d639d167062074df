"""What a Spark task does: mirror one partition, in order, from where it really is to where it may stop."""

import logging
import time
from collections.abc import Iterator
from typing import Final

from pipeline.mirror.cluster import EARLIEST, LATEST, Cluster
from pipeline.mirror.planning.errors import Fenced, KafkaError, Paused, Stopped, TooLarge, Unreachable
from pipeline.mirror.planning.progress import (
    PROGRESS_PARTITION,
    PROGRESS_TOPIC,
    Pair,
    Position,
    Progress,
    progress_records,
)
from pipeline.mirror.planning.rebatch import Draft, Rebatcher
from pipeline.mirror.planning.units import Outcome, Plan, State
from pipeline.mirror.read_progress import catch_up
from pipeline.mirror.source import Fetched, OutOfRange, PartitionReader, committed_batches, payload_of
from pipeline.mirror.tail import mirrored_in_tail
from pipeline.mirror.writers import LeasedWriter, TransactionalWriter

_log: Final = logging.getLogger(__name__)
_TRANSACTION_BYTES: Final = 48 * 1024 * 1024
_TRANSACTION_S: Final = 2.0
_BATCH_BYTES: Final = 1024 * 1024
"""Larger batches bring nothing; smaller ones where the target takes no more."""


def mirror_partition(plan: Plan) -> Outcome:
    """Mirror what a plan says. Whatever happens becomes an outcome: other partitions go on."""
    source, target = Cluster(plan.source_bootstrap), Cluster(plan.target_bootstrap)
    copier = _Copier(plan, source, target)
    state, sentence = State.DONE, ""
    try:
        copier.run()
    except Paused as error:
        state, sentence = State.PAUSED, str(error)
    except KafkaError as error:
        state, sentence = State.PAUSED, error.sentence
    except Fenced as error:
        state, sentence = State.FENCED, str(error)
    except Stopped as error:
        state, sentence = State.STOPPED, str(error)
    except Unreachable as error:
        state, sentence = State.RETRY, str(error)
    finally:
        source.close()
        target.close()
    return copier.outcome(state, sentence)


class _Copier:
    """One task's work."""

    def __init__(self, plan: Plan, source: Cluster, target: Cluster) -> None:
        self._plan = plan
        self._source = source
        self._target = target
        self._position = plan.position
        self._target_position = plan.target_position
        self._timestamp_ms = -1
        self._rebatcher = Rebatcher(
            plan.unit.lineage, plan.target_id, min(plan.batch_bytes_max, _BATCH_BYTES)
        )
        self._records = self._bytes = self._lost = 0
        self._first_offset = -1
        self._began = 0.0
        """When the open transaction began."""
        self._pending_bytes = self._pending_records = 0
        self._drained = False

    def outcome(self, state: str, sentence: str) -> Outcome:
        """How it ended, of what is committed."""
        return Outcome(
            self._plan.unit,
            state,
            sentence,
            self._position,
            self._target_position,
            self._records,
            self._bytes,
            self._rebatcher.filtered,
            self._lost,
            self._timestamp_ms,
            self._drained,
        )

    def run(self) -> None:
        """Take the partition over, find out where it is, go on from there."""
        self._writer = self._take_over()
        reader = self._reader()
        try:
            self._copy(reader)
        except (Paused, KafkaError):
            self._give_up()
            raise
        finally:
            reader.close()

    def _take_over(self) -> TransactionalWriter | LeasedWriter:
        unit = self._plan.unit
        data, noted = (unit.target_topic, unit.partition), (PROGRESS_TOPIC, PROGRESS_PARTITION)
        if self._plan.transactional:
            writer = TransactionalWriter(self._target, unit.key, data, noted)
            self._resume()
            return writer
        self._resume()
        self._position, self._target_position = mirrored_in_tail(
            self._target, unit, self._position, self._target_position
        )
        return LeasedWriter(self._target, data, noted, self._plan.lease_until_ms)

    def _resume(self) -> None:
        """Read what was committed since the driver planned: perhaps by an earlier attempt of this task."""
        progress = Progress()
        progress.next_offset = self._plan.progress_from
        catch_up(self._target, progress, wait=True)
        found = progress.positions.get(self._plan.unit.key)
        if found is not None and found.target_topic_id == self._plan.target_topic_id:
            self._position, self._target_position = found.position, found.target_position
            self._timestamp_ms = found.timestamp_ms

    def _reader(self) -> PartitionReader:
        """Raises: Stopped where the source is not what was mirrored, or has lost what was not."""
        unit = self._plan.unit
        topic = self._source.topic(unit.topic)
        if topic is None or topic.topic_id != unit.topic_id:
            raise Stopped(source_changed(unit.topic, exists=topic is not None))
        wanted = [unit.partition]
        start = self._source.offsets(topic, EARLIEST, committed=True, partitions=wanted)[unit.partition]
        end = self._source.offsets(topic, LATEST, committed=False, partitions=wanted)[unit.partition]
        if self._position > end:
            raise Unreachable(f"{unit} ends at {end} at the source, but was mirrored up to {self._position}")
        if 0 <= self._position < start:
            if not self._plan.skip_lost:
                raise Stopped(
                    f"{unit}: the source's retention removed offsets {self._position}..{start - 1} before"
                    " they were mirrored; start with --on-data-loss skip to go on behind them"
                )
            self._lost = start - self._position
        self._position = max(self._position, start)
        return PartitionReader(self._source, unit.topic, unit.partition, self._position)

    def _copy(self, reader: PartitionReader) -> None:
        read_to = self._position
        until = time.monotonic() + self._plan.work_ms / 1000
        while read_to < self._plan.end and time.monotonic() < until:
            fetched = _read(reader)
            if fetched.next_offset < self._plan.end:
                reader.ask()
            self._write(fetched, read_to)
            read_to = fetched.next_offset
            if fetched.is_empty:
                self._drained = True
                break
        self._commit(read_to)

    def _write(self, fetched: Fetched, from_offset: int) -> None:
        for at, header in committed_batches(fetched.part):
            payload = payload_of(fetched.part, at, header)
            self._append_all(self._rebatcher.add(header, *payload, from_offset))

    def _append_all(self, drafts: Iterator[Draft]) -> None:
        try:
            for draft in drafts:
                self._append(draft)
        except ValueError as error:
            raise Paused(str(error)) from error

    def _append(self, draft: Draft) -> None:
        old = time.monotonic() - self._began > _TRANSACTION_S
        if self._pending_records and (old or self._pending_bytes >= _TRANSACTION_BYTES):
            self._commit_written(draft.first_offset)
        if not self._pending_records:
            self._began = time.monotonic()
        try:
            self._pending_bytes += self._writer.append(draft, self._plan.batch_bytes_max)
        except TooLarge:
            self._commit_written(draft.first_offset)
            raise
        self._pending_records += draft.record_count
        self._timestamp_ms = draft.max_timestamp_ms
        if self._first_offset < 0:
            self._first_offset = draft.first_offset

    def _commit(self, position: int) -> None:
        """Everything below a source offset has been read: write what is left of it, then the progress."""
        self._append_all(self._rebatcher.cut())
        self._commit_written(position)

    def _commit_written(self, position: int) -> None:
        if position <= self._position:
            return
        self._check_source()
        written_from, written_to = self._writer.flush()
        pair = None if written_from < 0 else Pair(self._first_offset, written_from)
        target_position = max(self._target_position, written_to)
        self._writer.commit(progress_records(self._progress(position, target_position), pair))
        self._position, self._target_position = position, target_position
        self._records += self._pending_records
        self._bytes += self._pending_bytes
        self._pending_records = self._pending_bytes = 0
        self._first_offset = -1

    def _progress(self, position: int, target_position: int) -> Position:
        unit = self._plan.unit
        return Position(
            source_id=unit.source_id,
            source=self._plan.source,
            topic=unit.topic,
            topic_id=unit.topic_id,
            partition=unit.partition,
            target_topic=unit.target_topic,
            target_topic_id=self._plan.target_topic_id,
            position=position,
            target_position=target_position,
            timestamp_ms=self._timestamp_ms,
        )

    def _check_source(self) -> None:
        """What was fetched is of this topic, for it was the same before and after. Raises: Stopped."""
        topic = self._source.topic(self._plan.unit.topic)
        if topic is None or topic.topic_id != self._plan.unit.topic_id:
            raise Stopped(source_changed(self._plan.unit.topic, exists=topic is not None))

    def _give_up(self) -> None:
        try:
            self._writer.abort()
        except (Unreachable, Fenced, Paused, KafkaError) as error:
            # the transaction's timeout does it then; the first failure is the one to tell of
            _log.debug("aborting %s: %s", self._plan.unit, error)


def _read(reader: PartitionReader) -> Fetched:
    try:
        return reader.read()
    except OutOfRange as error:
        raise Unreachable(f"{error}: looked at again") from error


def source_changed(topic: str, *, exists: bool) -> str:
    """What is said of a topic that is not the one that was mirrored."""
    if not exists:
        return f"topic '{topic}' was deleted at the source; what was mirrored of it stays at the target"
    return (
        f"topic '{topic}' was deleted and created again at the source: delete its copy at the target, or"
        " mirror the new one to another name with --rename"
    )

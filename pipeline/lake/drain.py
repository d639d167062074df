"""One instance's waiting offsets, batch by batch: hold tables, read, look again, commit; or find out why not.

A batch takes the tables of so many topics that what it costs is bounded, however many an instance has. They
are held for that batch alone, and planned again where another loader wrote them meanwhile.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from itertools import accumulate
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from pipeline.errors import PipelineError
from pipeline.ingest.admin import Topic
from pipeline.ingest.commits import BatchDocument, IngestTable
from pipeline.ingest.failures import is_from_spark, is_interrupted, reason
from pipeline.ingest.lease import table_lease
from pipeline.ingest.offsets import UnreachableError
from pipeline.ingest.ranges import PartitionRange, take
from pipeline.ingest.staging import StagedFile, stage
from pipeline.ingest.watch import gone
from pipeline.lake.pieces import Ranges, read_pieces
from pipeline.lake.plan import TABLES_AT_ONCE, OnDataLoss, SourceLoad, TopicLoad, each_of, plan_waiting
from pipeline.lake.rows import Destination, ingested, lake_rows
from pipeline.schema.lake import LAKE_OPAQUE, LAKE_SORT_BY
from pipeline.store import AnyPath

JOB: Final = "load"
JOB_VERSION: Final = "1"
PARTITIONS_PER_BATCH_MAX: Final = 256
"""Spark keeps a consumer for each, and no more than that; a topic with more has a batch of its own."""
_HOLDER: Final = "portico pipeline load"
_TRIES: Final = 4
_FAILURES_MAX: Final = 10
_NARROWED: Final = 16
"""A batch that failed is tried again in so many parts."""
_RETRY_S: Final = 2.0


class Drain:
    """Brings one instance's topics up to the planned ends."""

    def __init__(
        self,
        plan: SourceLoad,
        spark: Callable[[], SparkSession],
        area: AnyPath,
        offsets_per_batch_max: int,
        on_data_loss: OnDataLoss,
    ) -> None:
        self._plan = plan
        self._turns = [*plan.topics.values()]
        self._spark = spark
        self._area = area
        self._offsets_max = offsets_per_batch_max
        self._on_data_loss = on_data_loss
        self._partitions_max = PARTITIONS_PER_BATCH_MAX
        self._failures = 0
        """Reads that failed since the last one that did not."""
        self._tries: Counter[str] = Counter()
        """Those of each topic."""

    def step(self) -> bool:
        """The next batch; whether there was one. Where the instance fails, its topics say why.

        Instances take turns, so that one with much to read, or with a low rate, does not hold up others.
        """
        try:
            loads = self._next()
            with self._held(loads):
                each_of(_commit_what_holds_no_rows, loads)
                waiting = {load.topic.name: load.waiting for load in loads if load.waiting}
                if part := take(waiting, self._offsets_max):
                    self._try(part)
            return bool(loads)
        except PipelineError as error:
            for load in self._plan.topics.values():
                if load.is_due:
                    load.fail(error.sentence, is_passing=isinstance(error, UnreachableError))
            return False

    def _next(self) -> list[TopicLoad]:
        """Topics with something to do, those first whose turn was longest ago."""
        due = [load for load in self._turns if load.is_due]
        ends = accumulate(max(1, len(load.waiting)) for load in due)
        chosen = max(1, sum(end <= self._partitions_max for end in ends))
        self._turns = due[chosen:] + due[:chosen]
        return due[:chosen]

    @contextmanager
    def _held(self, loads: Sequence[TopicLoad]) -> Iterator[None]:
        """What cannot be held or opened fails, and others go on."""
        leases = {load.topic.name: ExitStack() for load in loads}

        def hold(load: TopicLoad) -> None:
            leases[load.topic.name].enter_context(table_lease(load.path, _HOLDER))
            self._look_again(load)

        try:
            each_of(hold, loads)
            yield
        finally:
            with ThreadPoolExecutor(TABLES_AT_ONCE) as pool:
                list(pool.map(ExitStack.close, leases.values()))

    def _look_again(self, load: TopicLoad) -> None:
        """At a table that is ours now."""
        planned_batch = load.next_batch
        if load.table is None:
            load.table = IngestTable.open(load.path, load.spec)
        else:
            load.table.refresh()
        if not load.batches:
            load.record_bytes = load.table.record_bytes() or load.record_bytes
        if load.next_batch != planned_batch:  # another loader was here, and may have seen later ends
            load.bounds = self._plan.offsets.bounds([load.topic]).get(load.topic.name, {})
            plan_waiting(load, self._on_data_loss)

    def _try(self, part: Ranges) -> None:
        """Raises: PipelineError when Kafka cannot be read."""
        try:
            self._commit(part, self._read(part))
            self._failures = 0
            for name in part:
                del self._tries[name]
            self._partitions_max = min(2 * self._partitions_max, PARTITIONS_PER_BATCH_MAX)
        except Exception as error:
            if not is_from_spark(error):
                raise
            if is_interrupted(error):
                raise KeyboardInterrupt from error
            self._plan.offsets.must_answer()
            if not self._drop_gone(part) and not self._is_overtaken(part):
                self._narrow_down(part, reason(error))

    def _narrow_down(self, part: Ranges, why: str) -> None:
        """To the topic that cannot be read: it fails, and others go on. Raises: PipelineError if none can."""
        self._failures += 1
        self._tries.update([*part])
        if self._failures == _FAILURES_MAX:
            raise PipelineError(f"reading failed {_FAILURES_MAX} times: {why}")
        failed = [load for _, load in self._loads(part)]
        if len(failed) == 1 and self._tries[failed[0].topic.name] >= _TRIES:
            failed[0].fail(f"topic {failed[0].topic.name}: reading failed {_TRIES} times: {why}")
            return
        self._turns = failed + [load for load in self._turns if load.topic.name not in part]
        self._partitions_max = max(1, self._partitions_max // _NARROWED)
        time.sleep(_RETRY_S * min(self._failures, _TRIES))

    def _read(self, part: Ranges) -> list[StagedFile]:
        loads = self._loads(part)
        destinations = {name: Destination(load.topic.id, load.next_batch) for name, load in loads}

        def staged(records: DataFrame) -> list[StagedFile]:
            rows = lake_rows(records, destinations)
            return stage(rows, self._area, ("topic",), LAKE_OPAQUE, LAKE_SORT_BY)

        sizes = {name: load.record_bytes for name, load in loads}
        pieces = read_pieces(self._spark(), self._plan.offsets, self._topics(part), part, staged, sizes)
        return [file for files in pieces for file in files]

    def _commit(self, part: Ranges, files: Sequence[StagedFile]) -> None:
        self._drop_gone(part)
        now = datetime.now(UTC)
        by_topic: dict[str, list[StagedFile]] = {}
        for file in files:
            by_topic.setdefault(str(file.partition_values["topic"]), []).append(ingested(file, now))
        assert by_topic.keys() <= part.keys(), "a topic that nobody asked for was read"

        def append(load: TopicLoad) -> None:
            name = load.topic.name
            _append(load, part[name], by_topic.get(name, []))

        each_of(append, [load for _, load in self._loads(part) if not load.failure])

    def _is_overtaken(self, part: Ranges) -> bool:
        """Whether retention overtook it while it was read: then what is left is planned again."""
        bounds = self._plan.offsets.bounds(self._topics(part).values())
        overtaken = [
            load
            for name, load in self._loads(part)
            if any(
                each.partition in bounds.get(name, {}) and bounds[name][each.partition].earliest > each.start
                for each in part[name]
            )
        ]
        for load in overtaken:
            load.bounds = bounds[load.topic.name]
            plan_waiting(load, self._on_data_loss)
        return bool(overtaken)

    def _drop_gone(self, part: Ranges) -> bool:
        missing = gone(self._plan.offsets, self._topics(part))
        for name, now in missing.items():
            load = self._plan.topics[name]
            what = "deleted" if now is None else "deleted and made again"
            then = "" if now is None else "; load again for the new one, which gets a table of its own"
            load.fail(
                f"topic {name} was {what} while it was loaded: its finished batches stay in {load.path}, the "
                f"unfinished one was thrown away{then}",
                is_passing=True,
            )
        return bool(missing)

    def _loads(self, part: Ranges) -> list[tuple[str, TopicLoad]]:
        return [(name, self._plan.topics[name]) for name in part]

    def _topics(self, part: Ranges) -> dict[str, Topic]:
        return {name: load.topic for name, load in self._loads(part)}


def _commit_what_holds_no_rows(load: TopicLoad) -> None:
    """Gaps, and where a table begins: a partition whose records are all gone has no range to go with."""
    if load.gaps or (load.begins and not load.waiting):
        _append(load, (), ())


def _append(load: TopicLoad, ranges: Sequence[PartitionRange], files: Sequence[StagedFile]) -> None:
    assert load.table is not None, "it is held"
    document = BatchDocument(
        app=load.app,
        batch=load.next_batch,
        job=JOB,
        job_version=JOB_VERSION,
        topic=load.topic.name,
        topic_id=load.topic.id,
        ranges=tuple(ranges),
        gaps=load.gaps,
        begins=load.begins,
    ).counted(files, "timestamp")
    load.table.append(files, document)
    load.committed(document)

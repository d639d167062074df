"""One instance's waiting offsets, batch by batch: read, look again, commit; or find out why a read failed."""

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from pipeline.errors import PipelineError
from pipeline.ingest.commits import BatchDocument
from pipeline.ingest.failures import is_from_spark, is_interrupted, reason
from pipeline.ingest.offsets import Topic, UnreachableError
from pipeline.ingest.ranges import PartitionRange
from pipeline.ingest.staging import StagedFile, stage
from pipeline.ingest.watch import gone
from pipeline.lake.pieces import Ranges, read_pieces
from pipeline.lake.plan import OnDataLoss, SourceLoad, TopicLoad, plan_waiting
from pipeline.lake.rows import Destination, ingested, lake_rows
from pipeline.schema.lake import LAKE_OPAQUE, LAKE_SORT_BY
from pipeline.store import AnyPath

JOB: Final = "load"
JOB_VERSION: Final = "1"
_TRIES: Final = 4
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
        self._spark = spark
        self._area = area
        self._offsets_max = offsets_per_batch_max
        self._on_data_loss = on_data_loss
        self._tries = 0

    def step(self) -> bool:
        """The next batch; whether there was one. Where the instance fails, its topics say why.

        Instances take turns, so that one with much to read, or with a low rate, does not hold up others.
        """
        try:
            self._commit_what_holds_no_rows()
            part = self._plan.next_batch(self._offsets_max)
            if part:
                self._try(part)
            return bool(part)
        except PipelineError as error:
            for load in self._plan.topics.values():
                if load.pending or load.begins:
                    load.fail(error.sentence, is_passing=isinstance(error, UnreachableError))
            return False

    def _try(self, part: Ranges) -> None:
        """Raises: PipelineError when Kafka cannot be read, OvertakenError when another process commits."""
        try:
            self._commit(part, self._read(part))
            self._tries = 0
        except Exception as error:
            if not is_from_spark(error):
                raise
            if is_interrupted(error):
                raise KeyboardInterrupt from error
            self._plan.offsets.must_answer()
            if not self._drop_gone(part) and not self._is_overtaken(part):
                self._tries += 1
                if self._tries == _TRIES:
                    raise PipelineError(f"reading failed {_TRIES} times: {reason(error)}") from error
                time.sleep(_RETRY_S * self._tries)

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
        for name, load in self._loads(part):
            if not load.failure:
                _append(load, part[name], by_topic.get(name, []))

    def _commit_what_holds_no_rows(self) -> None:
        """Gaps, and where a table begins: a partition whose records are all gone has no range to go with."""
        for load in self._plan.topics.values():
            if load.gaps or (load.begins and not load.waiting):
                _append(load, (), ())

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
            plan_waiting(load, bounds[load.topic.name], self._on_data_loss)
        self._commit_what_holds_no_rows()
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


def _append(load: TopicLoad, ranges: Sequence[PartitionRange], files: Sequence[StagedFile]) -> None:
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
    load.opened.append(files, document)
    load.committed(document)

"""A job's topics into its table of events with Structured Streaming, exactly once, and on into its results.

One query per job, one pass over its topics. A batch becomes one append to the table of events; results are
folded from events by batch number, so they may lag and catch up, and a crash between two writes costs
nothing. State lives in these tables alone: Spark's checkpoint holds offsets. It is keyed by topic ids, and a
fresh one goes on counting batches where the table ended.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

from pipeline.activity.events import Kind, Lane, events, unseen, watermark_of, with_lanes
from pipeline.activity.result_tables import ActivityTables, EventFile, Reach, reach_of
from pipeline.errors import PipelineError
from pipeline.ingest.kafka import CLIENT_SETTINGS, POLL_TIMEOUT_MS
from pipeline.ingest.lease import table_lease
from pipeline.ingest.offsets import KafkaSource, SourceOffsets
from pipeline.layout import PipelineLayout
from pipeline.progress import Progress

WRITER: Final = "intake"
_OFFSETS_PER_BATCH: Final = 1_000_000
_FIRST_BATCH: Final = "first-batch"
_COUNTED: Final = {Lane.ON_TIME: "events", Lane.LATE: "late", Lane.DEAD: "dead_letters"}
_DEAD: Final = ("topic", "partition", "offset", "arrived", "error", "raw")


class Source(NamedTuple):
    """An instance as a tenant's client reaches it."""

    bootstrap_servers: str
    instance_id: str
    settings: Mapping[str, str] = {}
    """More client settings, such as `security.protocol`."""

    @property
    def kafka(self) -> KafkaSource:
        """For what asks it directly."""
        return KafkaSource(self.bootstrap_servers, self.settings)


class Fold(NamedTuple):
    """One step from events to results: the batches after `since` up to `upto`."""

    tables: ActivityTables
    source: Source
    events: DataFrame
    """All of the job's, up to `upto`."""
    files: tuple[EventFile, ...]
    """Where they lie."""
    since: int
    upto: int
    watermark_us: int | None
    """What is older can change no more."""

    def on_time(self) -> DataFrame:
        """What results are made of."""
        return self.events.where(F.col("lane") == Lane.ON_TIME.value)

    def reach(self, lane: Lane = Lane.ON_TIME) -> Reach | None:
        """The batches' times, or a little more where files were put together; None without an event."""
        return reach_of(file for file in self.files if file.lane == lane and file.last_batch > self.since)

    @property
    def newest_before_us(self) -> int | None:
        """The newest event of the batches before."""
        known = reach_of(file for file in self.files if file.first_batch <= self.since)
        return None if known is None else known.last_us

    def fresh(self, lane: Lane = Lane.ON_TIME) -> DataFrame:
        """The events of these batches."""
        return self.events.where((F.col("lane") == lane.value) & (F.col("batch") > self.since))


class Output(NamedTuple):
    """A table of results and how it follows from events."""

    table: str
    fold: Callable[[Fold, str], None]
    """Folds a step into the table of that name."""


class Job(NamedTuple):
    """A stream of activity and what is made of it."""

    name: str
    kinds: tuple[Kind, ...]
    waits_for: timedelta
    """How late an event may be behind the newest one."""
    outputs: tuple[Output, ...]
    every_s: float
    """Between batches, unless one takes longer."""
    fold_every_s: float
    """0: with every batch, for what somebody waits for."""

    @property
    def events_table(self) -> str:
        """Where its events lie."""
        return f"{self.name}_events"

    @property
    def dead_letters_table(self) -> str:
        """What could not be read."""
        return f"{self.name}_dead_letters"


class Intake:
    """One job of one instance, running in a session."""

    def __init__(
        self, spark: SparkSession, source: Source, layout: PipelineLayout, job: Job, progress: Progress
    ) -> None:
        self.job = job
        self.error: Exception | None = None
        """What stopped a batch, before Spark wraps it."""
        self._spark, self._source, self._layout, self._progress = spark, source, layout, progress
        self._tables = ActivityTables(spark, layout, source.instance_id)
        self._newest_us: int | None = None
        """The newest time of all batches up to the last one; read from the table before the first."""
        self._newest_is_known = False
        self._base = 0
        self._last = -1
        self._folded_at = time.monotonic()
        self._counts: dict[str, int] = {}
        self._folding = threading.Lock()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Be the only run of this job on this instance."""
        with table_lease(self._tables.root / "leases" / self.job.name, f"a run of activity {self.job.name}"):
            yield

    @property
    def query_name(self) -> str:
        """Unique in a session."""
        return f"activity-{self.job.name}-{self._source.instance_id}"

    @property
    def counts(self) -> dict[str, int]:
        """Totals of this run."""
        return dict(self._counts)

    def start(self, *, available_now: bool) -> StreamingQuery:
        """Go on where the last run ended. Raises: PipelineError where a topic is missing."""
        checkpoint = self._checkpoint()
        names = [kind.topic for kind in self.job.kinds]
        client = {**CLIENT_SETTINGS, **self._source.settings}
        options = {f"kafka.{name}": value for name, value in client.items()}
        records = (
            self._spark.readStream.format("kafka")
            .options(**options)
            .option("kafka.bootstrap.servers", self._source.bootstrap_servers)
            .option("subscribe", ",".join(names))
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", _OFFSETS_PER_BATCH)
            .option("failOnDataLoss", "true")
            .option("kafkaConsumer.pollTimeoutMs", POLL_TIMEOUT_MS)
            .load()
        )
        self._last = self._tables.folded(self.job.events_table, WRITER)
        writer = records.writeStream.queryName(self.query_name).foreachBatch(self._batch)
        writer = writer.option("checkpointLocation", str(checkpoint / "spark"))
        if available_now:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{int(self.job.every_s * 1000)} milliseconds").start()

    def _checkpoint(self) -> Path:
        """The checkpoint of these topics, with the number that its first batch has in the table of events."""
        names = [kind.topic for kind in self.job.kinds]
        found = SourceOffsets(self._source.kafka).topics(names)
        if missing := [name for name in names if name not in found]:
            raise PipelineError(
                f"the instance has no topic {missing[0]}: `portico pipeline activity generate` makes it"
            )
        ids = "-".join(found[name].id for name in names)
        path = self._layout.checkpoint(f"activity/{self._source.instance_id}/{self.job.name}/{ids}")
        first = path / _FIRST_BATCH
        if not first.exists():
            path.mkdir(parents=True, exist_ok=True)
            fresh = path / f"{_FIRST_BATCH}.new"
            fresh.write_text(str(self._tables.folded(self.job.events_table, WRITER) + 1))
            fresh.replace(first)
        elif (path / "spark" / "commits").exists() and not self._tables.exists(self.job.events_table):
            raise PipelineError(
                f"{self._tables.path(self.job.events_table)} is gone but the positions in {path} are not: "
                "remove that folder, too, to read the topics from their beginning"
            )
        self._base = int(first.read_text())
        return path

    def _know_newest_before(self, batch: int) -> None:
        if not self._newest_is_known:
            files = self._tables.event_files(self.job.events_table)
            known = reach_of(file for file in files if file.first_batch < batch)
            self._newest_us = None if known is None else known.last_us
        self._newest_is_known = True

    def _batch(self, records: DataFrame, number: int) -> None:
        try:
            self._take_in(records, self._base + number)
            if time.monotonic() - self._folded_at >= self.job.fold_every_s:
                self.fold()
        except Exception as error:
            self.error = error
            raise

    def _take_in(self, records: DataFrame, batch: int) -> None:
        """Batch `batch` of the table: once, however often Spark repeats it."""
        tables, table = self._tables, self.job.events_table
        # A first look for the first of equal rows before the shuffle costs a sort and finds next to none.
        records.sparkSession.conf.set("spark.sql.optimizer.windowGroupLimitThreshold", "-1")
        self._know_newest_before(batch)
        if tables.folded(table, WRITER) < batch:
            watermark_us = watermark_of(self._newest_us, self.job.waits_for)
            found = with_lanes(events(records, self.job.kinds), watermark_us)
            fresh = unseen(found, tables.read(table), watermark_us).withColumn(
                "batch", F.lit(batch).cast("long")
            )
            tables.append(table, fresh, WRITER, batch, ("lane",))
        self._last = batch
        self._count(batch)

    def _count(self, batch: int) -> None:
        for file in self._tables.event_files(self.job.events_table):
            if file.last_batch == batch:
                name = _COUNTED[Lane(file.lane)]
                self._counts[name] = self._counts.get(name, 0) + file.rows
                if file.last_us is not None and (self._newest_us is None or file.last_us > self._newest_us):
                    self._newest_us = file.last_us
        self._progress.figures(**self._counts)

    def fold(self) -> None:
        """Bring every result up to the last batch."""
        with self._folding:
            stored = self._tables.read(self.job.events_table)
            if stored is None:
                return
            self._know_newest_before(self._last + 1)
            watermark_us = watermark_of(self._newest_us, self.job.waits_for)
            files = tuple(self._tables.event_files(self.job.events_table))
            for output in (*self.job.outputs, Output(self.job.dead_letters_table, dead_letters)):
                since = self._tables.folded(output.table, output.table)
                if since < self._last:
                    known = stored.where(F.col("batch") <= self._last)
                    step = Fold(self._tables, self._source, known, files, since, self._last, watermark_us)
                    output.fold(step, output.table)
            self._folded_at = time.monotonic()

    def compact(self) -> None:
        """Rewrite what many small batches left behind."""
        for table in (self.job.events_table, *(output.table for output in self.job.outputs)):
            self._tables.compact(table)


def dead_letters(step: Fold, table: str) -> None:
    """Records that are no events, with where they came from and what is wrong."""
    if any(file.lane == Lane.DEAD and file.last_batch > step.since for file in step.files):
        step.tables.append(table, step.fresh(Lane.DEAD).select(*_DEAD), table, step.upto)

"""A job's topics into its table of events with Structured Streaming, exactly once, and on into its results.

One query per job, one pass over its topics. A batch becomes one append to the table of events; results are
folded from events by batch number, so they may lag and catch up, and a crash between two writes costs
nothing. State lives in these tables alone: Spark's checkpoint holds offsets. It is keyed by topic ids, and a
fresh one goes on counting batches where the table ended. Why state is not in the query: docs/adr/0097.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

from pipeline.activity.events import Kind, Lane, events, unseen, with_lanes
from pipeline.activity.tables import MINUTE, ActivityTables, EventFile, Span, span_of_files, us_of
from pipeline.errors import PipelineError
from pipeline.ingest.kafka import CLIENT_SETTINGS, POLL_TIMEOUT_MS
from pipeline.ingest.lease import LEASE_S, IsOurs, table_lease
from pipeline.ingest.offsets import KafkaSource, SourceOffsets
from pipeline.layout import PipelineLayout
from pipeline.progress import Progress
from pipeline.store import AnyPath, spark_url
from pipeline.streams import brief

WRITER: Final = "intake"
"""Of events; a table of results is its own."""
_OFFSETS_PER_BATCH: Final = 1_000_000
_FILES_MAX: Final = 200
"""Of events: with so many more, tables are tidied."""
_COUNTED: Final = {Lane.ON_TIME: "events", Lane.LATE: "late", Lane.DEAD: "dead_letters"}
_DEAD: Final = ("topic", "partition", "offset", "arrived", "error", "raw")


class Source(NamedTuple):
    """An instance as a tenant's client reaches it."""

    bootstrap_servers: str
    instance_id: str

    @property
    def kafka(self) -> KafkaSource:
        """For what asks it directly."""
        return KafkaSource(self.bootstrap_servers)

    def options(self, settings: Mapping[str, str]) -> dict[str, str]:
        """For Spark's source and sink."""
        named = {"bootstrap.servers": self.bootstrap_servers, **settings}
        return {f"kafka.{name}": value for name, value in named.items()}


class Fold(NamedTuple):
    """One step from events to a table of results: the batches after `since` up to `upto`."""

    table: str
    tables: ActivityTables
    source: Source
    events: DataFrame
    """All of the job's, up to `upto`."""
    files: list[EventFile]
    """Where they lie."""
    since: int
    upto: int
    watermark_us: int | None
    """What is older can change no more."""

    def on_time(self, within: Span) -> DataFrame:
        """Events that results are made of."""
        return self.events.where((F.col("lane") == Lane.ON_TIME.value) & F.expr(within.of("ts")))

    def fresh(self, lane: Lane = Lane.ON_TIME) -> DataFrame:
        """The events of these batches."""
        return self.events.where((F.col("lane") == lane.value) & (F.col("batch") > self.since))

    def touched(self, lane: Lane = Lane.ON_TIME) -> Span | None:
        """The batches' times in whole minutes, or a little more where files were put together."""
        span = span_of_files(
            file for file in self.files if file.lane == lane and file.last_batch > self.since
        )
        return None if span is None else span.widened(MINUTE)

    def known(self) -> DataFrame | None:
        """The results now; None before the first."""
        return self.tables.read(self.table)

    def replace(self, rows: DataFrame, where: str | None = None) -> None:
        """Put new results in place of those for which `where` holds, or of all."""
        self.tables.replace(self.table, rows, self.upto, where)

    def alert(self, rows: DataFrame, topic: str, *key: str) -> None:
        """Send rows as JSON, times in ms, at least once. Returns when all replicas acknowledged every one."""
        plain = {
            name: F.unix_millis(name).alias(f"{name}_ms") if of == "timestamp" else F.col(name)
            for name, of in rows.dtypes
        }
        of_key = F.concat_ws("/", *(plain[name].cast("string") for name in key))
        records = rows.select(of_key.alias("key"), F.to_json(F.struct(*plain.values())).alias("value"))
        output = records.write.format("kafka").options(**self.source.options({"acks": "all"}))
        output.option("topic", topic).mode("append").save()


class Output(NamedTuple):
    """A table of results and how it follows from events."""

    table: str
    fold: Callable[[Fold], None]


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


class Intake:
    """One job of one instance, running in a session."""

    def __init__(
        self, spark: SparkSession, source: Source, layout: PipelineLayout, job: Job, progress: Progress
    ) -> None:
        self.job = job
        self.error: Exception | None = None
        """What stopped a batch, before Spark wraps it."""
        self.counts: dict[str, int] = {}
        """Totals of this run."""
        self.query_name: Final = f"activity-{job.name}-{source.instance_id}"
        """Unique in a session."""
        self._spark, self._source, self._layout, self._progress = spark, source, layout, progress
        self._tables = ActivityTables(spark, layout, source.instance_id)
        self._outputs = (*job.outputs, Output(f"{job.name}_dead_letters", dead_letters))
        self._is_ours: IsOurs = lambda: False
        self._files: list[EventFile] = []
        self._tidied_files = 0
        self._last, self._base = -1, 0
        self._folded_at = time.monotonic()
        self._folding = threading.Lock()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Be the only run of this job on this instance."""
        leases = self._tables.root / "leases"
        with table_lease(leases / self.job.name, f"a run of activity {self.job.name}") as self._is_ours:
            yield

    def _must_hold(self) -> None:
        """Asked before each write, as Delta's own writer is for one driver only. Raises: PipelineError."""
        if not self._is_ours():
            raise PipelineError(
                f"activity {self.job.name} has not reached its store for {LEASE_S:.0f} s, and another run "
                "may have begun since: start it again"
            )

    def start(self, *, available_now: bool) -> StreamingQuery:
        """Go on where the last run ended. Raises: PipelineError where a topic is missing."""
        self._files = self._tables.event_files(self.job.events_table)
        self._last = self._tables.folded(self.job.events_table, WRITER)
        checkpoint = self._checkpoint()
        records = (
            self._spark.readStream.format("kafka")
            .options(**self._source.options(CLIENT_SETTINGS))
            .option("subscribe", ",".join(kind.topic for kind in self.job.kinds))
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", _OFFSETS_PER_BATCH)
            .option("failOnDataLoss", "true")
            .option("kafkaConsumer.pollTimeoutMs", POLL_TIMEOUT_MS)
            .load()
        )
        writer = records.writeStream.queryName(self.query_name).foreachBatch(self._batch)
        writer = writer.option("checkpointLocation", checkpoint)
        if available_now:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{int(self.job.every_s * 1000)} milliseconds").start()

    def _checkpoint(self) -> str:
        """The checkpoint of these topics, named by the number that its first batch has in the table."""
        names = [kind.topic for kind in self.job.kinds]
        found = SourceOffsets(self._source.kafka).topics(names)
        if missing := [name for name in names if name not in found]:
            raise PipelineError(
                f"the instance has no topic {missing[0]}: `portico pipeline activity generate` makes it"
            )
        ids = "-".join(found[name].id for name in names)
        of_topics = self._layout.checkpoint(f"activity/{self._source.instance_id}/{self.job.name}/{ids}")
        self._base = max(_numbers_in(of_topics), default=self._last + 1)
        path = of_topics / str(self._base)
        if _numbers_in(path / "commits") and self._last < 0:
            raise PipelineError(
                f"{self._tables.path(self.job.events_table)} is gone but the positions in {of_topics} are "
                "not: remove that folder, too, to read the topics from their beginning"
            )
        path.mkdir(parents=True, exist_ok=True)
        return spark_url(path)

    def _batch(self, records: DataFrame, number: int) -> None:
        try:
            self._take_in(records, self._base + number)
            if time.monotonic() - self._folded_at >= self.job.fold_every_s:
                self.fold()
                self.tidy()
        except Exception as error:  # noqa: BLE001 - Spark stops the query
            self.error = error
            raise brief(error) from None

    def _take_in(self, records: DataFrame, batch: int) -> None:
        """Batch `batch` of the table: once, however often Spark repeats it."""
        # A first look for the first of equal rows before the shuffle costs a sort and finds next to none.
        records.sparkSession.conf.set("spark.sql.optimizer.windowGroupLimitThreshold", "-1")
        tables, table = self._tables, self.job.events_table
        if self._last < batch:
            self._must_hold()
            watermark_us = self._watermark_us()
            found = with_lanes(events(records, self.job.kinds), watermark_us)
            fresh = unseen(found, tables.read(table), watermark_us)
            tables.append(table, fresh.withColumn("batch", F.lit(batch).cast("long")), WRITER, batch, "lane")
            self._files, self._last = tables.event_files(table), batch
        for file in self._files:
            if file.last_batch == batch:
                name = _COUNTED[Lane(file.lane)]
                self.counts[name] = self.counts.get(name, 0) + file.rows
        self._progress.figures(**self.counts)

    def _watermark_us(self) -> int | None:
        """The newest event of all batches, less what is waited for: what is older is late."""
        span = span_of_files(self._files)
        return None if span is None else span.until_us - 1 - us_of(self.job.waits_for)

    def fold(self) -> None:
        """Bring every result up to the last batch."""
        with self._folding:
            stored = self._tables.read(self.job.events_table)
            if stored is None:
                return
            last, known = self._last, stored.where(F.col("batch") <= self._last)
            files, watermark_us = self._files, self._watermark_us()
            for table, fold in self._outputs:
                since = self._tables.folded(table, table)
                if since < last:
                    self._must_hold()
                    fold(Fold(table, self._tables, self._source, known, files, since, last, watermark_us))
            self._folded_at = time.monotonic()

    def tidy(self) -> None:
        """Rewrite what many small batches left behind, once all of it is folded: a file's span is looked at
        again as long as it has events that are not."""
        if len(self._files) > self._tidied_files + _FILES_MAX:
            for table in (self.job.events_table, *(output.table for output in self._outputs)):
                self._tables.tidy(table)
            self._files = self._tables.event_files(self.job.events_table)
            self._tidied_files = len(self._files)


def _numbers_in(folder: AnyPath) -> list[int]:
    """Names that are numbers: Spark makes folders, and files that check others, before there is anything."""
    return [int(each.name) for each in folder.iterdir() if each.name.isdigit()] if folder.is_dir() else []


def dead_letters(step: Fold) -> None:
    """Records that are no events, with where they came from and what is wrong."""
    if any(file.lane == Lane.DEAD and file.last_batch > step.since for file in step.files):
        step.tables.append(step.table, step.fresh(Lane.DEAD).select(*_DEAD), step.table, step.upto)

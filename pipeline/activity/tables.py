"""Delta tables of results: appended to once per batch, or with a range of rows replaced."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from pipeline.layout import PipelineLayout
from pipeline.store import AnyPath, spark_url

MINUTE: Final = timedelta(minutes=1)
DAY: Final = timedelta(days=1)
_SETTINGS: Final = {
    "spark.databricks.delta.optimize.minFileSize": str(64 * 1024 * 1024),
    "spark.databricks.delta.optimize.maxFileSize": str(128 * 1024 * 1024),
}
"""Files of this size are not rewritten again, however long a run adds small ones."""
_TABLE: Final = {
    "delta.logRetentionDuration": "interval 1 days",
    "delta.deletedFileRetentionDuration": "interval 1 hours",
}
"""Batches by the second make more versions than anybody goes back to."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def us_of(length: timedelta) -> int:
    """A length of time in microseconds."""
    return length // timedelta(microseconds=1)


def at(moment_us: int) -> str:
    """A moment since 1970 as SQL: free of anybody's time zone."""
    return f"timestamp_micros({moment_us})"


class Span(NamedTuple):
    """A range of time in microseconds since 1970, its end not included."""

    first_us: int
    until_us: int

    def of(self, column: str) -> str:
        """That a column lies in it, as SQL."""
        return f"{column} >= {at(self.first_us)} and {column} < {at(self.until_us)}"

    def widened(self, length: timedelta) -> "Span":
        """To whole windows of a length."""
        size = us_of(length)
        return Span(
            self.first_us - self.first_us % size, self.until_us - 1 - (self.until_us - 1) % size + size
        )


def span_of(rows: DataFrame, column: str) -> Span | None:
    """From the first moment in a column to the last; None without rows."""
    moment = F.unix_micros(column)
    [row] = rows.agg(F.min(moment).alias("first"), F.max(moment).alias("last")).collect()
    return None if row.first is None else Span(row.first, row.last + 1)


class EventFile(NamedTuple):
    """What a table of events knows of one of its files without reading it."""

    lane: str
    first_batch: int
    last_batch: int
    rows: int
    span: Span | None
    """Of its events; None where there are none."""


def span_of_files(files: Iterable[EventFile]) -> Span | None:
    """From the first event to the last; None where they hold no event."""
    spans = [file.span for file in files if file.span is not None]
    if not spans:
        return None
    return Span(min(span.first_us for span in spans), max(span.until_us for span in spans))


class ActivityTables:
    """The tables of one instance's activity.

    Every write carries the number of the last batch that is in it (`txnVersion`): Delta leaves out a write
    whose number it has, so a batch that is repeated after a crash changes nothing.
    """

    def __init__(self, spark: SparkSession, layout: PipelineLayout, instance_id: str) -> None:
        self._spark = spark
        for name, value in _SETTINGS.items():
            spark.conf.set(name, value)
        self.root = layout.activity(instance_id)

    def path(self, name: str) -> AnyPath:
        """Where a table lies."""
        return self.root / name

    def exists(self, name: str) -> bool:
        """Whether it was ever written."""
        return bool(DeltaTable.is_deltatable(str(self.path(name))))

    def read(self, name: str) -> DataFrame | None:
        """The table now; None before its first write."""
        if not self.exists(name):
            return None
        return self._spark.read.format("delta").load(spark_url(self.path(name)))

    def folded(self, name: str, writer: str) -> int:
        """The last batch that `writer` put into a table; -1 before the first."""
        version = DeltaTable(str(self.path(name))).transaction_version(writer) if self.exists(name) else None
        return -1 if version is None else int(version)

    def event_files(self, name: str) -> list[EventFile]:
        """The files of a table of events, from the statistics in its log."""
        if not self.exists(name):
            return []
        actions = pa.table(DeltaTable(str(self.path(name))).get_add_actions(flatten=True)).to_pylist()
        return [
            EventFile(
                file["partition.lane"],
                file["min.batch"],
                file["max.batch"],
                file["num_records"],
                _span(file.get("min.ts"), file.get("max.ts")),
            )
            for file in actions
            if file["num_records"]
        ]

    def append(self, name: str, rows: DataFrame, writer: str, batch: int, *partition_by: str) -> None:
        """Add the rows of a batch."""
        output = rows.write.format("delta").options(**_TABLE).mode("append").partitionBy(*partition_by)
        output.option("txnAppId", writer).option("txnVersion", str(batch)).save(spark_url(self.path(name)))

    def replace(self, name: str, rows: DataFrame, batch: int, where: str | None = None) -> None:
        """Put rows in place of those for which `where` holds, or of all; it must hold for the new ones."""
        output = rows.write.format("delta").options(**_TABLE).mode("overwrite")
        if where is not None and self.exists(name):
            output = output.option("replaceWhere", where)
        output.option("txnAppId", name).option("txnVersion", str(batch)).save(spark_url(self.path(name)))

    def tidy(self, name: str) -> None:
        """Make few files of small ones, and delete what nobody has read for an hour."""
        if self.exists(name):
            self._spark.sql(f"OPTIMIZE delta.`{spark_url(self.path(name))}`").collect()
            DeltaTable(str(self.path(name))).vacuum(dry_run=False)


def _span(first: datetime | None, last: datetime | None) -> Span | None:
    if first is None or last is None:
        return None
    return Span(us_of(first - _EPOCH), us_of(last - _EPOCH) + 1)

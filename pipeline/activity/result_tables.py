"""Delta tables of results: appended to once per batch, or with a range of rows replaced."""

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from pipeline.activity.ranges import us_of
from pipeline.layout import PipelineLayout

_FILES_MAX: Final = 200
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class EventFile(NamedTuple):
    """What a table of events knows of one of its files without reading it. Times are null without events."""

    lane: str
    first_batch: int
    last_batch: int
    rows: int
    first_us: int | None
    last_us: int | None


class Reach(NamedTuple):
    """How many rows, and the first and last moment among them."""

    rows: int
    first_us: int
    last_us: int


def reach_of(files: Iterable[EventFile]) -> Reach | None:
    """The reach of files together; None where they hold no event."""
    timed = [file for file in files if file.first_us is not None and file.last_us is not None]
    if not timed:
        return None
    return Reach(
        sum(file.rows for file in timed),
        min(file.first_us for file in timed if file.first_us is not None),
        max(file.last_us for file in timed if file.last_us is not None),
    )


class ActivityTables:
    """The tables of one instance's activity.

    Every write carries the number of the last batch that is in it (`txnVersion`): Delta leaves out a write
    whose number it has, so a batch that is repeated after a crash changes nothing.
    """

    def __init__(self, spark: SparkSession, layout: PipelineLayout, instance_id: str) -> None:
        self.spark = spark
        self.root = layout.root / "activity" / instance_id

    def path(self, name: str) -> Path:
        """Where a table lies."""
        return self.root / name

    def exists(self, name: str) -> bool:
        """Whether it was ever written."""
        return bool(DeltaTable.is_deltatable(str(self.path(name))))

    def read(self, name: str) -> DataFrame | None:
        """The table now; None before its first write."""
        if not self.exists(name):
            return None
        return self.spark.read.format("delta").load(str(self.path(name)))

    def folded(self, name: str, writer: str) -> int:
        """The last batch that `writer` put into a table; -1 before the first."""
        if not self.exists(name):
            return -1
        version = DeltaTable(str(self.path(name))).transaction_version(writer)
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
                _us(file.get("min.ts")),
                _us(file.get("max.ts")),
            )
            for file in actions
            if file["num_records"]
        ]

    def append(
        self, name: str, rows: DataFrame, writer: str, batch: int, partition_by: tuple[str, ...] = ()
    ) -> None:
        """Add the rows of a batch."""
        self._write(name, rows, writer, batch, "append", partition_by, None)

    def replace(self, name: str, rows: DataFrame, writer: str, batch: int, where: str | None = None) -> None:
        """Put rows in place of those for which `where` holds, or of all; it must hold for the new ones."""
        self._write(name, rows, writer, batch, "overwrite", (), where if self.exists(name) else None)

    def _write(
        self,
        name: str,
        rows: DataFrame,
        writer: str,
        batch: int,
        mode: str,
        partition_by: tuple[str, ...],
        where: str | None,
    ) -> None:
        output = rows.write.format("delta").mode(mode)
        output = output.option("txnAppId", writer).option("txnVersion", str(batch))
        if where is not None:
            output = output.option("replaceWhere", where)
        if partition_by:
            output = output.partitionBy(*partition_by)
        output.save(str(self.path(name)))

    def compact(self, name: str) -> None:
        """Rewrite small files as few, when there are many."""
        if self.exists(name) and len(DeltaTable(str(self.path(name))).file_uris()) > _FILES_MAX:
            self.spark.sql(f"OPTIMIZE delta.`{self.path(name)}`").collect()


def _us(moment: Any) -> int | None:
    if not isinstance(moment, datetime):
        return None
    return us_of(moment - _EPOCH)

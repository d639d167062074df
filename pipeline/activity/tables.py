"""Delta tables of results: appended to once per batch, or with a range of rows replaced."""

from pathlib import Path
from typing import Final

from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from pipeline.layout import PipelineLayout

_FILES_MAX: Final = 200


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
        return (self.path(name) / "_delta_log").exists()

    def read(self, name: str) -> DataFrame | None:
        """As it is now; None before its first write."""
        if not self.exists(name):
            return None
        return self.spark.read.format("delta").load(str(self.path(name)))

    def folded(self, name: str, writer: str) -> int:
        """The last batch that `writer` put into a table; -1 before the first."""
        if not self.exists(name):
            return -1
        version = DeltaTable(str(self.path(name))).transaction_version(writer)
        return -1 if version is None else int(version)

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

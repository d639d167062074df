"""Where the pipeline keeps what: below the stack's data directory, and a lake where its URL says."""

from pathlib import Path
from typing import TYPE_CHECKING

from contracts.pipeline import PIPELINE_DIR, TABLES_DIR

if TYPE_CHECKING:
    from pipeline.store import AnyPath


class PipelineLayout:
    """Paths of tables, checkpoints and scratch files."""

    def __init__(self, data_dir: Path, lake: "AnyPath | None" = None, *, is_spark_here: bool = True) -> None:
        """`lake`: where its tables are, unless beside the others."""
        self.root = data_dir / PIPELINE_DIR
        self.lake_root: AnyPath = self.root if lake is None else lake
        self._is_spark_here = is_spark_here

    def table(self, name: str) -> Path:
        """A table of our own, such as `usage_5m`: the console reads them by these names."""
        return self.root / TABLES_DIR / name

    def lake(self, instance_id: str, topic: str, topic_id: str) -> "AnyPath":
        """What was loaded of a topic; one that is deleted and made again has another id and table."""
        return self.lake_root / "lake" / instance_id / f"{topic}-{topic_id}"

    def derived(self, instance_id: str, topic: str, topic_id: str, kind: str) -> "AnyPath":
        """A table made from a lake table: `decoded`, `dead_letters` and so on."""
        return self.lake_root / kind / instance_id / f"{topic}-{topic_id}"

    def activity(self, instance_id: str) -> "AnyPath":
        """The tables of an instance's activity."""
        return self.lake_root / "activity" / instance_id

    def about_lake(self, name: str) -> "AnyPath":
        """A table about lake tables, such as `lake_audit`: it goes where they go."""
        return self.lake_root / TABLES_DIR / name

    @property
    def is_elsewhere(self) -> bool:
        """Whether tables are on a disk here and are written on other machines, which may not have it."""
        return isinstance(self.lake_root, Path) and not self._is_spark_here

    @property
    def iceberg_catalog(self) -> Path:
        """Names of lake tables for Iceberg's readers, where no other catalog is named."""
        return self.root / "iceberg" / "catalog.db"

    def checkpoint(self, query: str) -> "AnyPath":
        """A streaming query's checkpoint, beside the tables that its positions are for."""
        return self.lake_root / "checkpoints" / query

    @property
    def reports(self) -> Path:
        """Pictures and reports for people."""
        return self.root / "reports"

    @property
    def scratch(self) -> Path:
        """Spark's own temporary files."""
        return self.root / "scratch"

    @property
    def staging(self) -> Path:
        """Files of batches that are not committed yet and that this process writes; beside `tables`, to be
        moved into them.
        """
        return self.root / "staging"

    @property
    def lake_staging_here(self) -> Path:
        """The same for lake tables; what goes into a store is written on this machine's disk."""
        return (self.lake_root if isinstance(self.lake_root, Path) else self.root) / "staging"

    @property
    def lake_staging(self) -> "AnyPath":
        """The same for what Spark's tasks write: those of a cluster write to the store themselves."""
        return self.lake_staging_here if self._is_spark_here else self.lake_root / "staging"

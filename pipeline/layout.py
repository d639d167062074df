"""Where the pipeline keeps what, below the stack's data directory."""

from pathlib import Path

from contracts.pipeline import PIPELINE_DIR, TABLES_DIR


class PipelineLayout:
    """Paths of tables, checkpoints and scratch files."""

    def __init__(self, data_dir: Path) -> None:
        self.root = data_dir / PIPELINE_DIR

    def table(self, name: str) -> Path:
        """A table of our own, such as `usage_5m`: the console reads them by these names."""
        return self.root / TABLES_DIR / name

    def lake(self, instance_id: str, topic: str, topic_id: str) -> Path:
        """What was loaded of a topic; one that is deleted and made again has another id and table."""
        return self.root / "lake" / instance_id / f"{topic}-{topic_id}"

    def derived(self, instance_id: str, topic: str, topic_id: str, kind: str) -> Path:
        """A table made from a lake table: `decoded`, `dead_letters` and so on."""
        return self.root / kind / instance_id / f"{topic}-{topic_id}"

    def checkpoint(self, query: str) -> Path:
        """A streaming query's checkpoint."""
        return self.root / "checkpoints" / query

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
        """Files of batches that are not committed yet; on the tables' file system, to be moved into them."""
        return self.root / "staging"

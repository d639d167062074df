"""Tables of metering: made when there is none, read as one version, replaced in part by one commit."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.dataset
from deltalake import CommitProperties, DeltaTable, Schema, write_deltalake

from pipeline.ingest.lease import table_lease
from pipeline.table_rows import dataset

_CONFIGURATION: Final = {
    "delta.enableDeletionVectors": "false",  # not every reader of Delta tables knows them
    "delta.checkpointInterval": "20",
}

REMOVED_APP: Final = "tidied"
"""Delta's `txn` name of the mark (epoch ms) before which rows of `usage_raw` are gone, as partition 0."""
_SAID_AT_ONCE: Final = 50
"""Commits that are read at first: who asks mostly wants the newest."""


class Table:
    """One Delta table by its path."""

    def __init__(
        self, path: Path, schema: pa.Schema, partition_by: str | None = None, history_days: int = 30
    ) -> None:
        self.path = path
        self.schema = schema
        self.partition_by = partition_by
        self._history_days = history_days

    def exists(self) -> bool:
        """Whether it was ever written."""
        return bool(DeltaTable.is_deltatable(str(self.path)))

    def ensure(self) -> None:
        """Make it, empty, where there is none."""
        if not self.exists():
            self.path.mkdir(parents=True, exist_ok=True)
            DeltaTable.create(
                str(self.path),
                Schema.from_arrow(self.schema),
                mode="ignore",
                partition_by=[self.partition_by] if self.partition_by else [],
                configuration=_CONFIGURATION
                | {"delta.logRetentionDuration": f"interval {self._history_days} days"},
            )

    def version(self) -> int:
        """The newest one; -1 where there is no table."""
        return int(DeltaTable(str(self.path)).version()) if self.exists() else -1

    def dataset(self, version: int | None = None) -> pyarrow.dataset.Dataset:
        """Rows of one version without Spark; the newest one is chosen now."""
        return dataset(DeltaTable(str(self.path), version=version))

    def rows_by_partition(self) -> dict[str, int]:
        """How many rows the newest version has in each of its partitions, as its files say."""
        return {value: sum(rows) for value, rows in self._files().items()}

    def files_by_partition(self) -> dict[str, int]:
        """How many files those are."""
        return {value: len(rows) for value, rows in self._files().items()}

    def _files(self) -> dict[str, list[int]]:
        """Rows of each file."""
        found: dict[str, list[int]] = {}
        for file in pa.table(DeltaTable(str(self.path)).get_add_actions(flatten=True)).to_pylist():
            found.setdefault(str(file[f"partition.{self.partition_by}"]), []).append(file["num_records"] or 0)
        return found

    def replace(self, rows: pa.Table, where: str, said: msgspec.Struct) -> None:
        """In one commit take out what `where` holds for and put in `rows`, for all of which it must hold.

        Written here and not by Spark: a commit of few rows is then a matter of milliseconds.
        """
        text = msgspec.json.encode(said).decode()
        write_deltalake(
            DeltaTable(str(self.path)),
            rows.select(self.schema.names).cast(self.schema),
            mode="overwrite",
            predicate=where,
            commit_properties=CommitProperties(custom_metadata={"userMetadata": text}),
        )

    def said(self) -> Iterator[tuple[int, Any]]:
        """(version, what its commit said: a dict, or None), newest first, as far as the log goes back."""
        if not self.exists():
            return
        table = DeltaTable(str(self.path))
        seen, limit = 0, _SAID_AT_ONCE
        while True:
            entries = table.history(limit)
            for entry in entries[seen:]:
                yield int(entry["version"]), _document(entry.get("userMetadata"))
            if len(entries) < limit:
                return
            seen, limit = len(entries), limit * 10

    def tidy(self, keep_versions: Iterable[int] = (), retention_h: int = 24) -> int:
        """Delete files that only old versions have, except these versions; how many."""
        gone = DeltaTable(str(self.path)).vacuum(
            retention_h,
            dry_run=False,
            enforce_retention_duration=False,
            full=True,
            keep_versions=sorted(set(keep_versions)),
        )
        return len(gone)


def removed_before_ms(raw: Table) -> int:
    """The mark of `usage_raw`; 0 before the first removal."""
    found = DeltaTable(str(raw.path)).transaction_version(f"{REMOVED_APP}/0")
    return 0 if found is None else int(found)


def _document(text: str | None) -> Any:
    if not text:
        return None
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None


@contextmanager
def leases(tables: Iterable[Table], holder: str) -> Iterator[None]:
    """Hold several tables. Raises: PipelineError naming who has one of them."""
    with ExitStack() as held:
        for table in tables:
            held.enter_context(table_lease(table.path, holder))
        yield

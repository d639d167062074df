"""One table version that holds a batch's rows, its number, its offset ranges and the positions after it.

Positions and batch numbers are Delta's `txn` actions: a map from names to numbers that every checkpoint of
the log carries on, so they are found without reading history, and that a commit conflicts on. `lake/<topic
id>` is the number of the last batch, `lake/<topic id>/3` the next offset of partition 3 and
`lake/<topic id>/3/first` the first one that was ever planned. Ranges and counts are a JSON document in
`userMetadata`, for people and for the audit.
"""

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from typing import Any, Final, NamedTuple, Self

import msgspec
import pyarrow as pa
import pyarrow.dataset
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction
from obstore.exceptions import BaseError

from pipeline.errors import PipelineError
from pipeline.ingest.ranges import PartitionRange
from pipeline.ingest.staging import StagedFile, move_into
from pipeline.ingest.transactions import Transactions
from pipeline.store import AnyPath, store_fault
from pipeline.table_rows import dataset

_CONFIGURATION: Final = {
    "delta.enableDeletionVectors": "false",  # not every reader of Delta tables knows them
    "delta.checkpointInterval": "20",
}


class BatchDocument(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a commit says of its batch."""

    app: str
    """Whose positions these are: the table's loader, or a backfill with positions of its own."""
    batch: int
    """Counts from 0 without a hole."""
    job: str
    """`load`, `meter` ... and its version, so that rows can be traced to what made them."""
    job_version: str
    topic: str = ""
    topic_id: str = ""
    ranges: tuple[PartitionRange, ...] = ()
    """`[partition, start, end]`."""
    gaps: tuple[PartitionRange, ...] = ()
    """Lost before they were loaded, and passed over because the user said so."""
    begins: tuple[PartitionRange, ...] = ()
    """Said by the app's first commit: `beginnings` of all partitions that the topic had then."""
    rows: int = 0
    bytes: int = 0
    """Bytes of the rows, before compression."""
    file_bytes: int = 0
    timestamp_min: str | None = None
    timestamp_max: str | None = None
    figures: dict[str, int] = {}
    """What else the job counts: `quarantined`, `dead_letters` ..."""

    def counted(self, files: Iterable[StagedFile], time_column: str | None = None) -> Self:
        """With rows, bytes and times as the files have them."""
        found = list(files)
        times = [stats for file in found for name, stats in file.columns.items() if name == time_column]
        lows = [one.low for one in times if one.low is not None]
        highs = [one.high for one in times if one.high is not None]
        return msgspec.structs.replace(
            self,
            rows=sum(file.rows for file in found),
            bytes=sum(file.data_bytes for file in found),
            file_bytes=sum(file.size_bytes for file in found),
            timestamp_min=_plain(min(lows)) if lows else None,
            timestamp_max=_plain(max(highs)) if highs else None,
        )


class TableSpec(NamedTuple):
    """How a table is made when there is none."""

    schema: pa.Schema
    partition_by: tuple[str, ...] = ()
    description: str = ""


class NoTableError(PipelineError):
    """There is none."""


class OvertakenError(PipelineError):
    """Somebody else has committed to the table since its positions were read. Nothing was written."""


class IngestTable:
    """A Delta table as it was when it was opened, or after our own last append.

    Invariant: an append continues exactly the positions of that version, or nothing is committed.
    """

    def __init__(self, path: AnyPath, table: DeltaTable) -> None:
        self.path = path
        self._table = table
        self._transactions = Transactions(path)

    @classmethod
    def find(cls, path: AnyPath, spec: TableSpec) -> Self | None:
        """Open a table; None where there is none. Raises: PipelineError where it is damaged."""
        try:
            with _opening(path):
                table = DeltaTable(str(path))
        except NoTableError:
            return None
        must_be_partitioned(table, spec.partition_by)
        return cls(path, table)

    @classmethod
    def open(cls, path: AnyPath, spec: TableSpec) -> Self:
        """Open a table; made where there is none. Raises: PipelineError where it is damaged."""
        if (found := cls.find(path, spec)) is not None:
            return found
        with _opening(path):
            path.mkdir(parents=True, exist_ok=True)
            table = DeltaTable.create(
                str(path),
                Schema.from_arrow(spec.schema),
                mode="ignore",
                partition_by=list(spec.partition_by),
                description=spec.description,
                configuration=_CONFIGURATION,
            )
        must_be_partitioned(table, spec.partition_by)
        return cls(path, table)

    def refresh(self) -> None:
        """To its newest version. Raises: PipelineError."""
        with _opening(self.path):
            self._table.update_incremental()

    @property
    def version(self) -> int:
        """Delta's."""
        return int(self._table.version())

    def batch(self, app: str) -> int:
        """The number of the app's last batch; -1 before its first. Raises: PipelineError, as all here."""
        return self.numbers({0: app}).get(0, -1)

    def positions(self, app: str, partitions: Iterable[int]) -> dict[int, int]:
        """Next offsets of those partitions that the app has loaded."""
        return self.numbers({each: f"{app}/{each}" for each in partitions})

    def first_offsets(self, app: str, partitions: Iterable[int]) -> dict[int, int]:
        """Where the app began: from there to its position every record is here, or in a document's gaps."""
        return self.numbers({each: f"{app}/{each}/first" for each in partitions})

    def numbers(self, names: Mapping[int, str]) -> dict[int, int]:
        """Of the table's `txn` actions, by what they are for; without those that there are not."""
        with _opening(self.path):
            told = self._transactions.at(self.version)
        return {each: told[name] for each, name in names.items() if name in told}

    def dataset(self) -> pyarrow.dataset.Dataset:
        """Its rows without Spark."""
        return dataset(self._table)

    def documents(self, limit: int | None = None) -> list[BatchDocument]:
        """Documents of the newest commits that the log still has, newest first; not other writers'."""
        with _opening(self.path):
            told = [entry.get("userMetadata") for entry in self._table.history(limit)]
        return [found for text in told if text and (found := _document(text)) is not None]

    def record_bytes(self) -> float | None:
        """The mean of the newest batch, None where that had no rows."""
        told = [one for one in self.documents(1) if one.rows]
        return max(1.0, told[0].bytes / told[0].rows) if told else None

    def append(
        self,
        files: Sequence[StagedFile],
        document: BatchDocument,
        *,
        replace_all: bool = False,
        replace_partitions: Sequence[tuple[str, str, Any]] = (),
    ) -> None:
        """Commit a batch. Files that no commit names, as after a crash here, are garbage for VACUUM.

        `replace_all` puts the batch in the place of all rows that the table had, `replace_partitions` in the
        place of those in some partitions, such as `("day", "in", ["2026-11-21"])`.
        Raises: OvertakenError; PipelineError where the table cannot be written. What became of the batch
        then is said by the table when it is opened again.
        """
        self._must_continue(document)
        now_ms = int(time.time() * 1000)
        actions = [add_action(move_into(self.path, file), file, now_ms) for file in files]
        transactions = [Transaction(*each) for each in self._numbers_after(document).items()]
        try:
            self._table.create_write_transaction(
                actions,
                mode="overwrite" if replace_all or replace_partitions else "append",
                schema=self._table.schema(),
                partition_by=self._table.metadata().partition_columns,
                partition_filters=[*replace_partitions] or None,
                commit_properties=CommitProperties(
                    custom_metadata={"userMetadata": msgspec.json.encode(document).decode()},
                    app_transactions=transactions,
                ),
            )
        except CommitFailedError as error:
            raise OvertakenError(
                f"another process has written table {self.path.name} meanwhile ({error}): this batch was "
                "not committed; start the job again"
            ) from error
        except (DeltaError, OSError) as error:
            raise PipelineError(f"table {self.path} cannot be written: {store_fault(error)}") from error
        self._table.update_incremental()

    def _must_continue(self, document: BatchDocument) -> None:
        """Our version's positions, so that an own commit between planning and this one is noticed as well."""
        starts = _starts(document)
        found = self.positions(document.app, starts)
        if self.batch(document.app) + 1 != document.batch or any(
            found.get(each, start) != start for each, start in starts.items()
        ):
            raise OvertakenError(
                f"table {self.path.name} is at batch {self.batch(document.app)} and {found}, which batch "
                f"{document.batch} from {starts} does not continue: start the job again"
            )

    def _numbers_after(self, document: BatchDocument) -> dict[str, int]:
        app, starts = document.app, _starts(document)
        known = self.positions(app, starts)
        numbers = {f"{app}/{each}/first": start for each, start in starts.items() if each not in known}
        for each in (*document.begins, *document.gaps, *document.ranges):
            numbers[f"{app}/{each.partition}"] = each.end
        return {app: document.batch} | numbers


@contextmanager
def _opening(path: AnyPath) -> Iterator[None]:
    try:
        yield
    except TableNotFoundError as error:
        raise NoTableError(f"table {path} is not there: {store_fault(error)}") from error
    except (DeltaError, OSError, BaseError) as error:
        raise PipelineError(f"table {path} cannot be opened: {store_fault(error)}") from error


def must_be_partitioned(table: DeltaTable, by: Sequence[str]) -> None:
    """Raises: PipelineError where another version or program made the table."""
    if (found := table.metadata().partition_columns) != [*by]:
        raise PipelineError(
            f"table {table.table_uri} is partitioned by {', '.join(found) or 'nothing'}, not by "
            f"{', '.join(by) or 'nothing'}, as this version does: nothing was changed and it can be read; "
            "move it away to have it made anew"
        )


def _starts(document: BatchDocument) -> dict[int, int]:
    """Where the document goes on from; a gap lies before its partition's range, a beginning before both."""
    return {each.partition: each.start for each in (*document.ranges, *document.gaps, *document.begins)}


def _document(text: str) -> BatchDocument | None:
    try:
        return msgspec.json.decode(text, type=BatchDocument)
    except msgspec.DecodeError:
        return None


def add_action(path: str, file: StagedFile, now_ms: int) -> AddAction:
    """The action by which a commit names a file that was moved into its table."""
    bounded = {name: one for name, one in file.columns.items() if one.low is not None}
    stats: Mapping[str, Any] = {
        "numRecords": file.rows,
        "minValues": {name: _plain(one.low) for name, one in bounded.items()},
        "maxValues": {name: _plain(one.high) for name, one in bounded.items()},
        "nullCount": {name: one.nulls for name, one in file.columns.items()},
    }
    return AddAction(path, file.size_bytes, file.partition_values, now_ms, True, json.dumps(stats))


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"  # the year 1 is 0001
    return value.isoformat() if isinstance(value, date) else value

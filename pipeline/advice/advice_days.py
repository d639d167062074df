"""Writes a day's advice: what was written for that day before is replaced in one commit."""

import datetime
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

from pipeline.errors import PipelineError

DAYS_KEPT: Final = 35
_CONFIGURATION: Final = {"delta.enableDeletionVectors": "false", "delta.checkpointInterval": "20"}


def as_table(rows: Iterable[msgspec.Struct], schema: pa.Schema) -> pa.Table:
    """Rows of a contract as a table."""
    plain = [msgspec.to_builtins(row, builtin_types=(datetime.date,)) for row in rows]
    return pa.Table.from_pylist(plain, schema=schema)


def replace_day(path: Path, rows: pa.Table, run_date: datetime.date, instance_id: str | None = None) -> None:
    """Write the rows of a day, of all instances or one. Older days than are kept go.

    Raises: PipelineError when another run writes at the same time.
    """
    predicate = f"run_date = '{run_date.isoformat()}'"
    if instance_id is not None:
        assert instance_id.isalnum(), instance_id
        predicate += f" AND instance_id = '{instance_id}'"
    try:
        if not DeltaTable.is_deltatable(str(path)):
            DeltaTable.create(str(path), rows.schema, partition_by=["run_date"], configuration=_CONFIGURATION)
        write_deltalake(str(path), rows, mode="overwrite", predicate=predicate)
        _forget(DeltaTable(str(path)), run_date)
    except CommitFailedError as error:
        raise PipelineError(
            f"table {path.name} was written by another run at the same time: run advise again"
        ) from error


def _forget(table: DeltaTable, run_date: datetime.date) -> None:
    oldest = (run_date - datetime.timedelta(days=DAYS_KEPT)).isoformat()
    if any(partition["run_date"] < oldest for partition in table.partitions()):
        table.delete(f"run_date < '{oldest}'")
        table.vacuum(dry_run=False)

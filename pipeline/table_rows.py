"""Rows of a Delta table without Spark."""

from collections.abc import Sequence

import pyarrow as pa
from deltalake import DeltaTable
from pyarrow.fs import FileSystem, SubTreeFileSystem


def read_rows(
    table: DeltaTable,
    columns: list[str] | None = None,
    filters: Sequence[tuple[str, str, object]] | None = None,
) -> pa.Table:
    """Rows of the version that `table` is at; `filters` as pyarrow takes them, all of which must hold.

    Files are opened by Arrow. Those that deltalake opens by default are Python objects which Arrow's threads
    let go of: where that is while the interpreter ends, the process aborts after its work is done.
    """
    store, path = FileSystem.from_uri(table.table_uri.replace("s3a://", "s3://", 1))
    return table.to_pyarrow_table(
        columns=columns,
        filters=list(filters) if filters else None,
        filesystem=SubTreeFileSystem(path, store),
    )

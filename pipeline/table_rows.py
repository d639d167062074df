"""Rows of a Delta table without Spark."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.dataset
from deltalake import DeltaTable

from pipeline.store import arrow_files, of_text


def read_rows(
    table: DeltaTable,
    columns: list[str] | None = None,
    filters: Sequence[tuple[str, str, object]] | None = None,
) -> pa.Table:
    """Rows of the version that `table` is at; `filters` as pyarrow takes them, all of which must hold.

    Files are opened by Arrow. Those that deltalake opens by default are Python objects which Arrow's threads
    let go of: where that is while the interpreter ends, the process aborts after its work is done.
    """
    return table.to_pyarrow_table(
        columns=columns,
        filters=list(filters) if filters else None,
        filesystem=arrow_files(of_text(table.table_uri)),
    )


def dataset(table: DeltaTable) -> pyarrow.dataset.Dataset:
    """The same rows, of which a reader takes what it needs, for tables that are larger than memory."""
    return table.to_pyarrow_dataset(filesystem=arrow_files(of_text(table.table_uri)))

"""Rows of our own about lake tables, such as those of audits: few, and written without Spark."""

from collections.abc import Sequence
from datetime import datetime

import msgspec
import pyarrow as pa
from deltalake import write_deltalake
from deltalake.exceptions import DeltaError

from pipeline.errors import PipelineError
from pipeline.ingest.commits import IngestTable, TableSpec
from pipeline.ingest.lease import table_lease
from pipeline.layout import PipelineLayout
from pipeline.store import AnyPath, store_fault

_LEASE_WAIT_S = 60.0


def append_rows(
    layout: PipelineLayout,
    name: str,
    schema: pa.Schema,
    description: str,
    rows: Sequence[msgspec.Struct],
    job: str,
) -> AnyPath:
    """Append in one commit to the table `name`, made where there is none; returns its path.

    Raises: PipelineError.
    """
    path = layout.about_lake(name)
    with table_lease(path, f"portico pipeline {job}", wait_s=_LEASE_WAIT_S):
        known = IngestTable.open(path, TableSpec(schema, (), description)).dataset().schema.names
        if lacking := [each for each in schema.names if each not in known]:
            raise PipelineError(
                f"table {path} of an earlier version has no {', '.join(lacking)}: nothing was changed and "
                "it can be read; move it away to have it made anew"
            )
        plain = [msgspec.to_builtins(row, builtin_types=(datetime,)) for row in rows]
        try:
            write_deltalake(str(path), pa.Table.from_pylist(plain, schema), mode="append")
        except (DeltaError, OSError) as error:
            raise PipelineError(f"table {path} cannot be written: {store_fault(error)}") from error
    return path

"""Rows of our own about lake tables, such as those of audits: few, and written without Spark."""

import time
import uuid
from collections.abc import Sequence
from datetime import datetime

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.errors import PipelineError
from pipeline.ingest.commits import BatchDocument, IngestTable, TableSpec
from pipeline.ingest.lease import table_lease
from pipeline.ingest.staging import staged_file, staging_area
from pipeline.layout import PipelineLayout
from pipeline.store import AnyPath

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
    holder = f"portico pipeline {job}"
    with table_lease(path, holder, wait_s=_LEASE_WAIT_S), staging_area(layout.lake_staging_here) as area:
        table = IngestTable.open(path, TableSpec(schema, (), description))
        known = table.dataset().schema.names
        if lacking := [each for each in schema.names if each not in known]:
            raise PipelineError(
                f"table {path} of an earlier version has no {', '.join(lacking)}: nothing was changed and "
                "it can be read; move it away to have it made anew"
            )
        folder = area / "rows"
        folder.mkdir()
        file = folder / f"part-{time.time_ns()}-{uuid.uuid4().hex}.parquet"
        plain = [msgspec.to_builtins(row, builtin_types=(datetime,)) for row in rows]
        pq.write_table(pa.Table.from_pylist(plain, schema), file)
        files = [staged_file(file, folder)] if rows else []
        document = BatchDocument(app=name, batch=table.batch(name) + 1, job=job, job_version="1")
        table.append(files, document.counted(files))
    return path

"""What a lake table's log says of its batches, read without Spark."""

from typing import NamedTuple

import pyarrow as pa
from deltalake import DeltaTable

from pipeline.lake.decode_plan import spread
from pipeline.lake.tables import LakeTable


class LakeSizes(NamedTuple):
    """One version of a lake table."""

    version: int
    loads_end: int
    """Behind the last load's batch number."""
    backfills_end: int
    rows: dict[int, int]
    """About how many each ingest batch has."""


def lake_sizes(lake: LakeTable) -> LakeSizes:
    """As the table is now."""
    table = DeltaTable(str(lake.path))
    load, backfill = table.transaction_version(lake.load_app), table.transaction_version(lake.backfill_app)
    return LakeSizes(
        int(table.version()),
        0 if load is None else int(load) + 1,
        0 if backfill is None else int(backfill) + 1,
        spread(_batches(table)),
    )


def _batches(table: DeltaTable) -> list[tuple[int, int, int]]:
    files = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    return [
        (each["num_records"], each["min.ingest_batch"], each["max.ingest_batch"])
        for each in files
        if each.get("num_records") and each.get("min.ingest_batch") is not None
    ]


def row_count(table: DeltaTable) -> int:
    """Of all files, by their statistics; every writer of ours gives them."""
    files = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    return sum(each["num_records"] or 0 for each in files)

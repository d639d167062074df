"""What a lake table's log and files say of its batches, read without Spark."""

from typing import NamedTuple

from deltalake import DeltaTable

from pipeline.lake.decode.source import Slice, log_files, slices_of
from pipeline.lake.decode.steps import spread
from pipeline.lake.lake_tables import LakeTable
from pipeline.schema.lake import LAKE_PARTITION_BY


class LakeSource(NamedTuple):
    """One version of a lake table."""

    loads_end: int
    """Behind the last load's batch number."""
    backfills_end: int
    rows: dict[int, int]
    """About how many each ingest batch has."""
    slices: list[Slice]


def lake_source(lake: LakeTable) -> LakeSource:
    """The table now, as a source. Raises: PipelineError."""
    table = DeltaTable(str(lake.path))
    load, backfill = table.transaction_version(lake.load_app), table.transaction_version(lake.backfill_app)
    slices = slices_of(log_files(table), lake.path, LAKE_PARTITION_BY[0])
    return LakeSource(
        0 if load is None else int(load) + 1,
        0 if backfill is None else int(backfill) + 1,
        spread(
            (each.rows, each.low, each.high)
            for each in slices
            if each.low is not None and each.high is not None
        ),
        slices,
    )


def row_count(table: DeltaTable) -> int:
    """Rows of all files, by their statistics; every writer of ours gives them."""
    return sum(each["num_records"] or 0 for each in log_files(table))

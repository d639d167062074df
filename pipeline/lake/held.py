"""The offsets that a lake table holds, read from the partition and offset columns of its files alone."""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable

from pipeline.errors import PipelineError
from pipeline.lake.decode.source import file_path, log_files
from pipeline.lake.planning.offset_sets import Held, Ints, held, runs_of
from pipeline.store import AnyPath, open_parquet

_FILES_AT_ONCE: Final = 4


def held_in(paths: Iterable[AnyPath]) -> dict[int, Held]:
    """What files hold, by partition."""
    with ThreadPoolExecutor(_FILES_AT_ONCE) as pool:
        found = [*pool.map(_runs_in, paths)]
    if not found:
        return {}
    partitions, starts, ends = (np.concatenate(column) for column in zip(*found, strict=True))
    return {
        each: held(zip(starts[partitions == each].tolist(), ends[partitions == each].tolist(), strict=True))
        for each in np.unique(partitions).tolist()
    }


def _runs_in(path: AnyPath) -> tuple[Ints, Ints, Ints]:
    """Of a whole file: its rows lie in the order of their times."""
    with open_parquet(path) as file:
        rows = file.read(["partition", "offset"])
    return runs_of(ints(rows, "partition"), ints(rows, "offset"))


def ints(rows: pa.Table | pa.RecordBatch, name: str) -> Any:
    """A column of numbers."""
    return rows.column(name).to_numpy(zero_copy_only=False).astype(np.int64)


def files_here(path: AnyPath, table: DeltaTable) -> tuple[list[AnyPath], list[str]]:
    """The files of a version, and the names of those that are not there."""
    files = {str(each["path"]): file_path(path, each["path"]) for each in log_files(table)}
    gone = [name for name, file in files.items() if not file.exists()]
    return [file for name, file in files.items() if name not in gone], gone


def whole_files(path: AnyPath, table: DeltaTable) -> Sequence[AnyPath]:
    """The files of a version. Raises: PipelineError where one is missing."""
    here, gone = files_here(path, table)
    if gone:
        raise PipelineError(
            f"file {path / gone[0]} of the table is missing, so what it has cannot be told: give the file "
            "back, or run `portico pipeline audit --forget-missing-files` and then this again"
        )
    return here

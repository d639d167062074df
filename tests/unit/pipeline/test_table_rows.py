"""Reading a Delta table without Spark and without Python objects in Arrow's threads."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.fs import DeltaStorageHandler

from pipeline.table_rows import read_rows


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    path = tmp_path / "a table, with % and spaces"
    for day in ("2026-11-03", "2026-11-04", "a=b/c %"):
        rows = pa.table({"day": [day, day], "bytes": pa.array([1, 2], pa.int64())})
        write_deltalake(str(path), rows, mode="append", partition_by=["day"])
    return DeltaTable(str(path))


def test_rows_columns_and_filters(table: DeltaTable) -> None:
    assert read_rows(table).num_rows == 6
    assert read_rows(table, ["bytes"]).column_names == ["bytes"]
    found = read_rows(table, filters=[("day", "=", "a=b/c %"), ("bytes", ">", 1)])
    assert found.to_pylist() == [{"day": "a=b/c %", "bytes": 2}]


def test_no_file_is_a_python_object(table: DeltaTable, monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(*_arguments: object) -> None:
        raise AssertionError("a thread of Arrow would let go of a Python object, also while the process ends")

    monkeypatch.setattr(DeltaStorageHandler, "open_input_file", opened)
    with pytest.raises(AssertionError):
        table.to_pyarrow_table()
    assert read_rows(table).num_rows == 6

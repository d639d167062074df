"""Tables of metering without Spark: what commits said, and which old versions stay readable."""

from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from pipeline.errors import PipelineError
from pipeline.metering.versioned_tables import Table, leases

SCHEMA = pa.schema([("day", pa.string()), ("bytes", pa.int64())])


class Said(msgspec.Struct):
    run: int


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = Table(tmp_path / "usage", SCHEMA, "day")
    made.ensure()
    return made


def put(table: Table, day: str, size: int, run: int) -> None:
    rows = pa.table({"day": [day], "bytes": pa.array([size], pa.int64())})
    table.replace(rows, f"day = '{day}'", Said(run))


def read(table: Table, version: int) -> list[int]:
    found = DeltaTable(str(table.path), version=version).to_pyarrow_table()
    return sorted(found["bytes"].to_pylist())


def test_commits_say_what_they_were_newest_first(table: Table) -> None:
    for run in range(120):
        put(table, "2026-11-03", run, run)
    said = list(table.said())
    assert [version for version, _ in said] == list(range(120, -1, -1))
    assert [document["run"] for _, document in said[:-1]] == list(range(119, -1, -1))
    assert said[-1] == (0, None)
    assert table.rows_by_partition() == {"2026-11-03": 1}


def test_versions_that_bills_name_outlive_tidying(table: Table) -> None:
    for run in range(4):
        put(table, "2026-11-03", run, run)
        put(table, "2026-11-04", 10 * run, run)
    expected = {version: read(table, version) for version in (3, 8)}
    assert table.tidy([3], retention_h=0) > 0
    assert {version: read(table, version) for version in (3, 8)} == expected
    with pytest.raises(FileNotFoundError):
        read(table, 6)


def test_a_table_has_one_writer(table: Table) -> None:
    another = leases([table], "another")
    with leases([table], "the rollup"), pytest.raises(PipelineError, match="written by the rollup"):
        another.__enter__()

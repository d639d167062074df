"""A table is its own checkpoint: what a commit holds, and who may commit next. Real tables, no session."""

import json
import multiprocessing
from multiprocessing.synchronize import Event
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from pipeline.errors import PipelineError
from pipeline.ingest.commits import BatchDocument, IngestTable, OvertakenError, TableSpec
from pipeline.ingest.lease import LeasedError, table_lease
from pipeline.ingest.ranges import PartitionRange
from pipeline.ingest.staging import StagedFile, staged_file, staging_area

APP = "lake/t1"
SPEC = TableSpec(pa.schema([("offset", pa.int64()), ("day", pa.string())]), ("day",), "for a test")


def rows(area: Path, start: int, end: int, day: str = "2026-01-01") -> StagedFile:
    path = area / f"b{start}-{end}" / f"day={day}" / f"part-{start}-{end}.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(pa.table({"offset": pa.array(range(start, end), pa.int64())}), path)
    return staged_file(path, area / f"b{start}-{end}")


def document(batch: int, start: int, end: int, **changes: object) -> BatchDocument:
    fields = {"ranges": (PartitionRange(0, start, end),)} | changes
    return BatchDocument(app=APP, batch=batch, job="load", job_version="1", **fields)  # type: ignore[arg-type]


def loaded(path: Path) -> list[int]:
    return sorted(DeltaTable(path).to_pyarrow_table().column("offset").to_pylist())


def by_hand(path: Path, offset: int) -> None:
    """A commit of somebody who knows nothing of us."""
    write_deltalake(
        path,
        pa.table({"offset": pa.array([offset], pa.int64()), "day": ["2026-01-03"]}),
        mode="append",
        commit_properties=CommitProperties(custom_metadata={"userMetadata": "by hand"}),
    )


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "table"


def test_rows_positions_and_ranges_are_one_version(table: Path, tmp_path: Path) -> None:
    opened = IngestTable.open(table, SPEC)
    assert (opened.batch(APP), opened.positions(APP, [0])) == (-1, {})
    files = [rows(tmp_path, 3, 10)]
    opened.append(files, document(0, 3, 10, topic="a", topic_id="t1").counted(files))
    again = IngestTable.open(table, SPEC)
    assert again.version == 1
    assert again.batch(APP) == 0
    assert again.positions(APP, [0, 1]) == {0: 10}
    assert again.first_offsets(APP, [0, 1]) == {0: 3}
    [told] = again.documents()
    assert (told.rows, told.ranges, told.topic_id) == (7, (PartitionRange(0, 3, 10),), "t1")
    assert loaded(table) == list(range(3, 10))


def test_positions_outlive_the_log(table: Path, tmp_path: Path) -> None:
    opened = IngestTable.open(table, SPEC)
    opened.append([rows(tmp_path, 0, 10)], document(0, 0, 10))
    by_hand(table, 99)
    DeltaTable(table).create_checkpoint()
    for version in (0, 1):
        (table / "_delta_log" / f"{version:020}.json").unlink()
    again = IngestTable.open(table, SPEC)
    assert (again.batch(APP), again.positions(APP, [0])) == (0, {0: 10})
    again.append([rows(tmp_path, 10, 12)], document(1, 10, 12))
    assert loaded(table) == [*range(12), 99]


def test_a_batch_with_a_gap_and_no_rows(table: Path) -> None:
    opened = IngestTable.open(table, SPEC)
    opened.append([], document(0, 0, 0, ranges=(), gaps=(PartitionRange(0, 0, 40), PartitionRange(1, 0, 2))))
    assert opened.positions(APP, [0, 1]) == {0: 40, 1: 2}
    assert opened.documents(1)[0].gaps == (PartitionRange(0, 0, 40), PartitionRange(1, 0, 2))


def test_a_crash_before_the_commit_leaves_nothing(table: Path, tmp_path: Path) -> None:
    """Files that no commit names are no rows: the batch is planned again from the same positions."""
    opened = IngestTable.open(table, SPEC)
    lost = rows(tmp_path, 0, 10)
    (table / "2026-01-01").mkdir()
    lost.path.rename(table / "2026-01-01" / lost.path.name)
    again = IngestTable.open(table, SPEC)
    assert again.positions(APP, [0]) == {}
    assert loaded(table) == []
    (tmp_path / "second").mkdir()
    opened.append([rows(tmp_path / "second", 0, 12)], document(0, 0, 12))
    assert loaded(table) == list(range(12))


def test_a_writer_that_lost_the_lease_cannot_double_a_batch(table: Path, tmp_path: Path) -> None:
    """It has planned and read its batch when another takes over: whatever it commits is refused."""
    zombie = IngestTable.open(table, SPEC)
    other = IngestTable.open(table, SPEC)
    other.append([rows(tmp_path, 0, 10)], document(0, 0, 10))
    (tmp_path / "zombie").mkdir()
    with pytest.raises(OvertakenError, match="start the job again"):
        zombie.append([rows(tmp_path / "zombie", 0, 10)], document(0, 0, 10))
    assert loaded(table) == list(range(10))


def test_a_batch_that_does_not_continue_the_table_is_refused(table: Path, tmp_path: Path) -> None:
    opened = IngestTable.open(table, SPEC)
    opened.append([rows(tmp_path, 0, 10)], document(0, 0, 10))
    for wrong in (document(0, 10, 12), document(2, 10, 12), document(1, 0, 12), document(1, 11, 12)):
        with pytest.raises(OvertakenError):
            opened.append([], wrong)
    assert opened.version == 1


def test_other_writers_do_not_disturb(table: Path, tmp_path: Path) -> None:
    """A backfill with positions of its own, or a commit that is not ours at all."""
    opened = IngestTable.open(table, SPEC)
    backfill = IngestTable.open(table, SPEC)
    backfill.append(
        [rows(tmp_path, 0, 3)], BatchDocument(app="backfill/1", batch=0, job="b", job_version="1")
    )
    by_hand(table, 9)
    opened.append([rows(tmp_path, 3, 5)], document(0, 3, 5))
    assert loaded(table) == [0, 1, 2, 3, 4, 9]
    assert [told.app for told in opened.documents()] == [APP, "backfill/1"]


def test_light_readers_prune_by_the_bounds_of_files(table: Path, tmp_path: Path) -> None:
    opened = IngestTable.open(table, SPEC)
    opened.append([rows(tmp_path, 0, 10), rows(tmp_path, 10, 20, "2026-01-02")], document(0, 0, 20))
    adds = [json.loads(line) for line in (table / "_delta_log" / f"{1:020}.json").read_text().splitlines()]
    stats = [json.loads(line["add"]["stats"]) for line in adds if "add" in line]
    assert [(one["numRecords"], one["minValues"], one["maxValues"]) for one in stats] == [
        (10, {"offset": 0}, {"offset": 9}),
        (10, {"offset": 10}, {"offset": 19}),
    ]
    assert DeltaTable(table).to_pyarrow_table(filters=[("day", "=", "2026-01-02")]).num_rows == 10


def _hold(path: Path, held: Event, over: Event) -> None:
    with table_lease(path, "the other"):
        held.set()
        over.wait(20)


def test_the_lease_names_who_has_it_and_ends_with_its_process(table: Path) -> None:
    context = multiprocessing.get_context("spawn")
    held, over = context.Event(), context.Event()
    process = context.Process(target=_hold, args=(table, held, over))
    process.start()
    assert held.wait(20)
    with (
        pytest.raises(LeasedError, match=f"written by the other \\(process {process.pid}\\)"),
        table_lease(table, "me"),
    ):
        pass
    with table_lease(table, "me", "backfill"):
        pass
    process.kill()
    process.join()
    with table_lease(table, "me", wait_s=5):
        pass


def test_staging_areas_of_killed_runs_are_removed(tmp_path: Path) -> None:
    left = tmp_path / "left"
    left.mkdir()
    (left / "lock").touch()
    (left / "file").touch()
    with staging_area(tmp_path) as first, staging_area(tmp_path) as second:
        assert first != second
        assert {path for path in tmp_path.iterdir() if path.is_dir()} == {first, second}
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == []


def test_a_damaged_table_is_a_sentence(table: Path) -> None:
    IngestTable.open(table, SPEC)
    (table / "_delta_log" / f"{0:020}.json").write_text("nothing\n")
    with pytest.raises(PipelineError, match="cannot be opened"):
        IngestTable.open(table, SPEC)

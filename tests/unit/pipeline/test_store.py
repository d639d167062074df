"""Tables, commits and leases in an S3 server that also throttles, and loses its answers."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from pipeline.errors import PipelineError
from pipeline.ingest.commits import BatchDocument, IngestTable, TableSpec
from pipeline.ingest.ranges import PartitionRange
from pipeline.ingest.staging import staged_file
from pipeline.lake.forgotten import forgotten_offsets
from pipeline.lake.held import files_here, held_in
from pipeline.lake.lake_tables import lake_tables
from pipeline.lake.rewrite import ConflictError, commit, data_files, removal
from pipeline.layout import PipelineLayout
from pipeline.store import StorePath, create, lake_root, must_answer, read_bytes
from tests.pipeline.leases import must_be_held_lost_and_taken
from tests.pipeline.s3_server import S3Server, s3_server, troubled_s3
from tests.pipeline.store_servers import use
from tests.unit.pipeline.test_forget import ADA, Lake, kinds

SPEC = TableSpec(pa.schema([("offset", pa.int64())]))


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as running:
        yield running


@pytest.fixture
def bucket(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> StorePath:
    use(server, monkeypatch)
    return StorePath(f"s3a://{server.bucket}", "")


def append(table: IngestTable, tmp_path: Path, batch: int, rows: int) -> None:
    file = tmp_path / f"part-{batch}-{time.time_ns()}.parquet"
    pq.write_table(pa.table({"offset": pa.array(range(batch * rows, (batch + 1) * rows), pa.int64())}), file)
    ranges = (PartitionRange(0, batch * rows, (batch + 1) * rows),)
    document = BatchDocument(app="a", batch=batch, job="load", job_version="1", ranges=ranges)
    table.append([staged_file(file, tmp_path)], document)


def offsets(path: StorePath) -> list[int]:
    return sorted(DeltaTable(str(path)).to_pyarrow_table().column("offset").to_pylist())


def test_where_a_lake_may_be(tmp_path: Path) -> None:
    assert lake_root("s3://b/x/") == lake_root("s3a://b/x") == StorePath("s3a://b", "x")
    assert lake_root(f"file://{tmp_path}") == lake_root(str(tmp_path)) == tmp_path
    account = "abfss://lakes@acme.dfs.core.windows.net"
    assert lake_root(f"{account}/x/") == StorePath(account, "x")
    assert StorePath(account, "x").azure_host == "acme.dfs.core.windows.net"
    assert StorePath("s3a://b", "x").azure_host is None
    assert lake_root("hdfs://n:8020/x/") == StorePath("hdfs://n:8020", "x")
    s3 = ("s3a:///x", "s3a://key:secret@b/x", "s3a://b/x?k=v")
    azure = (
        f"{account}/x?sig=1",
        "abfss://acme.dfs.core.windows.net/x",
        "abfss://a:b@acme.dfs.core.windows.net",
    )
    for text in (*s3, *azure, "hdfs:///x", "hdfs://me@n/x", "file://elsewhere/x"):
        with pytest.raises(PipelineError, match="lake"):
            lake_root(text)


def test_of_all_who_create_a_file_one_does(bucket: StorePath, tmp_path: Path) -> None:
    for entry in (bucket / "entries" / "1.json", tmp_path / "1.json"):
        with ThreadPoolExecutor(8) as pool:
            took = list(pool.map(create, [entry] * 8, [b"%d" % n for n in range(8)]))
        assert sum(took) == 1 and read_bytes(entry) == b"%d" % took.index(True)
    assert create(bucket / "entries" / "1.json", read_bytes(bucket / "entries" / "1.json")), "it is ours"


def test_a_file_that_is_gone_is_not_replaced(bucket: StorePath, tmp_path: Path) -> None:
    path = bucket / "replaced"
    table = IngestTable.open(path, SPEC)
    append(table, tmp_path, 0, 10)
    read = DeltaTable(str(path))
    gone = [removal(each, 1, data_change=True) for each in data_files(read)]
    append(table, tmp_path, 1, 10)
    assert commit(path, int(read.version()), gone, "DELETE", {}, 1) == 3
    assert offsets(path) == list(range(10, 20))
    with pytest.raises(ConflictError, match="removed already"):
        commit(path, int(read.version()), gone, "DELETE", {}, 1)


def test_a_lease_is_held_lost_and_taken(bucket: StorePath, monkeypatch: pytest.MonkeyPatch) -> None:
    must_be_held_lost_and_taken(bucket / "leased", monkeypatch)


def test_a_key_goes_out_of_tables_in_a_store(bucket: StorePath, tmp_path: Path) -> None:
    """And what is left is read as an audit does, file by file."""
    layout = PipelineLayout(tmp_path, bucket / "forgetting")
    topic = Lake(layout)
    told = topic.forget(ADA)
    assert kinds(told) == {"lake": (30, True), "decoded": (28, True), "dead_letters": (2, True)}
    kept = {(p, n) for p in (0, 1) for n in range(60) if n % 4}
    assert topic.places() == kept
    files, _ = files_here(topic.lake.path, DeltaTable(str(topic.lake.path)))
    there = {each.name for each in topic.lake.path.rglob("*.parquet") if "_delta_log" not in str(each)}
    assert there == {each.name for each in files}
    held = held_in(files)
    assert {
        (p, n) for p, found in held.items() for start, end in found.there for n in range(start, end)
    } == kept
    gone = forgotten_offsets(layout, topic.lake.topic_id)
    assert {(p, n) for p, found in gone.items() for start, end in found for n in range(start, end)} == {
        (p, n) for p in (0, 1) for n in range(0, 60, 4)
    }
    [lake] = lake_tables(layout, "i-1")
    assert lake == topic.lake


@pytest.mark.long
def test_a_store_that_throttles_and_loses_answers(
    bucket: StorePath, server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit whose answer is lost is in the table or not: who looks goes on, and no row is there twice."""
    path = bucket / "troubled"
    with troubled_s3(server) as troubled:
        monkeypatch.setenv("AWS_ENDPOINT_URL", troubled.url)
        done = tries = 0
        while done < 4:
            tries += 1
            assert tries < 30, "nothing is ever committed"
            try:
                table = IngestTable.open(path, SPEC)
                if (done := table.batch("a") + 1) < 4:
                    append(table, tmp_path, done, 10)
            except PipelineError:
                continue
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    assert offsets(path) == list(range(40))


def test_a_bucket_that_is_not_there(bucket: StorePath, monkeypatch: pytest.MonkeyPatch) -> None:
    must_answer(bucket / "an/empty/lake")
    with pytest.raises(PipelineError, match="no such bucket"):
        must_answer(StorePath("s3a://not-there", "x"))
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(PipelineError, match=r"127\.0\.0\.1:9"):
        must_answer(bucket)

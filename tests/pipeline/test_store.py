"""A lake in an object store: the same rows as on a disk, by commands, with a URL and an environment."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable
from hdfs_native import Client

from pipeline.store import (
    StoreError,
    StorePath,
    create,
    lake_root,
    move,
    must_answer,
    of_text,
    put_if,
    read_bytes,
    size_bytes,
    state,
)
from tests.integration.stack import ROOT, Stack
from tests.pipeline.azure_server import AzureServer, azure_server
from tests.pipeline.hdfs_server import ADMIN, HdfsServer, hdfs_server, must_run
from tests.pipeline.leases import must_be_held_lost_and_taken
from tests.pipeline.s3_server import S3Server, s3_server
from tests.pipeline.store_servers import StoreServer, use
from tests.pipeline.topics import Record, Topics

PARTITIONS = 2


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with s3_server() as running:
        yield running


@pytest.fixture(scope="module")
def azure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzureServer]:
    with azure_server(tmp_path_factory.mktemp("azure") / "emulator") as running:
        yield running


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsServer]:
    with hdfs_server(tmp_path_factory.mktemp("hdfs")) as running:
        yield running


class Commands:
    """`portico pipeline ...` of one stack, whose lake is in the store."""

    def __init__(self, stack: Stack, server: StoreServer) -> None:
        self._stack = stack
        self.lake = f"{server.root}/of/tests"

    def run(self, *words: str, lake: str | None = None) -> subprocess.CompletedProcess[str]:
        """However it ends."""
        command = [sys.executable, "-m", "runtime.start", "ctl.main", "pipeline", *words]
        return subprocess.run(
            [*command, "--lake", lake or self.lake, "--data-dir", str(self._stack.data_dir)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def answer(self, *words: str) -> Any:
        """Of one that succeeds."""
        told = self.run(*words, "--json")
        assert told.returncode == 0, told.stderr
        return json.loads(told.stdout)

    def refusal(self, *words: str, lake: str | None = None) -> str:
        """The sentence of one that fails."""
        told = self.run(*words, lake=lake)
        assert told.returncode == 1 and "Traceback" not in told.stderr, told.stderr
        return told.stderr


def records(first: int, count: int) -> list[Record]:
    return [Record(b"v%d" % n, b"k%d" % (n % 10), n % PARTITIONS) for n in range(first, first + count)]


def rows(url: str) -> list[tuple[int, int, bytes, bytes]]:
    """As delta-rs reads them, by partition and offset."""
    found = DeltaTable(url).to_pyarrow_table(columns=["partition", "offset", "key", "value"])
    return sorted(tuple(row.values()) for row in found.to_pylist())


def placed(produced: Sequence[Record]) -> list[tuple[int, int, bytes | None, bytes | None]]:
    """With the offsets that a broker gave."""
    ends = [0] * PARTITIONS
    found = []
    for each in produced:
        found.append((each.partition, ends[each.partition], each.key, each.value))
        ends[each.partition] += 1
    return sorted(found, key=lambda row: row[:2])


@pytest.mark.long
@pytest.mark.parametrize("store", ["s3", "azure", "hdfs"])
def test_a_topic_is_loaded_kept_and_looked_at(
    stack: Stack, store: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Load, load again, compact, decode, forget, move a file away, audit and backfill."""
    server: StoreServer = request.getfixturevalue(store)
    use(server, monkeypatch)
    commands = Commands(stack, server)
    instance = stack.create_instance(f"stored-{store}")
    topics = Topics(instance["bootstrap_servers"])
    topics.create("clicks", partitions=PARTITIONS)
    produced: list[Record] = []
    for first in (0, 100):
        new = records(first, 100)
        topics.produce("clicks", new)
        produced += new
        [told] = commands.answer("load", instance["id"])
        assert (told["rows"], told["error"]) == (100, "")
    url = told["table"]
    assert url.startswith(f"{commands.lake}/lake/{instance['id']}/clicks-")
    assert rows(url) == placed(produced)
    assert not (stack.data_dir / "pipeline" / "lake" / instance["id"]).exists()

    [compacted] = commands.answer("compact", instance["id"])
    assert (compacted["files_before"], compacted["files_after"]) == (2, 1)
    assert rows(url) == placed(produced)

    schema = stack.data_dir / "line.json"
    schema.write_text(json.dumps({"version": 1, "format": "text", "fields": "line STRING"}))
    [decoded] = commands.answer("decode", instance["id"], "--topic", "clicks", "--schema", str(schema))
    assert decoded["decoded"] == len(produced)

    [gone] = commands.answer("forget", instance["id"], "--topic", "clicks", "--key", "k3", "--yes")
    kept = [row for row in placed(produced) if row[2] != b"k3"]
    assert rows(url) == kept
    assert {each["kind"]: each["rows"] for each in gone["tables"]} == {
        "decoded": 20,
        "dead_letters": 0,
        "lake": 20,
    }
    line = DeltaTable(decoded["tables"]["decoded"]).to_pyarrow_table(columns=["line"]).column("line")
    assert pc.count_distinct(line).as_py() == len(kept)

    [file, *_] = DeltaTable(url).file_uris()
    gone_file = of_text(file)
    assert isinstance(gone_file, StorePath)
    gone_file.unlink()
    told = commands.run("audit", instance["id"], "--json")
    assert told.returncode == 1 and json.loads(told.stdout)["topics"][0]["missing_files"]
    commands.run("audit", instance["id"], "--forget-missing-files")
    window = ("--topic", "clicks", "--from-offset", "0", "--to-offset", "1000")
    commands.answer("backfill", instance["id"], *window)
    assert rows(url) == kept
    commands.answer("audit", instance["id"])
    count = f"SELECT count(*) AS n FROM stored_{store}.clicks"
    assert commands.answer("sql", count) == [{"n": len(kept)}]


def test_what_is_no_lake_is_one_sentence(stack: Stack, s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """And no empty table."""
    use(s3, monkeypatch)
    commands = Commands(stack, s3)
    instance = stack.create_instance("nowhere")
    Topics(instance["bootstrap_servers"]).create("a")
    assert "there is no such bucket" in commands.refusal("load", instance["id"], lake="s3a://another/lake")
    assert "a lake is at file:///FOLDER or s3a://BUCKET" in commands.refusal(
        "load", instance["id"], lake="ftp://x/y"
    )
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    assert "127.0.0.1:9" in commands.refusal("load", instance["id"])
    assert "a lake's URL names a bucket and a folder" in commands.refusal(
        "load", instance["id"], lake="s3a://key:secret@lakes/x"
    )


def test_files_of_hdfs(hdfs: HdfsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the door of all stores: nobody sees half a file, and of all who create one of a name one does."""
    use(hdfs, monkeypatch)
    folder = lake_root(f"{hdfs.root}/of/files/")
    assert isinstance(folder, StorePath)
    must_answer(folder)
    for url, said in (("hdfs://127.0.0.1:9/x", "refused"), ("hdfs://nobody.invalid/x", "hdfs://HOST:PORT")):
        with pytest.raises(StoreError, match=said):
            must_answer(lake_root(url))
    assert not folder.is_dir() and not (folder / "a").exists() and [*folder.iterdir()] == []
    with ThreadPoolExecutor(8) as pool:
        took = list(pool.map(create, [folder / "log" / "1.json"] * 8, [b"%d" % n for n in range(8)]))
    assert sum(took) == 1 and read_bytes(folder / "log" / "1.json") == b"%d" % took.index(True)
    assert [each.name for each in (folder / "log").iterdir()] == ["1.json"], "no draft is left"
    (tmp_path / "one").write_bytes(b"x" * 5_000_000)
    move(tmp_path / "one", folder / "staged" / "one.parquet")
    move(folder / "staged" / "one.parquet", folder / "table" / "one.parquet")
    assert not (tmp_path / "one").exists() and not (folder / "staged").is_dir()
    assert [*folder.rglob("*.parquet")] == [folder / "table" / "one.parquet"]
    assert size_bytes(folder / "table" / "one.parquet") == 5_000_000
    with pytest.raises(FileNotFoundError):
        read_bytes(folder / "table" / "two.parquet")
    (folder / "table").remove()
    assert not (folder / "table").is_dir()


def test_hdfs_that_does_not_let_us_is_one_sentence(
    hdfs: HdfsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder of somebody else, and a NameNode that has just started."""
    use(hdfs, monkeypatch)
    folder = StorePath(hdfs.root, "ours")
    assert create(folder / "a", b"1")
    Client(hdfs.root).set_permission("/ours", 0o700)
    monkeypatch.setenv("HADOOP_USER_NAME", "stranger")
    with pytest.raises(StoreError, match="HDFS refuses us: may the user"):
        must_answer(folder)
    (tmp_path / "b").write_bytes(b"2")
    must_run(hdfs.settings, ADMIN, "-safemode", "enter")
    with pytest.raises(StoreError, match="HDFS is in safe mode"):
        move(tmp_path / "b", folder / "b")
    assert read_bytes(folder / "a") == b"1"
    must_run(hdfs.settings, ADMIN, "-safemode", "leave")
    move(tmp_path / "b", folder / "b")
    assert read_bytes(folder / "b") == b"2"


def test_a_lease_in_hdfs_is_held_lost_and_taken(hdfs: HdfsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """HDFS replaces nothing on a condition: its states are counted."""
    use(hdfs, monkeypatch)
    table = StorePath(hdfs.root, "leased")
    must_be_held_lost_and_taken(table, monkeypatch)
    assert len([*(table / ".lease").iterdir()]) == 1


def test_states_in_hdfs_follow_one_another(hdfs: HdfsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all who write the state after one that they saw, one does; who saw an older one never does."""
    use(hdfs, monkeypatch)
    counter = StorePath(hdfs.root, "counted/state")

    def add(times: int) -> None:
        while times:
            found = state(counter)
            value = int(found.data) if found is not None else 0
            times -= put_if(counter, b"%d" % (value + 1), found and found.e_tag) is not None

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, [10] * 4))
    last = state(counter)
    assert last is not None and last.data == b"40"
    assert put_if(counter, b"old", None) is None and put_if(counter, b"old", "7") is None
    assert state(counter) == last

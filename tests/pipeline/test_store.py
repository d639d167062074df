"""A lake in an object store: the same rows as on a disk, by commands, with a URL and an environment."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from pipeline.store import StorePath, of_text
from tests.integration.stack import ROOT, Stack
from tests.pipeline.azure_server import AzureServer, azure_server
from tests.pipeline.s3_server import S3Server, s3_server
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


def use(server: S3Server | AzureServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """This process reads the store as the commands do."""
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)


class Commands:
    """`portico pipeline ...` of one stack, whose lake is in the store."""

    def __init__(self, stack: Stack, server: S3Server | AzureServer) -> None:
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
@pytest.mark.parametrize("store", ["s3", "azure"])
def test_a_topic_is_loaded_kept_and_looked_at(
    stack: Stack, store: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Load, load again, compact, decode, forget, move a file away, audit and backfill."""
    server: S3Server | AzureServer = request.getfixturevalue(store)
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

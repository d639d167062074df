"""All `txn` numbers of a table by one reading of its log, as deltalake tells each."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from pipeline.errors import PipelineError
from pipeline.ingest.commits import BatchDocument, IngestTable, TableSpec
from pipeline.ingest.ranges import PartitionRange
from pipeline.ingest.transactions import LOG, Transactions
from pipeline.schema.lake import LAKE, LAKE_PARTITION_BY

BATCHES = 45
"""Two checkpoints and some entries behind them."""
NAMES = ["a", "b", *(f"{app}/{each}{end}" for app in "ab" for each in range(3) for end in ("", "/first"))]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    table = IngestTable.open(tmp_path / "orders", TableSpec(LAKE, LAKE_PARTITION_BY))
    for number in range(BATCHES):
        app, batch = ("b", number // 5) if number % 5 == 4 else ("a", number - number // 5)
        ranges = tuple(PartitionRange(each, 7 * batch, 7 * batch + 7) for each in range(3))
        table.append([], BatchDocument(app=app, batch=batch, job="load", job_version="1", ranges=ranges))
    return tmp_path / "orders"


def told_by_deltalake(path: Path, version: int) -> dict[str, int]:
    table = DeltaTable(path, version=version)
    found = {name: table.transaction_version(name) for name in NAMES}
    return {name: number for name, number in found.items() if number is not None}


def test_numbers_are_those_of_deltalake_at_every_version(path: Path) -> None:
    following = Transactions(path)
    for version in (0, 3, 5, 19, 20, 39, BATCHES, 21):
        expected = told_by_deltalake(path, version)
        assert following.at(version) == expected == Transactions(path).at(version)


def test_entries_before_a_checkpoint_are_not_needed(path: Path) -> None:
    expected = told_by_deltalake(path, BATCHES)
    last = json.loads((path / LOG / "_last_checkpoint").read_text())["version"]
    for entry in sorted((path / LOG).glob("*.json")):
        if int(entry.stem) <= last:
            entry.unlink()
    assert Transactions(path).at(BATCHES) == expected


def test_a_checkpoint_in_parts_is_read_whole(path: Path) -> None:
    expected = told_by_deltalake(path, BATCHES)
    last = json.loads((path / LOG / "_last_checkpoint").read_text())["version"]
    whole = path / LOG / f"{last:020}.checkpoint.parquet"
    rows = pq.read_table(whole)
    whole.unlink()
    for part, (start, length) in enumerate([(0, 4), (4, len(rows) - 4)], 1):
        name = f"{last:020}.checkpoint.{part:010}.{2:010}.parquet"
        pq.write_table(rows.slice(start, length), path / LOG / name)
    (path / LOG / "_last_checkpoint").write_text(json.dumps({"version": last, "size": 1, "parts": 2}))
    for entry in (path / LOG).glob("*.json"):
        if int(entry.stem) <= last:
            entry.unlink()
    assert Transactions(path).at(BATCHES) == expected


def test_a_log_that_cannot_be_read_is_a_sentence(path: Path) -> None:
    log = path / LOG
    checkpoint = log / "_last_checkpoint"
    checkpoint.write_text(json.dumps({"version": 39, "size": 1, "v2Checkpoint": {"path": "x.parquet"}}))
    with pytest.raises(PipelineError, match="checkpoints of another program's kind"):
        Transactions(path).at(BATCHES)
    checkpoint.write_text(json.dumps({"version": 39, "size": 1}))
    (log / f"{39:020}.checkpoint.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(PipelineError, match="cannot be read"):
        Transactions(path).at(BATCHES)
    for spoilt in (b"{", b'{"txn": {"appId": 7}}', b"\xff"):
        checkpoint.unlink(missing_ok=True)
        (log / f"{2:020}.json").write_bytes(spoilt)
        with pytest.raises(PipelineError, match=r"the log .*_delta_log cannot be read"):
            Transactions(path).at(BATCHES)
    (log / f"{2:020}.json").unlink()
    with pytest.raises(PipelineError, match=r"cannot be read"):
        Transactions(path).at(BATCHES)

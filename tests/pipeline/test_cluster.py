"""A job is the same job wherever Spark runs: here, on a standalone cluster, on a Spark Connect server."""

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tests.integration.stack import Stack
from tests.pipeline.killed import KilledJob
from tests.pipeline.standalone import connect_server, standalone_cluster
from tests.pipeline.topics import Record, Topics

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

RECORDS = 3_000
PARTITIONS = 4
BATCHES = ("--max-records-per-batch", "2000")


def fill(topics: Topics) -> None:
    """All that a record can have, on both sides of a transaction that is not committed."""
    topics.create("orders", partitions=PARTITIONS, retention_ms="-1")
    for first in (0, RECORDS):
        topics.produce("orders", (record(first + n) for n in range(RECORDS)), **{"compression.type": "zstd"})
        topics.abort("orders", (record(n) for n in range(50)))


def record(n: int) -> Record:
    return Record(
        None if n % 50 == 0 else b"line %d" % n if n % 7 else b"\xff not text",
        None if n % 11 == 0 else b"k%d" % n,
        n % PARTITIONS,
        -(2**60) if n == 777 else 1_700_000_000_000 + n * 1_000,
        [("a", b"1"), ("a", None)] if n % 3 == 0 else [],
    )


class Lake:
    """A topic loaded and decoded into a lake of its own."""

    def __init__(self, stack: Stack, instance: dict[str, Any], root: Path, schema: Path) -> None:
        self._stack, self._instance, self._root, self._schema = stack, str(instance["id"]), root, schema

    def made(self, *where: str) -> dict[str, pa.Table]:
        """All rows of its tables, by their kinds."""
        lake = ("--lake", self._root.as_uri(), *where)
        load = KilledJob(self._stack.data_dir, "", "load", self._instance, *BATCHES, *lake)
        load.start()
        [told] = load.finish()
        assert (told["rows"], told["error"]) == (2 * RECORDS, "")
        what = ("--topic", "orders", "--schema", str(self._schema))
        decode = KilledJob(self._stack.data_dir, "", "decode", self._instance, *what, *lake)
        decode.start()
        [told] = decode.finish()
        assert told["decoded"] + told["dead_letters"] == 2 * RECORDS and told["dead_letters"]
        return {kind: self._rows(kind) for kind in ("lake", "decoded", "dead_letters")}

    def _rows(self, kind: str) -> pa.Table:
        [path] = (self._root / kind / self._instance).glob("orders-*")
        table = DeltaTable(path).to_pyarrow_table()
        order = [name for name in table.column_names if name.strip("_") in ("partition", "offset")]
        return table.sort_by([(name, "ascending") for name in sorted(order, reverse=True)]).combine_chunks()


def test_rows_are_the_same_wherever_spark_runs(stack: Stack, tmp_path: Path) -> None:
    instance = stack.create_instance("anywhere")
    fill(Topics(instance["bootstrap_servers"]))
    schema = tmp_path / "line.json"
    schema.write_text(json.dumps({"version": 1, "format": "text", "fields": "line STRING"}))

    def made(name: str, *where: str) -> dict[str, pa.Table]:
        found = Lake(stack, instance, tmp_path / name, schema).made(*where)
        shutil.rmtree(tmp_path / name)
        return found

    here = made("here", "--master", "local[2]")
    with standalone_cluster(tmp_path / "cluster") as cluster:
        assert made("standalone", *cluster.options) == here
        with connect_server(cluster, tmp_path / "connect.log") as url:
            assert made("connect", "--remote", url) == here

"""A job is the same job wherever Spark runs: here, on a standalone cluster, on a Spark Connect server."""

import json
from collections.abc import Sequence
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

    def __init__(
        self,
        stack: Stack,
        instance: dict[str, Any],
        root: Path,
        schema: Path,
        where: Sequence[str],
        by: Sequence[str] = (),
    ) -> None:
        """`where`: options of jobs; `by`: words in front of a job."""
        self._data_dir, self._instance = stack.data_dir, str(instance["id"])
        self._root, self._schema, self._where, self._by = root, schema, where, by

    def answer(self, job: str, *words: str) -> Any:
        """Of `portico pipeline JOB ... --json`."""
        lake = ("--lake", self._root.as_uri())
        run = KilledJob(self._data_dir, "", *self._by, job, *words, *lake, *self._where)
        run.start()
        return run.finish()

    def made(self) -> dict[str, pa.Table]:
        """All rows of its tables, by their kinds."""
        [told] = self.answer("load", self._instance, *BATCHES)
        assert (told["rows"], told["error"]) == (2 * RECORDS, "")
        [told] = self.answer("decode", self._instance, "--topic", "orders", "--schema", str(self._schema))
        assert told["decoded"] + told["dead_letters"] == 2 * RECORDS and told["dead_letters"]
        return {kind: self._rows(kind) for kind in ("lake", "decoded", "dead_letters")}

    def kept_up(self) -> None:
        """By all else that asks Spark: rows that somebody deleted come again, files become few."""
        DeltaTable(self._path("lake")).delete("partition = 1")
        window = ("--topic", "orders", "--from-offset", "0", "--to-offset", "1000000")
        told = self.answer("backfill", self._instance, *window)
        assert told["rows"] == 2 * RECORDS / PARTITIONS
        assert any(told["rewritten_rows"] for told in self.answer("compact", self._instance))
        count = "SELECT count(DISTINCT `partition`, `offset`) AS n, count(*) AS m FROM anywhere.orders"
        assert self.answer("sql", count) == [{"n": 2 * RECORDS, "m": 2 * RECORDS}]

    def _path(self, kind: str) -> Path:
        [path] = (self._root / kind / self._instance).glob("orders-*")
        return path

    def _rows(self, kind: str) -> pa.Table:
        table = DeltaTable(self._path(kind)).to_pyarrow_table()
        order = [name for name in table.column_names if name.strip("_") in ("partition", "offset")]
        return table.sort_by([(name, "ascending") for name in sorted(order, reverse=True)]).combine_chunks()


def test_rows_are_the_same_wherever_spark_runs(stack: Stack, tmp_path: Path) -> None:
    instance = stack.create_instance("anywhere")
    fill(Topics(instance["bootstrap_servers"]))
    schema = tmp_path / "line.json"
    schema.write_text(json.dumps({"version": 1, "format": "text", "fields": "line STRING"}))

    def lake(name: str, where: Sequence[str], by: Sequence[str] = ()) -> Lake:
        return Lake(stack, instance, tmp_path / name, schema, where, by)

    here = lake("here", ("--master", "local[2]")).made()
    with standalone_cluster(tmp_path / "cluster") as cluster:
        assert lake("standalone", cluster.options).made() == here
        submit = ("submit", "--data-dir", str(tmp_path), *cluster.options)
        assert lake("submitted", (), submit).made() == here
        with connect_server(cluster, tmp_path / "connect.log") as url:
            asked = lake("connect", ("--remote", url))
            assert asked.made() == here
            asked.kept_up()

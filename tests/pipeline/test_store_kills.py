"""Loads into an object store while drivers and executors are killed: every record once."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from pipeline.ingest.lease import LEASE_S
from pipeline.store import StorePath
from tests.integration.stack import Stack
from tests.pipeline.killed import KilledJob, seeded
from tests.pipeline.s3_server import S3Server, s3_server
from tests.pipeline.standalone import standalone_cluster
from tests.pipeline.test_lake_load_kills import PARTITIONS, TOPICS, fill
from tests.pipeline.topics import Topics

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    with s3_server() as running:
        for name, value in running.environment.items():
            monkeypatch.setenv(name, value)
        yield running


class StoredLoad(KilledJob):
    """`portico pipeline load` of one instance, with its lake in a store."""

    def __init__(
        self, stack: Stack, server: S3Server, instance: dict[str, Any], rows_per_batch: int, *options: str
    ) -> None:
        lake = StorePath(f"s3a://{server.bucket}", "lake")
        self._folder = lake / "lake" / str(instance["id"])
        topics = (part for topic in TOPICS for part in ("--topic", topic))
        batches = ("--max-records-per-batch", str(rows_per_batch), "--lake", str(lake))
        super().__init__(stack.data_dir, "", "load", instance["id"], *topics, *batches, *options)

    def stored(self) -> list[StorePath]:
        """Tables there are by now."""
        return sorted(each for each in self._folder.iterdir() if (each / "_delta_log").is_dir())

    def commits(self) -> int:
        """Of all tables."""
        return sum(len(list((table / "_delta_log").rglob("*.json"))) for table in self.stored())


def must_hold_everything_once(load: StoredLoad, records: int) -> None:
    tables = load.stored()
    assert len(tables) == len(TOPICS)
    each = records // len(TOPICS)
    for path in tables:
        table = DeltaTable(str(path)).to_pyarrow_table(columns=["partition", "offset", "key"])
        assert table.num_rows == each
        places = table.group_by(["partition", "offset"]).aggregate([([], "count_all")])
        assert places.num_rows == each, "an offset is there twice"
        ends = table.group_by("partition").aggregate([("offset", "max")])
        assert ends.column("offset_max").to_pylist() == [each // PARTITIONS - 1] * PARTITIONS
        assert pa.compute.count_distinct(table.column("key")).as_py() == each


def test_a_driver_is_killed_again_and_again(stack: Stack, server: S3Server) -> None:
    """Its leases run out, as nobody gives them back."""
    instance = stack.create_instance("stored-kills")
    records = 40_000
    fill(Topics(instance["bootstrap_servers"]), records, 80)
    load = StoredLoad(stack, server, instance, 4_000)
    generator = seeded()
    for _ in range(3):
        load.start()
        assert load.kill(generator, commits_max=2), "the load was over before it was killed: load more"
        time.sleep(LEASE_S + 2)
    load.start()
    assert [one["error"] for one in load.finish()] == ["", ""]
    must_hold_everything_once(load, records)


def test_tasks_on_a_cluster_write_to_the_store(stack: Stack, server: S3Server, tmp_path: Path) -> None:
    """An executor is killed as well."""
    instance = stack.create_instance("stored-cluster")
    records = 40_000
    fill(Topics(instance["bootstrap_servers"]), records, 80)
    with standalone_cluster(tmp_path) as cluster:
        load = StoredLoad(stack, server, instance, 4_000, *cluster.options)
        load.start()
        deadline = time.monotonic() + 600
        while load.commits() < 6:
            assert time.monotonic() < deadline, "the job does not commit"
            time.sleep(0.05)
        assert cluster.kill_an_executor()
        assert [one["error"] for one in load.finish()] == ["", ""]
    must_hold_everything_once(load, records)

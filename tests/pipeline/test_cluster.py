"""Jobs on a standalone Spark cluster, by options alone: what they write is what they write on one machine."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.integration.stack import Stack
from tests.pipeline.killed import KilledJob, seeded
from tests.pipeline.standalone import Standalone, standalone_cluster
from tests.pipeline.test_lake_load_kills import KilledLoad, fill, must_hold_everything_once
from tests.pipeline.topics import Topics, numbered

RECORDS = 2_000
PARTITIONS = 4


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def rows(path: Path) -> list[tuple[int, int, bytes, bytes]]:
    found = DeltaTable(path).to_pyarrow_table(columns=["partition", "offset", "key", "value"])
    return sorted(tuple(row.values()) for row in found.to_pylist())


@pytest.mark.long
def test_a_load_and_its_decoding_on_a_cluster(stack: Stack, cluster: Standalone, tmp_path: Path) -> None:
    """Reading is Java's on executors, decoding is our own Python there."""
    instance = stack.create_instance("cluster")
    topics = Topics(instance["bootstrap_servers"])
    topics.create("on-a-cluster", partitions=PARTITIONS)
    topics.produce("on-a-cluster", numbered(RECORDS, PARTITIONS))
    load = KilledJob(
        stack.data_dir, f"pipeline/lake/{instance['id']}/on-*", "load", instance["id"], *cluster.options
    )
    load.start()
    [told] = load.finish()
    assert (told["rows"], told["error"]) == (RECORDS, "")
    [path] = load.tables()
    offset_of = [0] * PARTITIONS
    expected = []
    for n in range(RECORDS):
        partition = n % PARTITIONS
        expected.append((partition, offset_of[partition], b"k%d" % n, b"v%d" % n))
        offset_of[partition] += 1
    assert rows(path) == sorted(expected)

    schema = tmp_path / "line.json"
    schema.write_text(json.dumps({"version": 1, "format": "text", "fields": "line STRING"}))
    what = ("decode", instance["id"], "--topic", "on-a-cluster", "--schema", str(schema))
    decode = KilledJob(stack.data_dir, f"pipeline/decoded/{instance['id']}/on-*", *what, *cluster.options)
    decode.start()
    [told] = decode.finish()
    assert told["decoded"] == RECORDS
    [path] = decode.tables()
    found = DeltaTable(path).to_pyarrow_table(columns=["_partition", "_offset", "line"]).to_pylist()
    lines = sorted((partition, offset, value.decode()) for partition, offset, _, value in expected)
    assert sorted(tuple(row.values()) for row in found) == lines


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_an_executor_and_a_driver_are_killed(stack: Stack, cluster: Standalone) -> None:
    """The load goes on by itself without an executor, and where it was when its driver is started again."""
    instance = stack.create_instance("cluster-kills")
    records = 60_000
    fill(Topics(instance["bootstrap_servers"]), records, 80)
    load = KilledLoad(stack, instance, 3_000, *cluster.options)
    load.start()
    assert load.kill(seeded(), commits_max=3), "the load was over before its driver was killed"
    load.start()
    seen, deadline = load.commits(), time.monotonic() + 600
    while load.commits() <= seen + len(load.tables()):
        assert time.monotonic() < deadline, "the job does not commit"
        time.sleep(0.01)
    assert cluster.kill_an_executor()
    load.finish()
    must_hold_everything_once(load, records)

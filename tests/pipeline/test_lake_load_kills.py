"""kill -9 at random moments of a load: every offset is loaded exactly once.

The long version, on a cluster, is test_cluster_kills.py.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tests.integration.stack import ROOT, Stack, running_stack
from tests.pipeline.killed import KilledJob, seeded
from tests.pipeline.topics import Record, Topics

PARTITIONS: Final = 4
TOPICS: Final = ("kills-a", "kills-b")


class KilledLoad(KilledJob):
    """`portico pipeline load` of one instance."""

    def __init__(self, stack: Stack, instance: dict[str, Any], rows_per_batch: int, *options: str) -> None:
        topics = (part for topic in TOPICS for part in ("--topic", topic))
        batches = ("--max-records-per-batch", str(rows_per_batch))
        tables = f"pipeline/lake/{instance['id']}/kills-*"
        super().__init__(stack.data_dir, tables, "load", instance["id"], *topics, *batches, *options)


def fill(topics: Topics, records: int, value_bytes: int) -> None:
    topics.create(*TOPICS, partitions=PARTITIONS)
    padding = b"." * value_bytes
    for name in TOPICS:
        share = records // len(TOPICS)
        topics.produce(name, (Record(b"%d" % n + padding, b"%d" % n, n % PARTITIONS) for n in range(share)))


def must_hold_everything_once(load: KilledLoad, records: int) -> None:
    tables = load.tables()
    assert len(tables) == len(TOPICS)
    each = records // len(TOPICS)
    for path in tables:
        table = DeltaTable(path).to_pyarrow_table(columns=["topic_id", "partition", "offset", "key"])
        assert table.num_rows == each
        places = table.group_by(["topic_id", "partition", "offset"]).aggregate([([], "count_all")])
        assert places.num_rows == each, "an offset is there twice"
        ends = table.group_by("partition").aggregate([("offset", "min"), ("offset", "max")])
        assert ends.column("offset_min").to_pylist() == [0] * PARTITIONS
        assert ends.column("offset_max").to_pylist() == [each // PARTITIONS - 1] * PARTITIONS
        assert pa.compute.count_distinct(table.column("key")).as_py() == each


def test_a_load_that_is_killed_again_and_again(stack: Stack) -> None:
    instance = stack.create_instance("kills")
    records = 40_000
    fill(Topics(instance["bootstrap_servers"]), records, 80)
    load = KilledLoad(stack, instance, rows_per_batch=4_000)
    generator = seeded()
    for _ in range(3):
        load.start()
        assert load.kill(generator, commits_max=2), "the load was over before it was killed: load more"
    load.start()
    assert [one["error"] for one in load.finish()] == ["", ""]
    must_hold_everything_once(load, records)


@pytest.fixture
def own_stack(tmp_path: Path) -> Iterator[Stack]:
    with running_stack(tmp_path / "data") as running:
        yield running


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_gateways_and_the_broker_are_killed_beneath_a_load(own_stack: Stack) -> None:
    """The load goes on by itself."""
    instance = own_stack.create_instance("kills")
    records = 400_000
    fill(Topics(instance["bootstrap_servers"]), records, 200)
    load = KilledLoad(own_stack, instance, rows_per_batch=20_000)
    load.start()
    for group in ("gateways", "brokers", "gateways"):
        seen = load.commits()
        while load.commits() == seen:
            time.sleep(0.05)
        own_stack.wait_for_restart(group, own_stack.kill(group))
    load.finish()
    must_hold_everything_once(load, records)


def test_a_signal_to_the_process_group_is_no_traceback(stack: Stack) -> None:
    """As a terminal, systemd and Kubernetes send it: Spark's JVM does not die under the job."""
    instance = stack.create_instance("term")
    topics = Topics(instance["bootstrap_servers"])
    topics.create("a")
    topics.produce("a", [Record(b"%d" % n, None) for n in range(100)])
    command = [sys.executable, "-m", "runtime.start", "ctl.main", "pipeline", "load", str(instance["id"])]
    job = subprocess.Popen(
        [*command, "--continuous", "--every", "0.1s", "--data-dir", str(stack.data_dir)],
        cwd=ROOT,
        start_new_session=True,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    lake = stack.data_dir / "pipeline" / "lake" / str(instance["id"])
    deadline = time.monotonic() + 120
    while not list(lake.glob("*/_delta_log/*1.json")):
        topics.produce("a", [Record(b"more", None)])
        assert job.poll() is None and time.monotonic() < deadline
        time.sleep(0.1)
    os.killpg(job.pid, signal.SIGTERM)
    out, err = job.communicate(timeout=60)
    assert job.returncode == 130
    assert "Traceback" not in out + err and "ERROR" not in err and "refused" not in err, err

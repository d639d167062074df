"""Drivers, executors and stores are killed while a cluster loads into a store: every record once.

Compared with what a plain consumer of committed records reads, without any code of ours.
"""

import os
import random
import re
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from deltalake import DeltaTable

from pipeline.ingest.lease import LEASE_S
from pipeline.ingest.offsets import KafkaSource, SourceOffsets
from pipeline.store import StorePath
from tests.integration.stack import Stack, running_stack
from tests.pipeline.hdfs_name_nodes import hdfs_name_nodes
from tests.pipeline.killed import RUN_TIMEOUT_S, KilledJob, seeded
from tests.pipeline.s3_server import s3_server
from tests.pipeline.standalone import Standalone, standalone_cluster
from tests.pipeline.store_servers import use
from tests.pipeline.topics import Record, Topics

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
"""Of one topic each."""
PARTITIONS: Final = 4
AT_ONCE: Final = 20_000
"""Records of one producer, or of one transaction that is committed."""
ABORTED: Final = 3_000
RECORDS_PER_BATCH: Final = 80_000
COMMITS_PER_KILL_MAX: Final = len(CODECS)
COLUMNS: Final = ("topic_id", "partition", "offset", "key", "value")


class Killed(NamedTuple):
    """How much is loaded, and what is killed meanwhile."""

    rounds: int
    """In each 40,000 records of each topic are committed."""
    kills: tuple[str, ...]


IN_S3: Final = Killed(10, ("executor",) * 14 + ("driver",) * 3 + ("its Java",) * 3)
IN_HDFS: Final = Killed(4, ("executor",) * 3 + ("driver", "its Java") + ("NameNode",) * 5)


class StoredLoad(KilledJob):
    """`portico pipeline load` of one instance, with its lake in a store."""

    def __init__(self, stack: Stack, lake: StorePath, instance: dict[str, Any], *options: str) -> None:
        self._folder = lake / "lake" / str(instance["id"])
        batches = ("--max-records-per-batch", str(RECORDS_PER_BATCH), "--lake", str(lake))
        super().__init__(stack.data_dir, "", "load", instance["id"], *batches, *options)

    def stored(self) -> list[StorePath]:
        """Tables there are by now."""
        return sorted(each for each in self._folder.iterdir() if (each / "_delta_log").is_dir())

    def commits(self) -> int:
        """Of all tables."""
        return sum(len(list((table / "_delta_log").rglob("*.json"))) for table in self.stored())


@pytest.fixture
def own_stack(tmp_path: Path) -> Iterator[Stack]:
    with running_stack(tmp_path / "data") as running:
        yield running


def test_two_million_records_and_twenty_kills_on_a_cluster(
    own_stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with s3_server() as server:
        use(server, monkeypatch)
        must_survive(IN_S3, own_stack, StorePath(server.root, "lake"), tmp_path, {})


def test_a_cluster_loads_into_hdfs_whose_name_nodes_take_turns(
    own_stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with hdfs_name_nodes(tmp_path / "hdfs") as name_nodes:
        use(name_nodes.server, monkeypatch)
        lake = StorePath(name_nodes.server.root, "lake")
        must_survive(IN_HDFS, own_stack, lake, tmp_path, {"NameNode": name_nodes.kill_active})


def must_survive(
    killed: Killed, stack: Stack, lake: StorePath, folder: Path, of_store: Mapping[str, Callable[[], None]]
) -> None:
    """`of_store`: how what belongs to the lake's store is killed."""
    instance = stack.create_instance("cluster-kills")
    bootstrap = str(instance["bootstrap_servers"])
    generator = seeded()
    fill(Topics(bootstrap), killed.rounds, generator)
    with standalone_cluster(folder / "cluster") as cluster:
        load = StoredLoad(stack, lake, instance, *cluster.options)
        load.start()
        for kind in generator.sample(killed.kills, len(killed.kills)):
            a_moment(load, generator)
            load.must_run()
            print(f"{time.strftime('%X')} {load.commits()} commits: {kind}", flush=True)
            if kind in of_store:
                of_store[kind]()
            else:
                kill(kind, load, cluster, generator)
        assert [one["error"] for one in load.finish()] == [""] * len(CODECS)
    must_hold_what_a_consumer_reads(load, 2 * killed.rounds * AT_ONCE, bootstrap)


def fill(topics: Topics, rounds: int, generator: random.Random) -> None:
    """Without transactions, in some that are committed, in some that are not."""
    topics.create(*CODECS, partitions=PARTITIONS)
    for codec in CODECS:
        settings = {"compression.type": codec, "enable.idempotence": True}
        for _ in range(rounds):
            topics.produce(codec, records(generator, AT_ONCE), **settings)
            topics.abort(codec, records(generator, ABORTED), **settings)
            in_transaction = settings | {"transactional.id": f"commits-{codec}"}
            topics.produce(codec, records(generator, AT_ONCE), **in_transaction)


def records(generator: random.Random, count: int) -> Iterator[Record]:
    for n in range(count):
        value = None if n % 97 == 0 else generator.randbytes(60) + b"a line like others " * 5
        key = None if n % 89 == 0 else b"%d" % generator.randrange(10**6)
        headers = [("trace", b"%d" % n)] if n % 10 == 0 else []
        yield Record(value, key, generator.randrange(PARTITIONS), headers=headers)


def a_moment(load: StoredLoad, generator: random.Random) -> None:
    """Some commits later, and anywhere in a batch."""
    wanted = load.commits() + generator.randint(0, COMMITS_PER_KILL_MAX)
    deadline = time.monotonic() + RUN_TIMEOUT_S
    while load.commits() < wanted:
        load.must_run()
        assert time.monotonic() < deadline, "the job does not commit"
        time.sleep(0.1)
    time.sleep(generator.uniform(0, 4))


def kill(kind: str, load: StoredLoad, cluster: Standalone, generator: random.Random) -> None:
    """The load goes on by itself without an executor, and where it was when it is started again."""
    if kind == "executor":
        deadline = time.monotonic() + RUN_TIMEOUT_S
        while not cluster.kill_an_executor(generator):
            assert time.monotonic() < deadline, "there is none"
            time.sleep(0.1)
        return
    java = load.java()
    if kind == "its Java" and java is not None:
        os.kill(java, signal.SIGKILL)
        # PySpark's own server of accumulators shows, between such lines, what a request of it met.
        ours = re.sub(
            r"-{40}\nException occurred during processing.*?-{40}\n", "", load.fail(), flags=re.DOTALL
        )
        assert "Traceback" not in ours
    else:
        load.kill_now()
        time.sleep(LEASE_S + 2)  # nobody gives the tables back
    load.start()


def must_hold_what_a_consumer_reads(load: StoredLoad, count: int, bootstrap: str) -> None:
    """`count`: committed records of each topic."""
    topics = SourceOffsets(KafkaSource(bootstrap)).topics(CODECS)
    assert len(load.stored()) == len(CODECS)
    for codec, topic in topics.items():
        [path] = [each for each in load.stored() if each.name == f"{codec}-{topic.id}"]
        found = in_order(DeltaTable(str(path)).to_pyarrow_table(columns=[*COLUMNS]))
        expected = in_order(consumed(bootstrap, codec, topic.id))
        places = found.group_by(["partition", "offset"]).aggregate([([], "count_all")])
        assert found.num_rows == places.num_rows == expected.num_rows == count, codec
        assert found == expected, codec


def in_order(table: pa.Table) -> pa.Table:
    return table.sort_by([("partition", "ascending"), ("offset", "ascending")]).combine_chunks()


def consumed(bootstrap: str, name: str, topic_id: str) -> pa.Table:
    """Of COLUMNS: what is committed in a topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "plain",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(name, each, 0) for each in range(PARTITIONS)])
    rows: list[tuple[Any, ...]] = []
    ended: set[int | None] = set()
    while len(ended) < PARTITIONS:
        for message in consumer.consume(10_000, 1.0):
            if (error := message.error()) is None:
                rows.append((topic_id, message.partition(), message.offset(), message.key(), message.value()))
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended.add(message.partition())
    consumer.close()
    kinds = (pa.string(), pa.int32(), pa.int64(), pa.binary(), pa.binary())
    arrays = [pa.array(values, kind) for values, kind in zip(zip(*rows, strict=True), kinds, strict=True)]
    return pa.Table.from_arrays(arrays, names=[*COLUMNS])

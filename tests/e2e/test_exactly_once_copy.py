"""A copy by transactions, with aborts and kills of the copier and of brokers: one committed copy of each."""

import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.e2e.cluster import Cluster
from tests.e2e.records import CountingProducer, create_topic
from tests.integration.stack import ROOT

PARTITIONS = 3
DONE_WITHIN_S = 120.0


class Copying:
    """Keeps one copier process alive; `kill` ends the one that runs."""

    def __init__(self, bootstrap: str, log: Path, seed: int) -> None:
        self._bootstrap, self._log, self._seed = bootstrap, log, seed
        self._stopping = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self.starts = 0
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self.starts += 1
            command = [
                sys.executable,
                "-m",
                "tests.e2e.copier",
                self._bootstrap,
                str(self._seed + self.starts),
            ]
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
            self._process.wait()
            time.sleep(0.2)

    def kill(self) -> None:
        """kill -9 of the copier."""
        if self._process is not None:
            self._process.kill()

    def __enter__(self) -> "Copying":
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stopping.set()
        self.kill()
        self._thread.join()


class Committed:
    """Reads `output` as read_committed from the start on."""

    def __init__(self, bootstrap: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "judge",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
            }
        )
        self._consumer.assign([TopicPartition("output", index, 0) for index in range(PARTITIONS)])
        self.values: dict[int, list[int]] = {index: [] for index in range(PARTITIONS)}

    def read(self, seconds: float) -> int:
        """Read on for a while; how many records have been read in all."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for message in self._consumer.consume(1000, 0.2):
                assert message.error() is None or message.error().retriable(), message.error()
                if message.error() is None:
                    self.values[message.partition()].append(int(message.value()))
        return sum(map(len, self.values.values()))

    def close(self) -> None:
        self._consumer.close()


def _copy_under_faults(cluster: Cluster, tmp_path: Path, seed: int, rounds: int) -> None:
    chance = random.Random(seed)
    print(f"seed {seed}")
    instance = cluster.stack.create_instance(f"copy-{seed}")
    bootstrap = instance["bootstrap_servers"]
    for name in ("input", "output"):
        create_topic(bootstrap, name, PARTITIONS)
    judge = Committed(bootstrap)
    with Copying(bootstrap, tmp_path / "copier.log", seed) as copying:
        with CountingProducer(bootstrap, "input", PARTITIONS, rate_per_s=500) as source:
            for _ in range(rounds):
                time.sleep(chance.uniform(0.5, 3.0))
                if chance.random() < 0.5:
                    copying.kill()
                else:
                    cluster.kill(chance.choice([1, 2, 3]))
                    cluster.until_in_sync(f"{instance['id']}.output")
                source.wait_for_progress(200)
        assert source.failed == []
        deadline = time.monotonic() + DONE_WITHIN_S
        while judge.read(1.0) < source.count():
            assert time.monotonic() < deadline, (judge.read(0.1), source.count(), copying.starts)
        judge.read(2.0)  # a second copy would come now
    judge.close()
    for partition, acknowledged in source.acknowledged.items():
        assert judge.values[partition] == sorted(acknowledged), "copied not at all, twice or out of order"


@pytest.mark.timeout(300)
def test_each_record_has_one_committed_copy(cluster: Cluster, tmp_path: Path) -> None:
    _copy_under_faults(cluster, tmp_path, seed=1, rounds=3)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(2, 7))
def test_more_of_it(cluster: Cluster, tmp_path: Path, seed: int) -> None:
    _copy_under_faults(cluster, tmp_path, seed, rounds=12)

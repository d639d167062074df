"""The mirror under load and kill -9 at random moments: the target is the source, record for record."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from pyspark.sql import SparkSession

from tests.integration.stack import ROOT, Stack, running_stack
from tests.pipeline.mirroring import RECENT_MS, Mirrors, Side, contents

PARTITIONS: Final = 12


class Load:
    """A producer that runs until it is told to stop."""

    def __init__(self, side: Side, topic: str, records_per_s: int) -> None:
        self._side, self._topic, self._records_per_s = side, topic, records_per_s
        self.count = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        producer = self._side.producer(**{"enable.idempotence": True, "compression.type": "lz4"})
        random_bytes = random.Random(7)
        while not self._stopping.wait(0.1):
            for _ in range(self._records_per_s // 10):
                producer.produce(
                    self._topic,
                    key=b"%d" % self.count,
                    value=random_bytes.randbytes(random_bytes.randrange(200)),
                    headers=[("number", b"%d" % self.count)] if self.count % 10 == 0 else None,
                    partition=self.count % PARTITIONS,
                    timestamp=RECENT_MS + self.count,
                )
                self.count += 1
            producer.poll(0)
        assert producer.flush(60) == 0

    @contextmanager
    def running(self) -> Iterator["Load"]:
        self._thread.start()
        try:
            yield self
        finally:
            self._stopping.set()
            self._thread.join()


class MirrorProcess:
    """`portico pipeline mirror` in a process group of its own."""

    def __init__(self, stack: Stack, west: Side, east: Side, log: Path) -> None:
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "runtime.start", "ctl.main", "pipeline", "mirror"),
                    *(west.name, east.name, "--topic", "load", "--rename", "same", "--json"),
                    *("--continuous", "--data-dir", str(stack.data_dir)),
                ],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=output,
                start_new_session=True,
            )

    def kill(self) -> None:
        """kill -9 of the group: the driver and the JVM. Python workers have a group of their own and live on
        until they notice, as the writers that fences are for."""
        assert self._process.poll() is None, "the mirror ended by itself"
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def positions(east: Side) -> int:
    """How many records there are at the target, open transactions and markers included. What was killed
    before may still be on its way up."""
    quiet = {"log_level": 0, "enable.metrics.push": False}
    consumer = Consumer({"bootstrap.servers": east.bootstrap, "group.id": "watcher", **quiet})
    deadline = time.monotonic() + 60
    try:
        while True:
            try:
                places = [TopicPartition("load", partition) for partition in range(PARTITIONS)]
                return sum(consumer.get_watermark_offsets(place, timeout=10)[1] for place in places)
            except KafkaException:
                if time.monotonic() > deadline:
                    raise
    finally:
        consumer.close()


def kill_while_it_writes(kill: Callable[[], None], east: Side, moment: random.Random) -> None:
    """Kill something at a random moment after the target began to grow."""
    before = positions(east)
    deadline = time.monotonic() + 120
    while positions(east) == before and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(moment.random() * 1.5)
    kill()


def restart(stack: Stack, group: str) -> None:
    """kill -9 a gateway worker or the broker, and wait until another runs."""
    stack.wait_for_restart(group, stack.kill(group))


def mirror_under_load(
    stack: Stack, mirrors: Mirrors, tmp_path: Path, lives: int, services: tuple[str, ...]
) -> None:
    """Lives of a mirror while a producer runs; in each the services are killed and then the mirror itself.
    Then a run to the end, and everything is compared."""
    moment = random.Random(lives)
    west, east = Side(stack, "from"), Side(stack, "to")
    for side in (west, east):
        side.create("load", PARTITIONS)
    west.produce("load", 20_000 * lives, PARTITIONS)
    log = tmp_path / "mirror.log"
    with Load(west, "load", 2_000).running() as load:
        for _ in range(lives):
            mirror = MirrorProcess(stack, west, east, log)
            for service in services:
                kill_while_it_writes(partial(restart, stack, service), east, moment)
            kill_while_it_writes(mirror.kill, east, moment)
    assert load.count > 0
    summary = mirrors.run(west, east, "load", rename="same")

    expected, found = west.read("load", PARTITIONS), east.read("load", PARTITIONS)
    for at_source, at_target in zip(contents(expected), contents(found), strict=True):
        assert len(at_target) == len(at_source)
        different = [pair for pair in zip(at_source, at_target, strict=True) if pair[0] != pair[1]]
        assert different[:3] == []
    assert sum(track.lag for track in summary.tracks) == 0
    for partition in found:
        offsets = [int(seen.lineage[0].rsplit("/", 1)[1]) for seen in partition]
        assert offsets == sorted(set(offsets)), "order or uniqueness of source offsets"


@pytest.mark.timeout(400)
def test_a_mirror_killed_under_load_loses_and_repeats_nothing(
    stack: Stack, spark: SparkSession, tmp_path: Path
) -> None:
    mirror_under_load(stack, Mirrors(spark), tmp_path, 1, ())


@pytest.mark.long
@pytest.mark.timeout(3000)
def test_mirror_gateway_and_broker_killed_in_turn_under_load(spark: SparkSession, tmp_path: Path) -> None:
    with running_stack(tmp_path / "data") as stack:
        mirror_under_load(stack, Mirrors(spark), tmp_path, 7, ("gateways", "brokers"))

"""The disk of one broker is full: others take over, the doctor says so, and with room it comes back."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.records import CountingProducer, read_all
from tests.integration.broker.process import ROOT, BrokerProcess
from tests.integration.broker.raw import request
from tests.integration.cluster.brokers import Cluster, eventually
from tests.integration.faults.conftest import World
from wire.codec import duration

PARTITIONS = 8
NEW = 4
MOUNT = 'mount -t tmpfs -o size="$1" tmpfs "$2" && shift 2 && exec "$@"'


def _on_small_disk(size: str, directory: Path) -> tuple[str, ...]:
    """A prefix for a command, which then sees a new, small disk at this directory."""
    return ("unshare", "-rm", "sh", "-c", MOUNT, "sh", size, str(directory))


@pytest.fixture
def small_disk(tmp_path: Path) -> Path:
    """Where to mount a small disk. Mounting needs user namespaces."""
    found = subprocess.run([*_on_small_disk("1m", tmp_path), "true"], capture_output=True, text=True)
    if found.returncode != 0:
        pytest.skip(f"a small disk cannot be mounted here: {found.stderr.strip()}")
    return tmp_path


def _doctor(world: World) -> str:
    cluster = world.cluster
    command = [
        sys.executable,
        "-m",
        "ctl.main",
        "doctor",
        "--cluster",
        "--json",
        "--bootstrap",
        cluster.addresses,
    ]
    told = subprocess.run(
        [*command, "--secret-file", str(cluster.secret_file), "--zookeeper", cluster.zookeeper],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return told.stdout


def _brokers(cluster: Cluster) -> set[int]:
    return {int(each.node_id) for each in cluster.metadata("x", node_id=cluster.controller_id()).brokers}


@pytest.fixture
def fourth(cluster: Cluster, small_disk: Path) -> Iterator[BrokerProcess]:
    """A broker with a small disk, which leaves no trace in the cluster."""
    broker = cluster.add(NEW, "--log-dirs", str(small_disk))
    broker.prefix = _on_small_disk("4m", small_disk)
    broker.start()
    yield broker
    asked = request(20, 3, topic_names=("filling",), timeout=duration(20_000))
    answer = cluster.call(cluster.controller_id(), asked)
    broker.kill()
    del cluster.brokers[NEW]
    eventually(lambda: _brokers(cluster), lambda ids: NEW not in ids)
    assert [each.error_code.value for each in answer.responses] == [0]


def test_a_full_disk_costs_one_replica(
    world: World, cluster: Cluster, small_disk: Path, fourth: BrokerProcess
) -> None:
    eventually(lambda: _brokers(cluster), lambda ids: NEW in ids)
    cluster.create("filling", PARTITIONS)
    led = [index for index in range(PARTITIONS) if cluster.leader("filling", index) == NEW]
    assert led, "the new broker leads something"
    security = cluster.config()
    with CountingProducer(
        cluster.addresses, "filling", PARTITIONS, config=security, padding=1000
    ) as producer:
        for index in led:
            cluster.leader("filling", index, but=NEW)
        told = eventually(lambda: _doctor(world), lambda text: "log directory" in text)
        assert f"log directory {small_disk} has failed" in told
        assert "with a failed log directory" in told
        producer.wait_for_progress(1000)
        fourth.kill()
        fourth.prefix = _on_small_disk("400m", small_disk)
        fourth.start()
        producer.wait_for_progress(1000)
    for index in range(PARTITIONS):
        cluster.until_in_sync("filling", index)
    assert producer.failed == []
    for partition, acknowledged in producer.acknowledged.items():
        assert read_all(cluster.addresses, "filling", partition, config=security) == acknowledged

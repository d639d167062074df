"""A backup of a stack in front of an Apache Kafka: control store and secrets; records stay where they are."""

import subprocess
import sys
from pathlib import Path

import pytest

from ctl.bench.apache_kafka import kafka_cluster
from ctl.kafka.cluster import Wish
from tests.integration.apache.conftest import FEW
from tests.integration.apache.test_backend import consumed, produced, until
from tests.integration.apache.test_quota import answers
from tests.integration.stack import ROOT, running_stack

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]
PASSPHRASE = "a passphrase of this test"


def portico(*arguments: str, passphrase: Path) -> str:
    told = subprocess.run(
        [
            *(sys.executable, "-m", "runtime.start", "ctl.main", *arguments),
            *("--passphrase-file", str(passphrase)),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert told.returncode == 0, told.stdout + told.stderr
    return told.stdout + told.stderr


@pytest.mark.long
def test_a_lost_control_store_comes_back_before_the_same_kafka(tmp_path: Path) -> None:
    """Instances serve what the cluster kept all the time; of what came later nothing is deleted."""
    passphrase, archive = tmp_path / "passphrase", tmp_path / "backup"
    passphrase.write_text(PASSPHRASE)
    with kafka_cluster(tmp_path / "kafka", Wish(brokers=1), settings=FEW, heap="512m") as [broker]:
        backend = ("--backend", f"127.0.0.1:{broker.port}", "--deletion-grace", "0")
        first, second = tmp_path / "first", tmp_path / "second"
        with running_stack(first, *backend) as stack:
            instance = stack.create_instance("shop")
            stack.api("POST", f"instances/{instance['id']}/topics", {"name": "t", "partitions": 1})
            produced(instance, "t", [b"before"])
            secret = first / "credentials" / "apache-1" / "password"
            secret.parent.mkdir(parents=True)
            secret.write_text("of the cluster")
            told = portico("backup", str(archive), "--data-dir", str(first), passphrase=passphrase)
            assert "keeps its own" in told
            produced(instance, "t", [b"after"])
        portico("restore", str(archive), "--data-dir", str(second), passphrase=passphrase)
        kept = second / "credentials" / "apache-1" / "password"
        assert kept.read_text() == "of the cluster" and kept.stat().st_mode & 0o077 == 0
        kept.unlink()  # this cluster asks for none
        with running_stack(second, *backend) as stack:
            until(lambda: answers(stack), "no control plane")
            instance = stack.wait_for_state(instance["id"], "running")
            assert consumed(instance, "t", "g", 2) == [b"before", b"after"]

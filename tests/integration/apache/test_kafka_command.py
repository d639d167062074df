"""`portico kafka`: a real cluster, started, killed and stopped as people do."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.integration.stack import ROOT

pytestmark = pytest.mark.java
_WITHIN_S = 120.0


def kafka(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "runtime.start", "ctl.main", "kafka", *arguments],
        cwd=ROOT,
        text=True,
        capture_output=True,
        timeout=_WITHIN_S * 2,
    )


def until(holds: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + _WITHIN_S
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.2)


@pytest.fixture
def data_dir(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "kafka"
    kafka("stop", "--data-dir", str(tmp_path / "kafka"))


def status(data_dir: Path) -> dict[str, Any]:
    told = kafka("status", "--data-dir", str(data_dir), "--json")
    found: dict[str, Any] = json.loads(told.stdout)
    assert told.returncode == (0 if all(one["known"] == 3 for one in found["brokers"]) else 1)
    return found


def node_pid(data_dir: Path, node_id: int) -> int | None:
    """The process that was started with a node's settings."""
    settings = str(data_dir / f"kafka-{node_id}" / "server.properties").encode()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if settings in path.read_bytes().split(b"\0"):
                return int(path.parent.name)
        except OSError:
            continue
    return None


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_cluster_survives_the_kill_of_a_node_and_of_its_supervisor(data_dir: Path) -> None:
    option = ("--data-dir", str(data_dir))
    started = kafka("start", "--brokers", "3", "--detach", *option)
    assert started.returncode == 0, started.stderr
    bootstrap = status(data_dir)["bootstrap"]
    assert bootstrap in started.stdout and "Apache Kafka 4.3.1 serves" in started.stdout
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("kept", 1, 3)])["kept"].result(60)
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    producer.produce("kept", b"before")
    assert producer.flush(60) == 0

    killed = node_pid(data_dir, 2)
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    until(lambda: node_pid(data_dir, 2) not in (None, killed), "the node was not started again")
    until(lambda: all(one["known"] == 3 for one in status(data_dir)["brokers"]), "the cluster is not whole")

    for name in ("keeper", "supervisor"):  # in this order: a keeper would start another supervisor
        os.kill(json.loads((data_dir / "run" / f"{name}.json").read_text())["pid"], signal.SIGKILL)
    again = kafka("start", "--detach", *option)
    assert again.returncode == 0, again.stderr
    assert status(data_dir)["version"] == "4.3.1"
    consumer = Consumer({"bootstrap.servers": status(data_dir)["bootstrap"], "group.id": "g"})
    consumer.assign([TopicPartition("kept", 0, 0)])
    message = consumer.poll(60)
    consumer.close()
    assert message is not None and message.error() is None and message.value() == b"before"

    second = kafka("start", *option)
    assert second.returncode == 1 and "already running" in second.stderr
    assert kafka("stop", *option).returncode == 0
    assert not status(data_dir)["running"]
    assert kafka("stop", *option).returncode == 1
    assert [node_pid(data_dir, node_id) for node_id in (1, 2, 3)] == [None, None, None]


@pytest.mark.long
@pytest.mark.timeout(400)
def test_an_older_release_serves(data_dir: Path) -> None:
    option = ("--data-dir", str(data_dir))
    started = kafka("start", "--version", "3.9.1", "--tls", "--sasl", "PLAIN", "--detach", *option)
    assert started.returncode == 0, started.stderr
    assert "Apache Kafka 3.9.1 serves" in started.stdout
    told = json.loads(kafka("status", *option, "--json").stdout)
    assert (told["entry"], told["brokers"][0]["known"]) == ("SASL_SSL", 1)
    credentials = data_dir / "credentials"
    assert f"--password-file {credentials / 'password'}" in started.stdout
    client = {
        "bootstrap.servers": told["secured_bootstrap"],
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "portico",
        "ssl.ca.location": str(credentials / "ca.pem"),
    }
    right = (credentials / "password").read_text().strip()
    assert AdminClient(client | {"sasl.password": right}).list_topics(timeout=60).cluster_id
    with pytest.raises(KafkaException):
        AdminClient(client | {"sasl.password": "wrong"}).list_topics(timeout=10)


def test_nothing_there_has_no_status(tmp_path: Path) -> None:
    told = kafka("status", "--data-dir", str(tmp_path))
    assert told.returncode == 1 and "holds no Apache Kafka" in told.stderr

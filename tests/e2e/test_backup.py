"""A backup taken under load brings a deployment back whose control store and metadata are lost."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, TopicPartition

from ctl.stack.layout import Layout
from ctl.stack.leftovers import left
from tests.e2e.cluster import Cluster
from tests.e2e.records import CountingProducer, create_topic, read_all
from tests.e2e.test_commands import answer
from tests.integration.stack import ROOT, Stack

PASSPHRASE: Final = "correct horse battery"


def command(data_dir: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """A command beside a stack, or on the data directory of one that is stopped."""
    return subprocess.run(
        [sys.executable, "-m", "runtime.start", "ctl.main", *words],
        cwd=ROOT,
        env=os.environ | {"PORTICO_BACKUP_PASSPHRASE": PASSPHRASE, "PORTICO_DATA_DIR": str(data_dir)},
        capture_output=True,
        text=True,
        timeout=120,
    )


def done(data_dir: Path, *words: str) -> Any:
    ended = command(data_dir, *words, "--json")
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def until(holds: Callable[[], Any], within_s: float = 90.0) -> Any:
    deadline = time.monotonic() + within_s
    while not (found := holds()):
        assert time.monotonic() < deadline, "it did not come to hold"
        time.sleep(0.1)
    return found


def commit(bootstrap: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers"})
    consumer.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)
    consumer.close()


def committed(bootstrap: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers"})
    [found] = consumer.committed([TopicPartition("orders", 0)], timeout=60)
    consumer.close()
    return int(found.offset)


def crash(stack: Stack) -> None:
    """kill -9 everything that holds anything, and the supervisor before it can start it again."""
    layout = Layout(stack.data_dir)
    supervisor = layout.pid_of("supervisor")
    assert supervisor is not None
    pids = [pid for group in ("brokers", "control") for pid in stack.facts["pids"][group]]
    os.kill(supervisor, signal.SIGSTOP)
    for pid in (*pids, supervisor):
        os.kill(pid, signal.SIGKILL)
    stack.stop()
    until(lambda: not left(layout))


def lose(data_dir: Path) -> None:
    """What was on a disk that died: control store and metadata. The logs are on others."""
    shutil.rmtree(data_dir / "control")
    shutil.rmtree(data_dir / "zookeeper", ignore_errors=True)
    for path in data_dir.glob("broker-*/metadata.sqlite*"):
        path.unlink()


@pytest.mark.parametrize("brokers", [pytest.param(1, marks=pytest.mark.long), 3])
def test_nothing_acknowledged_is_lost(tmp_path: Path, brokers: int) -> None:
    data_dir, file = tmp_path / "data", tmp_path / "backup.zip"
    stack = Stack(data_dir, "--workers", "1", "--brokers", str(brokers)).start()
    try:
        _drill(stack, file, brokers)
    finally:
        stack.stop()


def _drill(stack: Stack, file: Path, brokers: int) -> None:
    data_dir = stack.data_dir
    shop = stack.create_instance("shop")
    bootstrap = str(shop["bootstrap_servers"])
    create_topic(bootstrap, "orders")
    commit(bootstrap, 3)
    with CountingProducer(bootstrap, "orders") as load:
        load.wait_for_progress(500)
        told = done(data_dir, "backup", str(file))
        assert told["cluster"]["brokers"] == list(range(1, brokers + 1))
        assert file.stat().st_mode & 0o777 == 0o600
        # what is made from here on the backup does not know
        create_topic(bootstrap, "later")
        with CountingProducer(bootstrap, "later") as later:
            later.wait_for_progress(100)
        younger = stack.create_instance("younger")
        create_topic(str(younger["bootstrap_servers"]), "orders")
        with CountingProducer(str(younger["bootstrap_servers"]), "orders") as theirs:
            theirs.wait_for_progress(100)
        commit(bootstrap, 11)
        if brokers > 1:  # another leader in another epoch, and an ISR other than the backup's
            _move_leader(stack, f"{shop['id']}.orders")
        load.wait_for_progress(500)
    refused = command(data_dir, "restore", str(file))
    assert refused.returncode == 1 and "stop it first" in refused.stderr
    crash(stack)
    lose(data_dir)
    changed = done(data_dir, "restore", str(file))["changed"]
    assert {f"{shop['id']}.later", f"{younger['id']}.orders"} <= set(changed["found"])
    assert changed["empty"] == []
    made = [*(data_dir / "control").iterdir(), data_dir / "broker-1" / "metadata.sqlite"]
    assert not [path for path in made if path.stat().st_mode & 0o077], "they are for their owner"
    stack.start()
    stack.wait_for_state(shop["id"], "running")
    assert read_all(bootstrap, "orders", 0)[: load.count()] == load.acknowledged[0]
    assert read_all(bootstrap, "later", 0) == later.acknowledged[0]
    assert committed(bootstrap) == 11
    with CountingProducer(bootstrap, "later") as again:
        again.wait_for_progress(100)
    assert read_all(bootstrap, "later", 0) == later.acknowledged[0] + again.acknowledged[0]
    _adopt(stack, younger, theirs.acknowledged[0])


def _move_leader(stack: Stack, topic: str) -> None:
    cluster = Cluster(stack)
    cluster.until_in_sync(topic)
    cluster.kill(cluster.leader(topic, 0))
    cluster.until_in_sync(topic)


def _adopt(stack: Stack, younger: dict[str, Any], records: list[int]) -> None:
    # the gateway knows its name, and may tell after the broker
    absent = until(lambda: [one for one in stack.api("GET", "absent-instances")["items"] if one["name"]])
    assert [(one["id"], one["name"]) for one in absent] == [(younger["id"], "younger")]
    assert answer(stack, "instance", "adopt", younger["id"], "--tenant", "default")["id"] == younger["id"]
    stack.wait_for_state(younger["id"], "running")
    assert read_all(str(younger["bootstrap_servers"]), "orders", 0) == records

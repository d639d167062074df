"""Processes that hang, a supervisor that is killed, and a vport that somebody else holds."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ctl.stack.layout import free_port
from tests.integration.stack import ROOT, Stack
from tests.vports import Vports

_WITHIN_S = 90.0


def until(holds: Callable[[], Any], what: str) -> Any:
    """Wait for a state."""
    deadline = time.monotonic() + _WITHIN_S
    while not (found := holds()):
        assert time.monotonic() < deadline, what
        time.sleep(0.1)
    return found


def portico(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "runtime.start", "ctl.main", *arguments],
        cwd=ROOT,
        text=True,
        capture_output=True,
        timeout=_WITHIN_S,
    )


def facts(data_dir: Path) -> dict[str, Any]:
    try:
        read: dict[str, Any] = json.loads((data_dir / "stack.json").read_text())
    except (OSError, ValueError):
        return {}
    return read


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Stack]:
    stack = Stack(tmp_path / "data", "--hang-timeout-ms", "3000", "--workers", "1").start()
    yield stack
    stack.stop()


@pytest.mark.parametrize(
    "group", ["brokers", *(pytest.param(each, marks=pytest.mark.long) for each in ("gateways", "control"))]
)
def test_a_process_that_hangs_is_started_again_with_a_reason(own: Stack, group: str) -> None:
    """Stopped by SIGSTOP it lives, keeps its port, and answers nobody."""
    hung = int(own.facts["pids"][group][0])
    os.kill(hung, signal.SIGSTOP)
    own.wait_for_restart(group, hung, within_s=_WITHIN_S)
    [(name, restart)] = own.facts["restarts"].items()
    assert name.startswith(group.removesuffix("s"))
    assert restart["count"] == 1 and "hung (no sign of life for 3 s)" in restart["reason"]
    told = portico("doctor", "--json", "--data-dir", str(own.data_dir))
    findings = {each["subject"]: each for each in json.loads(told.stdout)}
    assert findings[name]["level"] == "warn" and "hung" in findings[name]["found"]


@pytest.mark.long
def test_a_vport_that_somebody_holds_is_tried_again(own: Stack) -> None:
    """While the stack was down another program took it: the instance waits for it, and says for what."""
    instance = own.create_instance("waits")
    other = own.create_instance("neighbour")
    host, _, port = instance["bootstrap_servers"].rpartition(":")
    own.stop()
    with socket.socket() as squatter:
        squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        squatter.bind((host, int(port)))
        squatter.listen()
        own.start()
        own.wait_for_state(other["id"], "running")
        failed = own.wait_for_state(instance["id"], "failed")
        assert failed["state_reason"] == f"port in use: another program listens on {host}:{port}"
    again = own.wait_for_state(instance["id"], "running", within_s=_WITHIN_S)
    assert again["bootstrap_servers"] == instance["bootstrap_servers"]
    assert AdminClient({"bootstrap.servers": again["bootstrap_servers"]}).list_topics(timeout=20).brokers


def test_a_vport_that_is_lost_while_the_stack_runs_is_tried_again(own: Stack) -> None:
    """Gateway workers die, and a program that shares ports with nobody is faster than their successors."""
    instance = own.create_instance("loses")
    host, _, port = instance["bootstrap_servers"].rpartition(":")
    with socket.socket() as squatter:
        squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        killed = own.kill("gateways")
        while True:
            try:
                squatter.bind((host, int(port)))
                squatter.listen()
                break
            except OSError:
                with contextlib.suppress(ProcessLookupError):  # it ended, and the facts say so later
                    killed = own.kill("gateways") if own.facts["pids"]["gateways"] else killed
        failed = own.wait_for_state(instance["id"], "failed", within_s=_WITHIN_S)
        assert f"{host}:{port}" in failed["state_reason"]
    own.wait_for_state(instance["id"], "running", within_s=_WITHIN_S)
    assert AdminClient({"bootstrap.servers": f"{host}:{port}"}).list_topics(timeout=20).brokers


@pytest.fixture
def detached(tmp_path: Path) -> Iterator[Path]:
    data_dir = tmp_path / "data"
    vports = Vports()
    started = portico(
        *("up", "--detach", "--data-dir", str(data_dir), "--workers", "1"),
        *("--console", f"127.0.0.1:{free_port()}", "--vports", str(vports)),
    )
    assert started.returncode == 0, started.stderr
    assert "(shown once)" in started.stdout and "portico down" in started.stdout
    yield data_dir
    portico("down", "--data-dir", str(data_dir))


def test_a_killed_supervisor_is_started_again(detached: Path) -> None:
    """kill -9: its children end with it, another one is started, and what was acknowledged is there."""
    options = ("--data-dir", str(detached), "--json")
    bought = ("--produce-rate", "20MB/s", "--consume-rate", "20MB/s", "--capacity", "1GB", "--allow-all")
    made = json.loads(portico("instance", "create", "kept", *bought, *options).stdout)
    servers = made["bootstrap_servers"]
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic("t", 1, 1)])["t"].result(20)
    producer = Producer({"bootstrap.servers": servers})
    for number in range(100):
        producer.produce("t", b"%d" % number)
    assert producer.flush(30) == 0
    before = facts(detached)
    os.kill(before["supervisor"], signal.SIGKILL)
    now = until(
        lambda: (
            (found := facts(detached)).get("supervisor", before["supervisor"]) != before["supervisor"]
            and found
        ),
        "no supervisor came back",
    )
    assert not {*before["pids"]["brokers"]} & {*now["pids"]["brokers"]}
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "g"})
    consumer.assign([TopicPartition("t", 0, 0)])
    found = consumer.consume(100, 60)
    consumer.close()
    assert [message.value() for message in found] == [b"%d" % number for number in range(100)]
    again = portico("up", "--detach", "--data-dir", str(detached))
    assert again.returncode == 1 and "already running" in again.stderr
    assert portico("down", "--data-dir", str(detached)).returncode == 0
    assert not facts(detached)
    nothing = portico("down", "--data-dir", str(detached))
    assert nothing.returncode == 1 and "no stack runs" in nothing.stderr


def test_a_detached_stack_that_cannot_start_says_why(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        failed = portico("up", "--detach", "--data-dir", str(tmp_path), "--console", address)
    assert failed.returncode == 1
    assert f"the console cannot listen on {address}: it is taken" in failed.stderr


def test_the_systemd_unit_is_one(tmp_path: Path) -> None:
    unit = portico(
        "systemd-unit", "--user", "root", "--data-dir", str(tmp_path / "a b"), "--", "--brokers", "3"
    )
    assert unit.returncode == 0, unit.stderr
    lines = unit.stdout.splitlines()
    assert "Restart=always" in lines and "Type=notify" in lines and "UMask=0077" in lines
    [command] = [line for line in lines if line.startswith("ExecStart=")]
    assert command.endswith(f"/portico up --data-dir '{tmp_path / 'a b'}' --brokers 3")
    if (verify := shutil.which("systemd-analyze")) is not None:
        path = tmp_path / "portico.service"
        path.write_text(unit.stdout)
        checked = subprocess.run([verify, "verify", str(path)], text=True, capture_output=True, timeout=60)
        assert "portico.service" not in checked.stderr, checked.stderr


def test_gateways_are_exchanged_under_a_producer(own: Stack) -> None:
    """`portico gateway upgrade`: another process serves, the one before ends by itself, nothing is lost."""
    instance = own.create_instance("goes-on")
    servers = own.wait_for_state(instance["id"], "running")["bootstrap_servers"]
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic("t", 1, 1)])["t"].result(20)
    failed: list[object] = []
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    [before] = own.facts["pids"]["gateways"]
    ours = (sys.executable, "-m", "runtime.start", "ctl.main")
    upgrade = subprocess.Popen(
        [*ours, "gateway", "upgrade", "--data-dir", str(own.data_dir)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    sent = 0
    while upgrade.poll() is None or before in own.facts["pids"]["gateways"]:
        producer.produce("t", b"x", on_delivery=lambda error, _: failed.append(error) if error else None)
        producer.poll(0.01)
        sent += 1
    assert upgrade.returncode == 0, upgrade.communicate()[1]
    assert producer.flush(60) == 0 and not failed
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "g"})
    low, high = consumer.get_watermark_offsets(TopicPartition("t", 0), timeout=20)
    consumer.close()
    assert (low, high) == (0, sent)
    assert [name for name in own.facts["metrics"] if name.startswith("gateway")] == ["gateway-1"]
    own.wait_for_restart("gateways", own.kill("gateways"), within_s=_WITHIN_S)
    assert AdminClient({"bootstrap.servers": servers}).list_topics(timeout=20).brokers

"""`portico up --brokers 3`: ZooKeeper and three brokers as children of one stack."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from ctl.stack.zookeeper import is_serving
from runtime.config import parse_host_port
from tests.integration.stack import ROOT, Stack, running_stack

STOP_TIMEOUT_S = 10.0


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running_stack(tmp_path_factory.mktemp("cluster"), "--workers", "1", brokers=3) as stack:
        yield stack


def portico(stack: Stack, *arguments: str) -> "subprocess.CompletedProcess[str]":
    start = [sys.executable, "-m", "runtime.start", "ctl.main"]
    command = [*start, *arguments, "--data-dir", str(stack.data_dir)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)


def findings(stack: Stack) -> dict[str, dict[str, Any]]:
    told = json.loads(portico(stack, "doctor", "--json").stdout)
    return {finding["subject"]: finding for finding in told}


def test_the_stack_file_tells_all_brokers_and_zookeeper(stack: Stack) -> None:
    facts = stack.facts
    assert [broker["node_id"] for broker in facts["brokers"]] == [1, 2, 3]
    assert {broker["pid"] for broker in facts["brokers"]} == set(facts["pids"]["brokers"])
    [zookeeper] = facts["pids"]["zookeeper"]
    assert is_serving(*parse_host_port(facts["zookeeper"]))
    listening = [c.laddr.ip for c in psutil.Process(zookeeper).net_connections("tcp") if c.status == "LISTEN"]
    assert listening
    assert {address.removeprefix("::ffff:") for address in listening} == {"127.0.0.1"}


def test_the_doctor_looks_at_each(stack: Stack) -> None:
    told = findings(stack)
    assert told["brokers"]["found"] == "3 running"
    assert told["zookeeper"]["level"] == "ok"


def test_strangers_on_the_machine_touch_nothing_of_it(stack: Stack) -> None:
    """Not even the root: who may delete below it may end the controller's office."""
    attacks: list[Callable[[Any], object]] = [
        lambda client: client.get("/brokers/ids/1"),
        lambda client: client.delete("/controller"),
        lambda client: client.set("/controller_epoch", b"99"),
        lambda client: client.create("/mine", b""),
        lambda client: client.get_children("/"),
    ]
    client = KazooClient(stack.facts["zookeeper"])
    client.start(timeout=20)
    try:
        for attack in attacks:
            with pytest.raises(NoAuthError):
                attack(client)
    finally:
        client.stop()
        client.close()
    told = portico(stack, "doctor", "--cluster", "--json")
    assert told.returncode == 0, told.stdout + told.stderr


def test_zookeeper_killed_is_started_again_on_its_port(stack: Stack) -> None:
    address = stack.facts["zookeeper"]
    stack.wait_for_restart("zookeeper", stack.kill("zookeeper"))
    deadline = time.monotonic() + 20
    while not is_serving(*parse_host_port(address)):
        assert time.monotonic() < deadline, "ZooKeeper did not come back"
        time.sleep(0.05)
    assert stack.facts["zookeeper"] == address


def test_a_killed_broker_is_started_again(stack: Stack) -> None:
    killed = stack.kill_broker(2)
    stack.wait_for_broker(2, other_than=killed)


def test_fewer_brokers_than_before_are_refused_and_as_many_start_again(stack: Stack) -> None:
    processes = [pid for group in stack.facts["pids"].values() for pid in group]
    assert stack.stop() < STOP_TIMEOUT_S
    assert not [pid for pid in processes if psutil.pid_exists(pid)]
    refused = portico(stack, "up", "--brokers", "2")
    assert refused.returncode == 2
    assert refused.stderr.strip() == (
        "portico: --brokers: the data directory holds 3 brokers; their number may grow, not shrink"
    )
    again = Stack(stack.data_dir, "--workers", "1").start()
    try:
        assert [broker["node_id"] for broker in again.facts["brokers"]] == [1, 2, 3]
    finally:
        assert again.stop() < STOP_TIMEOUT_S

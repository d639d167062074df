"""Three real brokers: the quota moves to where the traffic is, and stays within T whatever dies."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from ctl.stack.layout import free_port
from tests.integration.quota.loads import PartitionLoad, rate
from tests.integration.stack import ROOT, Stack, running_stack

MB = 1_000_000
T = 2 * MB
ROUNDS_S = 5.0
"""Five report periods."""
SESSION_TIMEOUT_MS = 2_000
PARTITIONS = 3
"""One on each broker."""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    arguments = ("--workers", "1", "--session-timeout-ms", str(SESSION_TIMEOUT_MS))
    with running_stack(tmp_path_factory.mktemp("quota"), *arguments, brokers=3) as stack:
        yield stack


class Tenant:
    """An instance that bought T, and a topic with a partition on each broker."""

    def __init__(self, stack: Stack, name: str) -> None:
        self._stack = stack
        instance = stack.create_instance(name, produce_rate_bytes_per_s=T)
        self.id = str(instance["id"])
        self.bootstrap = str(instance["bootstrap_servers"])
        topic = stack.api("POST", f"instances/{self.id}/topics", {"name": "t", "partitions": PARTITIONS})
        self.leaders: list[int] = [each["leader"] for each in topic["partitions"]]
        assert sorted(self.leaders) == [1, 2, 3]
        self._wait_for_shares()

    def _wait_for_shares(self) -> None:
        deadline = time.monotonic() + 15
        while [each["partitions_led"] for each in self.quota()["brokers"]] != [1, 1, 1]:
            assert time.monotonic() < deadline, self.quota()
            time.sleep(0.1)

    def quota(self, seconds: int = 0) -> dict[str, Any]:
        """What the dashboard shows."""
        view: dict[str, Any] = self._stack.api("GET", f"instances/{self.id}/quota", seconds=seconds)
        return view

    def allocated(self) -> dict[int, int]:
        """q of produce, by broker."""
        return {each["node_id"]: each["produce"]["allocated_per_s"] for each in self.quota()["brokers"]}

    @contextmanager
    def load(self, *partitions: int) -> Iterator[list[PartitionLoad]]:
        """Full load on some partitions."""
        loads = [PartitionLoad(self.bootstrap, "t", partition) for partition in partitions]
        try:
            yield loads
        finally:
            for each in loads:
                each.stop()


def master_url(stack: Stack) -> str:
    """The internal server of the stack's control process."""
    return str(stack.facts["internal"])


def internal(stack: Stack) -> httpx.Client:
    """A client with the deployment's secret."""
    secret = (stack.data_dir / "internal.key").read_text().strip()
    return httpx.Client(headers={"Authorization": f"Bearer {secret}"}, trust_env=False, timeout=5)


def choose_policy(stack: Stack, policy: str) -> None:
    with internal(stack) as http:
        answer = http.put(f"{master_url(stack)}/internal/v1/policy", json={"policy": policy})
        assert answer.status_code == 200, answer.text


@pytest.fixture
def policy(stack: Stack) -> Iterator[Any]:
    """Chooses the rule, and the default at the end."""
    yield lambda name: choose_policy(stack, name)
    choose_policy(stack, "seed")


def test_a_hot_partition_gets_nearly_all_within_five_rounds(stack: Stack, policy: Any) -> None:
    tenant = Tenant(stack, "hot")
    hot = tenant.leaders[0]
    with tenant.load(0) as loads:
        time.sleep(ROUNDS_S)
        found = rate(loads, 5)
        assert 0.95 * T < found < 1.05 * T, f"{found / T:.3f} T"
        assert tenant.allocated() == {node: T if node == hot else T // 10 for node in (1, 2, 3)}
        policy("static")
        time.sleep(2.5)
        assert rate(loads, 3) == pytest.approx(T / 3, rel=0.15), "what a static split gives it"
    series = {each["node_id"]: each["produce"] for each in tenant.quota(60)["history"]["brokers"]}
    assert {T // 3, T} <= set(series[hot]["allocated_per_s"]), "the dashboard shows the move"
    assert T // 10 in series[hot % 3 + 1]["allocated_per_s"]


def test_operators_see_what_each_broker_leads_and_holds(stack: Stack) -> None:
    tenant = Tenant(stack, "seen")
    listed = stack.api("GET", "brokers")
    [cluster] = listed["clusters"]
    assert (cluster["brokers"], cluster["under_replicated"], cluster["offline"]) == (3, 0, 0)
    brokers = listed["items"]
    assert [(one["node_id"], one["alive"], one["live"]) for one in brokers] == [
        (node_id, True, True) for node_id in (1, 2, 3)
    ]
    assert [one["node_id"] for one in brokers if one["is_controller"]] == [cluster["controller_id"]]
    assert sum(one["leaders"] for one in brokers) == cluster["partitions"]
    assert all(one["replicas"] == one["in_sync"] == cluster["partitions"] for one in brokers)
    assert all(one["log_bytes"] >= 0 and one["under_replicated"] == 0 for one in brokers)
    found = stack.api("GET", "cluster/partitions", limit=1000)["items"]
    own = [one for one in found if one["instance_id"] == tenant.id]
    assert [(one["topic"], one["instance"], one["leader"]) for one in own] == [
        ("t", "seen", leader) for leader in tenant.leaders
    ]
    assert stack.api("GET", "cluster/partitions", under_replicated=True, offline=True) == {
        "items": [],
        "total": 0,
    }


@pytest.mark.long
@pytest.mark.parametrize("name", ["seed", "fair"])
def test_two_tenants_at_full_load_each_get_what_they_bought(stack: Stack, policy: Any, name: str) -> None:
    policy(name)
    tenants = [Tenant(stack, f"full-{name}-{number}") for number in (1, 2)]
    with tenants[0].load(0, 1, 2) as first, tenants[1].load(0, 1, 2) as second:
        time.sleep(10)
        before = [sum(each.carried for each in loads) for loads in (first, second)]
        time.sleep(10)
        after = [sum(each.carried for each in loads) for loads in (first, second)]
    for carried in (end - start for start, end in zip(before, after, strict=True)):
        assert 0.95 * T < carried / 10 < 1.06 * T, f"{carried / 10 / T:.3f} T"


@contextmanager
def another_master(stack: Stack, directory: Path) -> Iterator[str]:
    """`python -m master` beside the one of the stack; yields its URL."""
    address = f"127.0.0.1:{free_port()}"
    with (directory / "master.log").open("wb") as log:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "master", "--data-dir", str(directory / "master")),
                *("--control", master_url(stack), "--secret-file", str(stack.data_dir / "internal.key")),
                *("--zookeeper", stack.facts["zookeeper"], "--listen", address),
                *("--session-timeout-ms", str(SESSION_TIMEOUT_MS)),
            ],
            cwd=ROOT,
            stdout=log,
            stderr=log,
        )
        try:
            yield f"http://{address}"
        finally:
            process.terminate()
            process.wait(10)
            print((directory / "master.log").read_text())


@pytest.mark.long
def test_the_master_is_killed_in_the_middle(stack: Stack, tmp_path: Path) -> None:
    tenant = Tenant(stack, "failover")
    with another_master(stack, tmp_path) as url, internal(stack) as http, tenant.load(0) as loads:
        time.sleep(ROUNDS_S)
        assert rate(loads, 3) > 0.9 * T
        control = int(stack.facts["pids"]["control"][0])
        os.kill(control, signal.SIGSTOP)
        try:
            during = [rate(loads, 1) for _ in range(8)]
            assert max(during) < 1.15 * T and sum(during) / len(during) < 1.05 * T
            assert http.get(f"{url}/internal/v1/policy").status_code == 200, "the other one was elected"
            assert rate(loads, 5) > 0.95 * T
        finally:
            os.kill(control, signal.SIGCONT)
        assert rate(loads, 4) == pytest.approx(T, rel=0.05)
        answer = http.get(f"{master_url(stack)}/internal/v1/policy")
        assert answer.status_code == 503 and answer.json()["master"] == url
        assert tenant.allocated()[tenant.leaders[0]] == T, "the console asks the elected one"


@pytest.mark.long
def test_a_silent_brokers_share_is_free_when_its_partition_has_moved(stack: Stack) -> None:
    tenant = Tenant(stack, "silent")
    gone = tenant.leaders[2]
    with tenant.load(0, 1) as loads:
        time.sleep(ROUNDS_S)
        stack.signal_broker(gone, signal.SIGSTOP)
        try:
            time.sleep(SESSION_TIMEOUT_MS / 1000 + ROUNDS_S)
            brokers = tenant.quota()["brokers"]
            assert gone not in [each["node_id"] for each in brokers], brokers
            assert sum(each["partitions_led"] for each in brokers) == PARTITIONS
            assert tenant.quota()["produce"]["reserved_per_s"] == 0
            assert 0.93 * T < rate(loads, 5) < 1.07 * T
            lacking = stack.api("GET", "cluster/partitions", under_replicated=True, limit=1000)["items"]
            assert lacking[0]["instance_id"] is not None, "tenants' before the cluster's own"
            assert all(gone not in one["isr"] and gone in one["replicas"] for one in lacking)
            dead = next(one for one in stack.api("GET", "brokers")["items"] if one["node_id"] == gone)
            assert (dead["alive"], dead["leaders"], dead["in_sync"]) == (False, 0, 0)
        finally:
            stack.signal_broker(gone, signal.SIGCONT)


@pytest.mark.long
def test_a_fourth_broker_gets_listeners_and_a_share(tmp_path: Path) -> None:
    with running_stack(tmp_path / "data", "--workers", "1", brokers=3) as stack:
        tenant = Tenant(stack, "grown")
        ports = {each["node_id"]: each["port"] for each in listeners(stack, tenant.id)}
        stack.stop()
    with running_stack(tmp_path / "data", "--workers", "1", brokers=4) as stack:
        stack.wait_for_state(tenant.id, "running")
        now = {each["node_id"]: each["port"] for each in listeners(stack, tenant.id)}
        assert set(now) == {None, 1, 2, 3, 4} and ports.items() <= now.items()
        topic = stack.api("POST", f"instances/{tenant.id}/topics", {"name": "wide", "partitions": 4})
        assert sorted(each["leader"] for each in topic["partitions"]) == [1, 2, 3, 4]
        assert {len(each["replicas"]) for each in topic["partitions"]} == {3}
        deadline = time.monotonic() + 15
        while sum(each["partitions_led"] for each in tenant.quota()["brokers"]) != PARTITIONS + 4:
            assert time.monotonic() < deadline, tenant.quota()
            time.sleep(0.1)


def listeners(stack: Stack, instance_id: str) -> list[dict[str, Any]]:
    """As gateways are told of them."""
    request = {"consumer": "test", "kind": "master", "applied_revision": 0}
    with internal(stack) as http:
        answer = http.post(f"{master_url(stack)}/internal/v1/feed", json=request).json()
    [instance] = [each for each in answer["instances"] if each["instance_id"] == instance_id]
    return list(instance["listeners"])

"""What the chart renders starts, finds each other and carries records: the manifests' processes, here."""

import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.kubernetes.chart import one, render
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.test_monitoring import expressions

VALUES = {
    "broker": {"replicas": 3, "storage": {"volumes": 2}},
    "master": {"replicas": 1},
    "gateway": {"replicas": 1, "workers": 2, "vports": {"first": 20000, "last": 20029}},
    "zookeeper": {"mode": "bundled"},
    "monitoring": {"podMonitor": {"enabled": True}},
}

_NOT_HERE = {"portico_redis_up"}
"""Told where there is a Redis."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    running = Cluster(render(VALUES), tmp_path_factory.mktemp("kubernetes"))
    try:
        running.start_zookeeper()
        running.start("control", "broker", "gateway", "master")
        yield running
    finally:
        running.kill_all()


def _api(cluster: Cluster, path: str) -> httpx.Response:
    key = cluster.secrets["demo-portico-secrets"]["operator-key"]
    return httpx.get(
        cluster.url("demo-portico-console", 80) + path,
        headers={"Authorization": f"Bearer {key}"},
        timeout=30,
        trust_env=False,
    )


def test_a_record_goes_through(cluster: Cluster) -> None:
    """`helm test` as the chart says it: an instance, a topic with three replicas, acks=all, a group."""
    ran = cluster.run(one(cluster.manifests, "Pod", "-test"))
    assert ran.returncode == 0, ran.stderr
    assert "100 records went through" in ran.stdout


def test_brokers_have_the_ids_of_their_pods_and_names_that_stay(cluster: Cluster) -> None:
    brokers = _api(cluster, "/v1/brokers").json()["items"]
    assert {row["node_id"] for row in brokers} == {1, 2, 3}
    assert {pod.name for pod in cluster.of("broker")} == {f"demo-portico-broker-{n}" for n in (1, 2, 3)}
    for pod in cluster.of("broker"):
        volumes = sorted(path.name for path in (pod.directory / "volumes").glob("volume-*"))
        assert volumes == ["volume-0", "volume-1"]


def test_the_first_user_has_the_password_of_the_secret(cluster: Cluster) -> None:
    password = cluster.secrets["demo-portico-secrets"]["admin-password"]
    url = cluster.url("demo-portico-console", 80) + "/v1/session"
    for given, status in ((password, 201), ("wrong", 401)):
        answer = httpx.post(url, json={"user": "admin", "password": given}, timeout=30, trust_env=False)
        assert answer.status_code == status, answer.text


def test_disks_of_brokers_bound_no_sales_here(cluster: Cluster) -> None:
    (row,) = _api(cluster, "/v1/clusters").json()["items"]
    assert row["ceilings"]["capacity_bytes"] != shutil.disk_usage(cluster.directory).total


def test_what_the_pod_monitor_names_is_scraped(cluster: Cluster) -> None:
    monitor = one(cluster.manifests, "PodMonitor", "portico")
    secret = cluster.secrets["demo-portico-secrets"]["internal-secret"]
    scraped = set()
    for endpoint in monitor["spec"]["podMetricsEndpoints"]:
        for pod in cluster.pods:
            for container in pod.spec["containers"]:
                if endpoint["port"] not in {port["name"] for port in container["ports"]}:
                    continue
                url = f"http://{pod.address}:{pod.port(container, endpoint['port'])}{endpoint['path']}"
                answer = httpx.get(
                    url, headers={"Authorization": f"Bearer {secret}"}, timeout=30, trust_env=False
                )
                assert answer.status_code == 200, url
                assert "portico_" in answer.text, url
                assert httpx.get(url, timeout=30, trust_env=False).status_code == 401
                scraped.add((pod.name, container["name"]))
    wanted = {
        (pod.name, container["name"])
        for pod in cluster.pods
        if pod.component in ("control", "broker", "gateway", "master")
        for container in pod.spec["containers"]
    }
    assert scraped == wanted


@pytest.mark.long
def test_a_rolling_update_waits_for_brokers_to_be_in_sync(cluster: Cluster) -> None:
    """Each pod gets a signal, ends in order within its grace, and its successor becomes ready."""
    body = {
        "name": "rolled",
        "produce_rate_bytes_per_s": 10**6,
        "consume_rate_bytes_per_s": 10**6,
        "capacity_bytes": 10**8,
        "allow_all": True,
    }
    url = cluster.url("demo-portico-console", 80)
    key = cluster.secrets["demo-portico-secrets"]["operator-key"]
    with httpx.Client(
        base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=60, trust_env=False
    ) as api:
        instance = api.post("/v1/instances", json=body).raise_for_status().json()["id"]
        api.post(f"/v1/instances/{instance}/topics", json={"name": "t", "partitions": 6}).raise_for_status()
        for pod in cluster.of("broker"):
            assert cluster.stop(pod) == {"broker": 0}
            assert not cluster.is_ready(pod, pod.spec["containers"][0])
            cluster.start_again(pod)
            shown = api.get(f"/v1/instances/{instance}/topics/t").raise_for_status().json()
            node_id = int(pod.name.rpartition("-")[2])
            assert all(node_id in part["isr"] for part in shown["partitions"]), shown
        for component in ("master", "gateway", "control"):
            for pod in cluster.of(component):
                assert set(cluster.stop(pod).values()) == {0}
                cluster.start_again(pod)
    deadline = time.monotonic() + 60
    while True:
        ran = cluster.run(one(cluster.manifests, "Pod", "-test"))
        if ran.returncode == 0:
            break
        assert time.monotonic() < deadline, ran.stderr


def test_every_file_of_a_process_is_on_a_volume(cluster: Cluster, tmp_path: Path) -> None:
    """The images' root is read-only: what processes wrote is below what the manifests mount."""
    for pod in cluster.pods:
        written = {
            path.relative_to(pod.directory).parts[0]
            for path in pod.directory.rglob("*")
            if path.is_file() and path.suffix != ".log"
        }
        if pod.component not in ("zookeeper", "operator"):
            assert written == {"volumes"}, pod.name


def test_every_metric_that_is_asked_for_is_told(cluster: Cluster) -> None:
    """Names in alerts, rules and dashboards, against what all processes tell."""
    secret = cluster.secrets["demo-portico-secrets"]["internal-secret"]
    told = {"up", *_NOT_HERE}
    for pod in cluster.pods:
        for container in pod.spec["containers"]:
            for port in container["ports"]:
                if not port["name"].startswith(("metrics", "http-master")):
                    continue
                url = f"http://{pod.address}:{port['containerPort']}/metrics"
                text = httpx.get(
                    url, headers={"Authorization": f"Bearer {secret}"}, timeout=30, trust_env=False
                ).text
                for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE):
                    told |= (
                        {f"{name}_{of}" for of in ("bucket", "count", "sum")}
                        if kind == "histogram"
                        else {name}
                    )
    asked = {
        name
        for text in expressions()
        for name in re.findall(r"\b(?:portico|process)_[a-z_0-9]+\b(?!\s*[=~!]=?)", text)
    }
    assert asked - told == set()

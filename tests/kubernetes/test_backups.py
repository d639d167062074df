"""A backup that the chart's CronJob took, restored as docs/backup.md says for Kubernetes.

The commands are the manifests', as far as processes can run them.
"""

import copy
import shutil
import time
from collections.abc import Iterator
from typing import Any, Final

import httpx
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.kubernetes.chart import Manifest, one, render
from tests.kubernetes.cluster import Cluster
from tests.servers.postgres import PostgresServer

VALUES: Final[Manifest] = {
    "secrets": {"existingSecret": "our-secrets"},
    "control": {"replicas": 1},
    "broker": {"replicas": 2, "storage": {"volumes": 2}},
    "gateway": {"replicas": 1, "workers": 1, "vports": {"first": 20000, "last": 20029}},
    "zookeeper": {"mode": "bundled"},
    "postgres": {"mode": "external", "existingSecret": "our-postgres"},
    "operator": {"enabled": False},
    "backup": {"enabled": True, "keep": 2, "passphraseSecret": "our-passphrase"},
}
_STATEFUL: Final = ("control", "broker", "gateway")
_PATIENCE_S: Final = 90.0


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory, postgres: PostgresServer) -> Iterator[Cluster]:
    stores = {
        "our-secrets": {
            "internal-secret": "i" * 40,
            "operator-key": "portico-operator-key-of-this-test-alone",
            "admin-password": "a long enough password",
        },
        "our-postgres": {"url": postgres.url(postgres.new_database())},
        "our-passphrase": {"passphrase": "correct horse battery"},
    }
    running = Cluster(render(VALUES), tmp_path_factory.mktemp("kubernetes"), stores)
    try:
        running.start_zookeeper()
        running.start(*_STATEFUL)
        yield running
    finally:
        running.kill_all()


def _api(cluster: Cluster) -> httpx.Client:
    return httpx.Client(
        base_url=cluster.url("demo-portico-console", 80) + "/v1/",
        headers={"Authorization": f"Bearer {cluster.secrets['our-secrets']['operator-key']}"},
        timeout=30,
        trust_env=False,
    )


def _until_running(cluster: Cluster, instance_id: str) -> dict[str, Any]:
    deadline = time.monotonic() + _PATIENCE_S
    with _api(cluster) as api:
        while True:
            shown: dict[str, Any] = api.get(f"instances/{instance_id}").raise_for_status().json()
            if shown["state"] == "running":
                return shown
            assert time.monotonic() < deadline, shown
            time.sleep(0.1)


def _instance(cluster: Cluster, name: str) -> dict[str, Any]:
    order = {
        "name": name,
        "produce_rate_bytes_per_s": 10**7,
        "consume_rate_bytes_per_s": 10**7,
        "capacity_bytes": 10**9,
        "allow_all": True,
    }
    with _api(cluster) as api:
        made = api.post("instances", json=order).raise_for_status().json()["id"]
        shown = _until_running(cluster, made)
        _make_topic(api, made)
    return shown


def _make_topic(api: httpx.Client, instance_id: str) -> None:
    """As a tenant would: a 503 says to try again, and that what was asked for may come all the same."""
    deadline = time.monotonic() + _PATIENCE_S
    done = {201}
    while True:
        answer = api.post(f"instances/{instance_id}/topics", json={"name": "orders", "partitions": 3})
        if answer.status_code in done:
            return
        assert answer.status_code == 503 and time.monotonic() < deadline, answer.text
        done.add(409)
        time.sleep(1)


def _produce(bootstrap: str, first: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True})
    failed: list[Any] = []
    for number in range(first, first + count):
        producer.produce(
            "orders",
            str(number).encode(),
            partition=number % 3,
            on_delivery=lambda error, _: failed.append(error),
        )
    assert producer.flush(60) == 0
    assert set(failed) == {None}


def _read(bootstrap: str, count: int) -> list[int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "looks", "enable.auto.commit": False})
    consumer.assign([TopicPartition("orders", index, 0) for index in range(3)])
    found: list[int] = []
    deadline = time.monotonic() + _PATIENCE_S
    while len(found) < count:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            found.append(int(message.value()))
        assert time.monotonic() < deadline, f"{len(found)} of {count} records"
    consumer.close()
    return sorted(found)


def _commit(bootstrap: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers"})
    consumer.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)
    consumer.close()


def _committed(bootstrap: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers"})
    (found,) = consumer.committed([TopicPartition("orders", 0)], timeout=60)
    consumer.close()
    return int(found.offset)


def _pod(job: Manifest, name: str) -> Manifest:
    """What Kubernetes makes of a Job, or of a CronJob when its time has come."""
    spec = job["spec"]["jobTemplate"]["spec"] if job["kind"] == "CronJob" else job["spec"]
    template = copy.deepcopy(spec["template"])
    template["metadata"]["name"] = name
    return dict(template)


def _since_backup_s(cluster: Cluster) -> float | None:
    (pod,) = cluster.of("control")
    url = f"http://{pod.address}:{pod.port(pod.spec['containers'][0], 'metrics')}/metrics"
    secret = cluster.secrets["our-secrets"]["internal-secret"]
    text = httpx.get(url, headers={"Authorization": f"Bearer {secret}"}, timeout=30, trust_env=False).text
    name = 'portico_pipeline_since_success_seconds{job="backup"} '
    return next((float(line.removeprefix(name)) for line in text.splitlines() if line.startswith(name)), None)


@pytest.mark.long
def test_what_the_cron_job_took_brings_everything_back(cluster: Cluster, postgres: PostgresServer) -> None:
    made = _instance(cluster, "kept")
    bootstrap = made["bootstrap_servers"]
    _produce(bootstrap, 0, 300)
    _commit(bootstrap, 40)
    assert _since_backup_s(cluster) is None
    cron = one(cluster.manifests, "CronJob", "-backup")
    for number in range(3):
        ran = cluster.run(_pod(cron, f"backup-{number}"))
        assert ran.returncode == 0, ran.stderr
        time.sleep(1.1)  # names are of seconds
    age_s = _since_backup_s(cluster)
    assert age_s is not None and age_s < 3600, "what PorticoBackupStale looks at"
    files = sorted(path.name for path in cluster.claim("demo-portico-backup").iterdir())
    assert len(files) == 2, "two are kept"

    _produce(bootstrap, 300, 300)  # after the backup, and acknowledged
    _commit(bootstrap, 60)
    restoring = render(VALUES | {"restore": {"file": files[-1]}})
    (job,) = [m for m in restoring if m["kind"] == "Job"]
    held = cluster.run(_pod(job, "too-early"))
    assert held.returncode == 1 and "stop it first" in held.stderr, "brokers still hold their volumes"
    for component in ("gateway", "broker", "control"):
        for pod in cluster.of(component):
            assert set(cluster.stop(pod).values()) == {0}

    cluster.secrets["our-postgres"]["url"] = postgres.url(postgres.new_database())  # both are lost
    (zookeeper,) = cluster.of("zookeeper")
    cluster.stop(zookeeper)
    shutil.rmtree(zookeeper.directory)
    cluster.start_zookeeper()
    restored = cluster.run(_pod(job, "restore"))
    assert restored.returncode == 0, restored.stderr
    again = cluster.run(_pod(job, "twice"))
    assert again.returncode == 1 and "not replaced" in again.stderr, (
        "a Job that is tried again changes nothing"
    )

    cluster.start(*_STATEFUL)
    assert _until_running(cluster, made["id"])["bootstrap_servers"] == bootstrap
    assert _read(bootstrap, 600) == list(range(600))
    assert _committed(bootstrap) == 60
    _produce(bootstrap, 600, 30)
    assert _read(bootstrap, 630) == list(range(630))

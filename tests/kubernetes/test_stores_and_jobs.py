"""With stores and reconciler, as in production: two control planes, objects that are kept, jobs that run."""

import asyncio
import copy
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

import httpx
import pytest

from tests.kubernetes.chart import Manifest, one, render
from tests.kubernetes.cluster import Cluster, Pod
from tests.kubernetes.test_reconciler import Kubernetes, emulated, instance_spec
from tests.servers.postgres import PostgresServer
from tests.servers.redis_server import RedisServer

VALUES: Final = {
    "control": {"replicas": 2, "usageIntervalMs": 1000, "systemWhitelist": ["127.0.0.0/8"]},
    "broker": {"replicas": 1},
    "gateway": {"replicas": 1, "workers": 1, "vports": {"first": 20000, "last": 20029}},
    "zookeeper": {"mode": "bundled"},
    "postgres": {"mode": "external", "existingSecret": "our-postgres"},
    "redis": {"mode": "external", "existingSecret": "our-redis"},
    "operator": {"tenants": {"shop": "default"}},
    "pipeline": {"enabled": True, "jobs": {"meter": {"schedule": "*/5 * * * *", "args": ["meter", "run"]}}},
    "monitoring": {"podMonitor": {"enabled": True}},
}
_PATIENCE_S: Final = 90.0


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, postgres: PostgresServer, redis_server: RedisServer
) -> Iterator[Cluster]:
    stores = {
        "our-postgres": {"url": postgres.url(postgres.new_database())},
        "our-redis": {"url": redis_server.url.text},
    }
    running = Cluster(render(VALUES), tmp_path_factory.mktemp("kubernetes"), stores)
    try:
        running.start_zookeeper()
        running.start("control", "broker", "gateway")
        yield running
    finally:
        running.kill_all()


def _api(cluster: Cluster, pod: Pod) -> httpx.Client:
    """The console of one pod."""
    key = cluster.secrets["demo-portico-secrets"]["operator-key"]
    (container,) = pod.spec["containers"]
    return httpx.Client(
        base_url=f"http://{pod.address}:{pod.port(container, 'http-console')}/v1/",
        headers={"Authorization": f"Bearer {key}"},
        timeout=30,
        trust_env=False,
    )


def _runs_jobs(cluster: Cluster, pod: Pod) -> bool:
    (container,) = pod.spec["containers"]
    url = f"http://{pod.address}:{pod.port(container, 'metrics')}/metrics"
    secret = cluster.secrets["demo-portico-secrets"]["internal-secret"]
    text = httpx.get(url, headers={"Authorization": f"Bearer {secret}"}, timeout=30, trust_env=False).text
    return "portico_control_runs_jobs 1.0" in text.splitlines()


def _until_one_runs_jobs(cluster: Cluster, among: list[Pod]) -> Pod:
    deadline = time.monotonic() + _PATIENCE_S
    while len(found := [pod for pod in among if _runs_jobs(cluster, pod)]) != 1:
        assert time.monotonic() < deadline, [pod.name for pod in found]
        time.sleep(0.2)
    return found[0]


def test_two_control_planes_serve_the_same_and_one_runs_the_jobs(cluster: Cluster) -> None:
    first, second = cluster.of("control")
    order = {
        "name": "shared",
        "produce_rate_bytes_per_s": 10**6,
        "consume_rate_bytes_per_s": 10**6,
        "capacity_bytes": 10**8,
        "allow_all": True,
    }
    with _api(cluster, first) as one_api, _api(cluster, second) as other_api:
        made = one_api.post("instances", json=order).raise_for_status().json()["id"]
        deadline = time.monotonic() + _PATIENCE_S
        while (shown := other_api.get(f"instances/{made}").raise_for_status().json())["state"] != "running":
            assert time.monotonic() < deadline, shown
            time.sleep(0.1)
        for api in (one_api, other_api):
            assert api.get("health").json()["redis"] == "ok"
    leader = _until_one_runs_jobs(cluster, [first, second])
    rest = second if leader is first else first
    assert set(cluster.stop(leader).values()) == {0}
    assert _until_one_runs_jobs(cluster, [rest]) is rest
    with _api(cluster, rest) as api:
        assert api.get(f"instances/{made}").raise_for_status().json()["name"] == "shared"
    cluster.start_again(leader)
    assert _until_one_runs_jobs(cluster, [first, second]) is rest


@pytest.fixture
async def kubernetes() -> AsyncIterator[Kubernetes]:
    async with emulated() as api:
        yield api


async def test_the_reconciler_of_the_chart_keeps_objects(cluster: Cluster, kubernetes: Kubernetes) -> None:
    cluster.api_server = kubernetes.url
    (pod,) = cluster.of("operator")
    await asyncio.to_thread(cluster.start, "operator")
    await kubernetes.create("KafkaInstance", "kept", instance_spec())
    status = await kubernetes.until("KafkaInstance", "kept", "Running")
    with _api(cluster, cluster.of("control")[1]) as api:
        shown = api.get(f"instances/{status['id']}").raise_for_status().json()
    assert (shown["name"], shown["tenant"], shown["whitelist"]) == ("kept", "default", ["10.0.0.0/8"])
    assert set((await asyncio.to_thread(cluster.stop, pod)).values()) == {0}


def _job(cluster: Cluster, name: str) -> Manifest:
    """What Kubernetes makes of a CronJob when its time has come."""
    cron = one(cluster.manifests, "CronJob", f"-{name}")
    template = copy.deepcopy(cron["spec"]["jobTemplate"]["spec"]["template"])
    template["metadata"]["name"] = cron["metadata"]["name"]
    return dict(template)


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_the_job_of_the_chart_meters_what_tenants_did(cluster: Cluster) -> None:
    ran = cluster.run(one(cluster.manifests, "Pod", "-test"))
    assert ran.returncode == 0, ran.stderr
    metered = cluster.run(_job(cluster, "meter"))
    assert metered.returncode == 0, metered.stdout + metered.stderr
    assert "Hours of usage made" in metered.stdout
    with _api(cluster, cluster.of("control")[0]) as api:
        runs: list[dict[str, Any]] = api.get("pipeline/jobs").raise_for_status().json()["items"]
    assert {run["job"]: run["state"] for run in runs} == dict.fromkeys(
        ("meter", "rollup", "bill"), "succeeded"
    )
    read = next(run["done"] for run in runs if run["job"] == "meter")
    assert read > 0, "what brokers and gateway told of the test's instance"
    written = list(cluster.claim("demo-portico-pipeline").iterdir())
    assert written, "tables are on the jobs' volume"


def _schedule(api: httpx.Client, name: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = api.get("pipeline/schedules").raise_for_status().json()["items"]
    return next(each for each in found if each["name"] == name)


def _runs(api: httpx.Client, schedule: str) -> None:
    """Have a schedule of the console run now."""
    deadline = time.monotonic() + _PATIENCE_S
    while api.post(f"pipeline/schedules/{schedule}/runs").status_code == httpx.codes.NOT_FOUND:
        assert time.monotonic() < deadline, "a runner makes it when it comes"
        time.sleep(0.2)
    while (shown := _schedule(api, schedule))["due_at"] or shown["last"]["state"] == "running":
        assert time.monotonic() < deadline, shown
        time.sleep(0.2)
    assert (shown["last"]["state"], shown["last"]["error"]) == ("succeeded", "")


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_the_pod_of_the_chart_runs_what_the_console_schedules(cluster: Cluster) -> None:
    (pod,) = cluster.of("pipeline")
    cluster.start("pipeline")
    with _api(cluster, cluster.of("control")[0]) as api:
        body = {"job": "meter", "cron": "7 3 * * *"}
        _runs(api, "meter")
        api.put("pipeline/schedules/meter", json=body).raise_for_status()
        asked = api.get("pipeline/jobs?job=meter").raise_for_status().json()["items"]
    assert set(cluster.stop(pod).values()) == {0}
    assert "meter succeeded" in pod.log("job").read_text()
    assert asked and {run["state"] for run in asked} == {"succeeded"}
    cluster.start("pipeline")
    with _api(cluster, cluster.of("control")[1]) as api:
        _runs(api, "meter")
        assert _schedule(api, "meter")["cron"] == body["cron"], "a new pod changes none"
    assert set(cluster.stop(pod).values()) == {0}


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_job_of_the_chart_advises_on_what_was_metered(cluster: Cluster) -> None:
    """After the one that meters: on usage that there is, of an instance that stays."""
    order = {
        "name": "advised",
        "produce_rate_bytes_per_s": 10**6,
        "consume_rate_bytes_per_s": 10**6,
        "capacity_bytes": 10**8,
        "allow_all": True,
    }
    with _api(cluster, cluster.of("control")[0]) as api:
        made = api.post("instances", json=order).raise_for_status().json()["id"]
    (pod,) = cluster.of("pipeline")
    cluster.start("pipeline")
    with _api(cluster, cluster.of("control")[0]) as api:
        for job in ("meter", "advise"):
            _runs(api, job)
    assert set(cluster.stop(pod).values()) == {0}
    with _api(cluster, cluster.of("control")[1]) as api:
        runs = api.get("pipeline/jobs?job=advise").raise_for_status().json()["items"]
        advice = api.get("advice").raise_for_status().json()["items"]
    assert [run["state"] for run in runs] == ["succeeded"]
    assert made in {row["advice"]["instance_id"] for row in advice}, "the console shows the job's tables"

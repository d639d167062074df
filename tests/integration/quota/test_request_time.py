"""Request time on a running stack: what points spend becomes leases, and shows in API and command line."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from confluent_kafka.admin import AdminClient

from tests.integration.quota.metadata_flood import metadata_flood
from tests.integration.quota.spender import Spender, spec_of
from tests.integration.quota.test_cluster import internal, master_url
from tests.integration.stack import ROOT, Stack

PERCENT = 80
T = PERCENT * 10_000


@pytest.fixture
def instance(stack: Stack) -> Iterator[dict[str, Any]]:
    made = stack.create_instance("spender", request_percent=PERCENT)
    yield made
    stack.api("DELETE", f"instances/{made['id']}")


@pytest.fixture
def spenders(stack: Stack, instance: dict[str, Any]) -> Iterator[list[Spender]]:
    """Two workers more; the master forgets them at the end."""
    made = [Spender(stack, f"gateway-{number}", spec_of(instance, PERCENT)) for number in (90, 91)]
    yield made
    for each in made:
        each.stop()
    with internal(stack) as http:
        for each in made:
            http.delete(f"{master_url(stack)}/internal/v1/points/{each.name}")


def wait_for(what: Callable[[], bool], told: Callable[[], object], within_s: float = 30.0) -> None:
    deadline = time.monotonic() + within_s
    while not what():
        assert time.monotonic() < deadline, told()
        time.sleep(0.1)


def cpu_of(stack: Stack, instance: dict[str, Any], seconds: int = 0) -> dict[str, Any]:
    view = stack.api("GET", f"instances/{instance['id']}/quota", seconds=seconds)
    return {**view["cpu"], "history": view["history"]["cpu"]}


def points(stack: Stack, instance: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["point"]: each for each in cpu_of(stack, instance)["points"]}


def portico(stack: Stack, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "runtime.start", "ctl.main", *arguments, "--data-dir", str(stack.data_dir)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_a_worker_spends_becomes_its_lease_and_shows(
    stack: Stack, instance: dict[str, Any], spenders: list[Spender]
) -> None:
    busy, other = spenders
    busy.wanted_us_per_s = 10 * T

    def shown() -> dict[str, Any]:
        return points(stack, instance).get(busy.name, {})

    wait_for(lambda: busy.applied_us_per_s == T, shown)
    wait_for(lambda: shown().get("on_lease", False) and shown()["flow"]["applied_per_s"] == T, shown)
    seen = shown()
    assert seen["flow"]["share_per_s"] == T // 2 // busy.gateways
    assert seen["flow"]["allocated_per_s"] == T and seen["lease_epoch"] > 0
    assert seen["flow"]["throttled_ms_per_s"] > 0 and not seen["flow"]["below_gate"]
    cpu = cpu_of(stack, instance, seconds=60)
    assert (cpu["request_percent"], cpu["total"]["purchased_per_s"]) == (PERCENT, T)
    assert f"Point {busy.name} spends" in cpu["total"]["explanation"]
    assert other.name not in points(stack, instance), "it spent nothing"
    assert cpu["idle_points"] >= 2, "the other worker and the broker"
    series = {each["point"]: each["flow"] for each in cpu["history"]}
    assert T in series[busy.name]["allocated_per_s"]
    text = portico(stack, "quota", "show", str(instance["id"]))
    assert f"of 800 ms/s ({PERCENT} % of a core)" in text
    assert busy.name in text and "other point" in text
    assert "800 ms/s" in portico(stack, "quota", "list")


@pytest.mark.long
def test_a_worker_gets_what_was_bought_and_two_get_no_more(
    stack: Stack, instance: dict[str, Any], spenders: list[Spender]
) -> None:
    for each in spenders:
        each.wanted_us_per_s = 10 * T

    def shown() -> list[dict[str, Any]]:
        return [
            each for each in points(stack, instance).values() if each["point"] in ("gateway-90", "gateway-91")
        ]

    wait_for(
        lambda: all(each["flow"]["throttled_ms_per_s"] > 0 for each in shown()) and len(shown()) == 2, shown
    )
    time.sleep(5)  # rounds of the master
    before = [each.spent_us for each in spenders]
    started_s = time.monotonic()
    time.sleep(10)
    elapsed_s = time.monotonic() - started_s
    spent = [each.spent_us - old for each, old in zip(spenders, before, strict=True)]
    assert 0.85 * T <= sum(spent) / elapsed_s <= 1.25 * T, spent


def test_a_resize_reaches_the_points_and_metrics_follow(
    stack: Stack, instance: dict[str, Any], spenders: list[Spender]
) -> None:
    busy = spenders[0]
    busy.wanted_us_per_s = 10 * T
    wait_for(lambda: busy.applied_us_per_s == T, lambda: points(stack, instance))
    text = portico(stack, "instance", "resize", str(instance["id"]), "--request-percent", "120")
    assert "120 % of a core" in text and "goes with the rates" not in text
    wait_for(lambda: busy.applied_us_per_s == 1_200_000, lambda: points(stack, instance))
    labels = f'{{instance="{instance["id"]}",point="{busy.name}"}}'

    def told() -> list[str]:
        with internal(stack) as http:
            text = http.get(str(stack.facts["metrics"]["control"])).text
        return [line for line in text.splitlines() if line.startswith("portico_quota_cpu_allocated_cores")]

    wait_for(lambda: f"portico_quota_cpu_allocated_cores{labels} 1.2" in told(), told)
    text = portico(stack, "instance", "resize", str(instance["id"]), "--request-percent", "0")
    assert "1920 % of a core (goes with the rates)" in text


def test_reports_of_workers_leave_the_bytes_alone(
    stack: Stack, instance: dict[str, Any], spenders: list[Spender]
) -> None:
    stack.api("POST", f"instances/{instance['id']}/topics", {"name": "t", "partitions": 2})

    def brokers() -> list[dict[str, Any]]:
        view: dict[str, Any] = stack.api("GET", f"instances/{instance['id']}/quota")
        return list(view["brokers"])

    wait_for(lambda: [each["partitions_led"] for each in brokers()] == [2], brokers)
    for each in spenders:
        each.wanted_us_per_s = 10 * T
    wait_for(lambda: all(each.name in points(stack, instance) for each in spenders), brokers)
    (only,) = brokers()
    assert only["produce"]["allocated_per_s"] == only["produce"]["share_per_s"] == 200_000_000


def test_what_a_client_asks_for_is_spent_by_the_stacks_own_worker(
    stack: Stack, instance: dict[str, Any]
) -> None:
    client = AdminClient({"bootstrap.servers": instance["bootstrap_servers"]})

    def own() -> list[dict[str, Any]]:
        for _ in range(50):
            client.list_topics(timeout=10)
        return [each for name, each in points(stack, instance).items() if name.startswith("gateway-")]

    wait_for(lambda: any(each["flow"]["rate_per_s"] > 0 and each["on_lease"] for each in own()), own)
    spent = {each["point"]: each["flow"] for each in own()}
    assert all(0 < flow["share_per_s"] <= T // 2 for flow in spent.values())
    assert all(flow["throttled_ms_per_s"] == 0 for flow in spent.values()), "an honest client never meets it"


def test_a_flood_of_metadata_is_held_to_what_was_bought_beside_a_neighbour(
    stack: Stack, instance: dict[str, Any]
) -> None:
    percent = 20
    stack.api("PATCH", f"instances/{instance['id']}", {"request_percent": percent})
    neighbour = stack.create_instance("neighbour")
    client = AdminClient({"bootstrap.servers": neighbour["bootstrap_servers"]})
    with metadata_flood(instance["bootstrap_servers"], 8) as flood:
        wait_for(
            lambda: cpu_of(stack, instance)["total"]["throttled_ms_per_s"] > 0,
            lambda: cpu_of(stack, instance),
        )
        time.sleep(4)  # rounds of the master
        totals = []
        for _ in range(8):
            time.sleep(1)
            client.list_topics(timeout=10)
            totals.append(cpu_of(stack, instance)["total"]["rate_per_s"])
        beside = cpu_of(stack, neighbour)["total"]
    stack.api("DELETE", f"instances/{neighbour['id']}")
    mean = sum(totals) / len(totals)
    print(f"{mean / percent / 10_000:.3f} T, {flood.answers} answers")
    assert 0.8 * percent * 10_000 <= mean <= 1.15 * percent * 10_000, totals
    assert 0 < flood.throttle_ms_max <= 30_000, "answers say how long"
    assert beside["throttled_ms_per_s"] == 0
    told = "".join(portico(stack, "metrics", name) for name in stack.facts["metrics"] if "gateway" in name)
    for name in ("request_queue_seconds_count", "request_throttle_seconds_total"):
        assert _sum(told, f'portico_gateway_{name}{{api="metadata"}}') > 0, name


def _sum(text: str, sample: str) -> float:
    return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(sample))


def test_strangers_report_nothing(stack: Stack) -> None:
    answer = httpx.post(f"{master_url(stack)}/internal/v1/reports", content=b"{}", trust_env=False)
    assert answer.status_code == 401

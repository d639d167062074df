"""Leader and controller killed and paused under load through the gateway: nothing acknowledged is lost.

Replication 3, min.insync 2, acks=all. An idempotent producer's records are there once and in order; a plain
one's are all there.
"""

import time

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.records import CountingProducer, create_topic, read_all

PARTITIONS = 3
PAUSE_S = 5.0
"""Longer than the session of the stack below: the paused broker is replaced, and comes back stale."""


def _victim(cluster: Cluster, role: str, topic: str) -> int:
    return cluster.controller() if role == "controller" else cluster.leader(topic, 0)


def _strike(cluster: Cluster, role: str, fault: str, topic: str) -> None:
    victim = _victim(cluster, role, topic)
    if fault == "kill":
        cluster.kill(victim)
    else:
        with cluster.paused(victim):
            time.sleep(PAUSE_S)


def _rounds(cluster: Cluster, role: str, fault: str, rounds: int) -> None:
    instance = cluster.stack.create_instance(f"{role}-{fault}-{rounds}")
    bootstrap = instance["bootstrap_servers"]
    for name in ("idempotent", "plain"):
        create_topic(bootstrap, name, PARTITIONS)
    physical = f"{instance['id']}.idempotent"
    with (
        CountingProducer(bootstrap, "idempotent", PARTITIONS) as idempotent,
        CountingProducer(bootstrap, "plain", PARTITIONS, idempotent=False) as plain,
    ):
        for _ in range(rounds):
            idempotent.wait_for_progress(1000)
            struck_s = time.monotonic()
            _strike(cluster, role, fault, physical)
            idempotent.wait_for_progress(1000)
            plain.wait_for_progress(1000)
            cluster.until_in_sync(physical)
            cluster.until_in_sync(f"{instance['id']}.plain")
            print(f"{role} {fault}: {idempotent.silence_s(0, struck_s):.2f} s without an acknowledgement")
    assert idempotent.failed == []
    for partition, acknowledged in idempotent.acknowledged.items():
        stored = read_all(bootstrap, "idempotent", partition)
        assert set(acknowledged) <= set(stored), "acknowledged and lost"
        assert stored == sorted(set(stored)), "doubled or reordered"
    for partition, acknowledged in plain.acknowledged.items():
        stored = read_all(bootstrap, "plain", partition)
        assert set(acknowledged) <= set(stored), "acknowledged and lost"


@pytest.mark.parametrize(
    ("role", "fault"),
    [
        ("leader", "kill"),
        ("controller", "pause"),
        pytest.param("leader", "pause", marks=pytest.mark.long),
        pytest.param("controller", "kill", marks=pytest.mark.long),
    ],
)
def test_a_broker_goes_and_nothing_acknowledged_is_lost(cluster: Cluster, role: str, fault: str) -> None:
    _rounds(cluster, role, fault, rounds=1)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("fault", ["kill", "pause"])
@pytest.mark.parametrize("role", ["leader", "controller"])
def test_five_rounds_of_it(cluster: Cluster, role: str, fault: str) -> None:
    _rounds(cluster, role, fault, rounds=5)

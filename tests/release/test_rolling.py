"""Control plane, three brokers and two gateway workers go from the version before to this one, one by one.

Under load: nothing acknowledged is lost, nothing is doubled, no client needs to know.
"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.records import CountingProducer, create_topic, read_all
from tests.integration.stack import Stack
from tests.release.trees import BEFORE, ROOT, Trees, check_out

pytestmark = [pytest.mark.release, pytest.mark.timeout(600)]
PARTITIONS = 3


@pytest.fixture
def trees(tmp_path: Path) -> Trees:
    return Trees(tmp_path / "hook", check_out(BEFORE, tmp_path / "before"))


@pytest.fixture
def stack(tmp_path: Path, trees: Trees) -> Iterator[Stack]:
    (tmp_path / "empty").mkdir()
    stack = Stack(
        tmp_path / "data",
        *("--brokers", "3", "--workers", "2", "--session-timeout-ms", "4000"),
        directory=tmp_path / "empty",
        environment=trees.environment,
    )
    try:
        yield stack.start()
    finally:
        stack.stop()


def test_rolling_from_the_version_before(stack: Stack, trees: Trees) -> None:
    cluster = Cluster(stack)
    instance = stack.create_instance("rolled")
    bootstrap = instance["bootstrap_servers"]
    for name in ("idempotent", "plain"):
        create_topic(bootstrap, name, PARTITIONS)
    trees.use(ROOT)
    with (
        CountingProducer(bootstrap, "idempotent", PARTITIONS) as idempotent,
        CountingProducer(bootstrap, "plain", PARTITIONS, idempotent=False) as plain,
    ):
        # The order of docs/upgrade.md.
        for group in ("control", "brokers", "gateways"):
            for pid in list(stack.facts["pids"][group]):
                idempotent.wait_for_progress(500)
                os.kill(int(pid), signal.SIGTERM)
                stack.wait_for_restart(group, int(pid), within_s=60)
                for topic in ("idempotent", "plain"):
                    cluster.until_in_sync(f"{instance['id']}.{topic}")
                print(f"{group} {pid} is of this version", flush=True)
        idempotent.wait_for_progress(2000)
        plain.wait_for_progress(2000)
    assert idempotent.failed == plain.failed == []
    for partition, acknowledged in idempotent.acknowledged.items():
        stored = read_all(bootstrap, "idempotent", partition)
        assert set(acknowledged) <= set(stored), "acknowledged and lost"
        assert stored == sorted(set(stored)), "doubled or reordered"
    for partition, acknowledged in plain.acknowledged.items():
        assert set(acknowledged) <= set(read_all(bootstrap, "plain", partition)), "acknowledged and lost"
    stack.api("PATCH", f"instances/{instance['id']}", {"produce_rate_bytes_per_s": 50_000_000})
    assert stack.wait_for_state(instance["id"], "running", within_s=60)
    create_topic(bootstrap, "after", 1)
    now = stack.facts["pids"]
    pids = [pid for group in ("control", "brokers", "gateways") for pid in now[group]]
    assert {trees.of(int(pid)) for pid in pids} == {ROOT}

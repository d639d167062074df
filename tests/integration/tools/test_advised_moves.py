"""Advised moves, from what three real brokers say of partitions to what they do with the plan."""

import threading
import time
from pathlib import Path

from confluent_kafka import Producer

from ctl.cluster_client import Cluster, Reach, with_cluster
from ctl.pipeline.advising import write_plans
from ctl.tools.placements import placements
from pipeline.advice.judging.judgement import Bought
from pipeline.advice.judging.moves import Basis, Placement, advise_moves, plan_moves
from tests.integration.tools.conftest import Tools
from tests.integration.tools.test_cluster_tools import login, until_complete
from tests.unit.pipeline.test_advice_rows import DAY, skew_row

INSTANCE = "iadvisedaaaa"
TOPIC = f"{INSTANCE}.orders"
SHARES = {0: 5, 1: 4, 2: 1}
"""Records of 1 kB to each partition, per round: 0 and 1 are led by broker 1."""


def asked(tools: Tools, sample_s: float) -> Placement:
    async def work(cluster: Cluster) -> dict[str, Placement]:
        return await placements(cluster, [INSTANCE, "inobodyaaaaa"], sample_s)

    found = with_cluster(Reach(tools.stack.data_dir, None, None), work)
    assert list(found) == [INSTANCE]
    return found[INSTANCE]


def produce_until(tools: Tools, stop: threading.Event) -> None:
    producer = Producer(login(tools) | {"linger.ms": 0})
    while not stop.is_set():
        for partition, share in SHARES.items():
            for _ in range(share):
                producer.produce(TOPIC, b"x" * 1000, partition=partition)
        assert producer.flush(30) == 0


def leaders(tools: Tools) -> list[int]:
    return [one["leader"] for one in tools.json("cluster", "topic", "describe", TOPIC)["partitions"]]


def test_a_hot_broker_is_relieved_by_the_plan(tools: Tools, tmp_path: Path) -> None:
    tools.run("cluster", "topic", "create", TOPIC, "--replica-assignment", "1:2,1:3,2:1,3:2")
    stop = threading.Event()
    producing = threading.Thread(target=produce_until, args=(tools, stop))
    producing.start()
    try:
        placement = asked(tools, 2.0)
    finally:
        stop.set()
        producing.join()

    assert placement.brokers == [1, 2, 3]
    grew = [led.grew_bytes for led in placement.partitions]
    assert [led.leader for led in placement.partitions] == [1, 1, 2, 3]
    assert grew[0] > grew[1] > grew[2] > 0 == grew[3]
    assert all(led.size_bytes >= led.grew_bytes for led in placement.partitions)
    plan = plan_moves(placement.partitions, placement.brokers, {1: 90.0, 2: 10.0})
    assert plan is not None and plan.basis is Basis.GROWTH
    assert 0.4 < plan.heaviest_share < 0.6

    exact = [led._replace(grew_bytes=10**6 * SHARES[led.partition]) for led in placement.partitions[:3]]
    hot = skew_row("produce", {1: 90, 2: 9, 3: 1}, throttled_ms=60_000)
    bought = Bought(INSTANCE, 10**7, 10**7, 10**9)
    advised = advise_moves([hot], bought, placement._replace(partitions=exact), DAY)
    assert {(row.partition, row.to_node_id) for row in advised.rows} == {(1, 3)}, advised
    [path] = write_plans(tmp_path / "plans", advised.rows).values()
    tools.run("reassign", "execute", str(path))
    until_complete(tools, path)
    tools.run("leader", "elect-preferred", "--file", str(path))
    deadline = time.monotonic() + 15
    while leaders(tools) != [1, 3, 2, 3]:
        assert time.monotonic() < deadline, leaders(tools)
        time.sleep(0.1)

"""Who writes without a pause while its instance is switched, and gateway workers that are silent then."""

import os
import signal
import time

import pytest

from tests.integration.moves.clients import Producing, make_topics, stored
from tests.integration.moves.hurrying import Hurrying
from tests.integration.moves.second_cluster import CLUSTER_ID, Broker
from tests.integration.moves.test_moves import moved, until
from tests.integration.stack import Stack

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
_SILENT_S = 8.0


def test_whoever_hurries_loses_nothing(stack: Stack, second: Broker) -> None:
    """Whatever acknowledgement it asks for."""
    rates = {"produce_rate_bytes_per_s": 10_000_000}
    instance = stack.create_instance("hurries", cluster="builtin-1", **rates)
    bootstrap = instance["bootstrap_servers"]
    kinds = {"leader": {"acks": "1"}, "every": {"acks": "all"}, "once": {"enable.idempotence": True}}
    make_topics(bootstrap, *kinds)
    workers = {name: Hurrying(bootstrap, name, **configs).start() for name, configs in kinds.items()}
    time.sleep(3)
    move = moved(stack, instance["id"], CLUSTER_ID)
    time.sleep(2)
    for worker in workers.values():
        worker.stop()
    assert move["gap_ms"] < 2_000
    for name, worker in workers.items():
        there = stored(bootstrap, name)
        for partition, acked in worker.acked.items():
            assert len(acked) > 1_000
            assert set(acked) <= set(there[partition]), (name, partition)
            if name == "once":
                assert there[partition] == acked, "each once, in order"


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_a_worker_that_is_silent_is_waited_for(stack: Stack, second: Broker, when: str) -> None:
    """It may still bring what its clients write to the source: nothing is switched, and others' clients are
    held for one try at most."""
    instance = stack.create_instance(f"silent-{when}", cluster="builtin-1")
    bootstrap, of_move = instance["bootstrap_servers"], f"instances/{instance['id']}/move"
    topics = [f"t-{number}" for number in range(4)]  # connections come to every worker
    make_topics(bootstrap, *topics)
    producers = {topic: Producing(bootstrap, topic).start() for topic in topics}
    time.sleep(2)
    worker = stack.facts["pids"]["gateways"][0]
    if when == "before":
        os.kill(worker, signal.SIGSTOP)
    stack.api("POST", of_move, {"cluster": CLUSTER_ID}, expect=202)
    if when == "meanwhile":
        until(stack, instance["id"], "switching", "switched")
        os.kill(worker, signal.SIGSTOP)
    try:
        time.sleep(_SILENT_S)
        move = stack.api("GET", of_move)
        if when == "before" or move["phase"] != "switched":  # it may have answered just before
            assert move["phase"] == "copying" and "gateway-0" in move["reason"], move
            assert move["tries"] == (when == "meanwhile"), "who does not answer is not asked again"
    finally:
        os.kill(worker, signal.SIGCONT)
    until(stack, instance["id"], "switched")
    time.sleep(1)
    for producer in producers.values():
        producer.stop()
    for topic, producer in producers.items():
        there = stored(bootstrap, topic)
        for partition, acked in producer.acked.items():
            assert there[partition] == acked, (topic, partition)

"""An instance goes from brokers of our own to an Apache Kafka, and back, while its clients work."""

import time
from collections.abc import Iterator

import pytest

from ctl.bench.apache_kafka import kafka_cluster
from ctl.kafka.cluster import Wish
from tests.integration.apache.conftest import FEW
from tests.integration.moves.clients import Consuming, Producing, begin_group, make_topics, stored
from tests.integration.moves.test_moves import moved, until
from tests.integration.stack import Stack, running_stack

FAR = "far"


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A broker of our own, and one of an Apache Kafka beside it."""
    kafka = kafka_cluster(tmp_path_factory.mktemp("kafka"), Wish(brokers=1), settings=FEW, heap="512m")
    with kafka as (broker,), running_stack(tmp_path_factory.mktemp("stack") / "data") as stack:
        stack.api("PUT", f"clusters/{FAR}", {"bootstrap": f"127.0.0.1:{broker.port}"})
        deadline = time.monotonic() + 60
        while not any(one["cluster_id"] == FAR for one in stack.api("GET", "brokers")["items"]):
            assert time.monotonic() < deadline, "the Apache Kafka is not known"
            time.sleep(0.2)
        room = dict.fromkeys(
            ("produce_rate_bytes_per_s", "consume_rate_bytes_per_s", "capacity_bytes"), 10**15
        )
        room |= {"instances": 1_000, "partitions": 10**6, "connections": 10**9}
        stack.api("PATCH", f"clusters/{FAR}/ceilings", room)
        yield stack


def test_there_and_back(both: Stack) -> None:
    instance = both.create_instance("goes", cluster="builtin-1")
    bootstrap = instance["bootstrap_servers"]
    make_topics(bootstrap, "plain")
    begin_group(bootstrap, "plain", "readers")
    producing = Producing(bootstrap, "plain").start()
    consuming = Consuming(bootstrap, "plain", "readers").start()
    time.sleep(3)
    there = moved(both, instance["id"], FAR)
    time.sleep(4)
    both.api("DELETE", f"instances/{instance['id']}/move/old-copy", expect=202)
    until(both, instance["id"], "done")
    back = moved(both, instance["id"], "builtin-1")
    time.sleep(3)
    producing.stop()
    consuming.stop()
    assert there["gap_ms"] < 2_000 and back["gap_ms"] < 2_000
    plain = stored(bootstrap, "plain")
    for partition, acked in producing.acked.items():
        assert plain[partition] == acked, "each once, in order, at the offset that was told"
    for partition, taken in consuming.taken.items():
        offsets = [offset for offset, _ in taken]
        assert sorted(set(offsets)) == list(range(max(offsets) + 1)), "nothing is left out"
        assert taken[-1][0] > plain[partition][-1][0] - 2_000, "a group goes on where it was"


def test_what_an_apache_kafka_cannot_keep_stays(both: Stack) -> None:
    instance = both.create_instance("stays", cluster="builtin-1")
    make_topics(instance["bootstrap_servers"], "table", **{"cleanup.policy": "compact"})
    refused = both.api("POST", f"instances/{instance['id']}/move", {"cluster": FAR}, expect=409)
    assert "compacted" in refused["detail"]
    assert both.api("GET", f"instances/{instance['id']}")["state"] == "running"

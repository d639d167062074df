"""An instance goes from brokers of our own to an Apache Kafka, and back, while its clients work."""

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from contracts.names import physical_name
from ctl.bench.apache_kafka import kafka_cluster
from ctl.kafka.cluster import Wish
from tests.integration.apache.conftest import FEW
from tests.integration.moves.clients import (
    TABLE,
    Consuming,
    Producing,
    Transacting,
    begin_group,
    delete_half,
    fill_table,
    make_topics,
    stored,
    wait_until_compacted,
)
from tests.integration.moves.test_moves import moved, until
from tests.integration.stack import Stack, running_stack

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]

FAR = "far"


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where an Apache Kafka of one broker is."""
    cluster = kafka_cluster(tmp_path_factory.mktemp("kafka"), Wish(brokers=1), settings=FEW, heap="512m")
    with cluster as (broker,):
        yield f"127.0.0.1:{broker.port}"


@pytest.fixture(scope="module")
def both(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A broker of our own, and the Apache Kafka beside it."""
    with running_stack(tmp_path_factory.mktemp("stack") / "data") as stack:
        stack.api("PUT", f"clusters/{FAR}", {"bootstrap": kafka})
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


def _refusals(bootstrap: str, topic: str) -> list[str | None]:
    """What a producer at the cluster itself is answered, with acks 1 and all: so it comes by a gateway that
    never heard of a switch."""
    found: list[str | None] = []
    for acks in ("1", "all"):
        producer = Producer({"bootstrap.servers": bootstrap, "acks": acks, "message.timeout.ms": 10_000})
        producer.produce(
            topic, b"late", on_delivery=lambda error, _: found.append(None if error is None else error.name())
        )
        producer.flush(20)
    return found


def test_there_and_back(both: Stack, kafka: str) -> None:
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
    kept = physical_name(instance["id"], "plain")
    deadline = time.monotonic() + 30
    while _refusals(kafka, kept) != ["MSG_SIZE_TOO_LARGE"] * 2:
        assert time.monotonic() < deadline, "the copy that is left takes records"
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


@pytest.mark.long
def test_logs_without_a_beginning_and_with_gaps(both: Stack) -> None:
    """Deleted records, a table that was compacted, and transactions: each record stays at its offset."""
    instance = both.create_instance("gaps", cluster="builtin-1")
    bootstrap = instance["bootstrap_servers"]
    make_topics(bootstrap, "late", "exact")
    make_topics(bootstrap, "table", **TABLE)
    fill_table(bootstrap, "table")
    producing = Producing(bootstrap, "late").start()
    transacting = Transacting(bootstrap, "exact").start()
    time.sleep(4)
    transacting.stop()  # its transactional id is not carried
    cut = delete_half(bootstrap, "late")
    wait_until_compacted(bootstrap, "table")
    before = {name: stored(bootstrap, name) for name in ("exact", "table")}
    begin_group(bootstrap, "late", "readers", offsets=cut)
    consuming = Consuming(bootstrap, "late", "readers").start()

    refused = both.api("POST", f"instances/{instance['id']}/move", {"cluster": FAR}, expect=409)
    assert "compacted" in refused["detail"] and "--fill-gaps" in refused["detail"]
    assert both.api("GET", f"instances/{instance['id']}")["state"] == "running"
    there = moved(both, instance["id"], FAR, fill_gaps=True)
    assert there["gap_ms"] < 2_000 and there["fill_gaps"]
    time.sleep(3)
    assert {name: stored(bootstrap, name) for name in before} == before, (
        "the same records at the same offsets"
    )
    again = Transacting(bootstrap, "exact").start()  # takes the id anew
    time.sleep(2)
    again.stop()
    assert again.committed and again.begun_anew == 0

    both.api("DELETE", f"instances/{instance['id']}/move/old-copy", expect=202)
    until(both, instance["id"], "done")
    back = moved(both, instance["id"], "builtin-1")
    assert back["gap_ms"] < 2_000
    time.sleep(2)
    producing.stop()
    consuming.stop()
    late = stored(bootstrap, "late")
    for partition, acked in producing.acked.items():
        left = [one for one in acked if one[0] >= cut[partition]]
        assert late[partition] == left, "each once, in order, at the offset that was told"
        taken = sorted({offset for offset, _ in consuming.taken[partition]})
        assert taken == list(range(cut[partition], taken[-1] + 1)), "nothing is left out"
    assert stored(bootstrap, "table") == before["table"]
    exact = [number for _, number in stored(bootstrap, "exact")[0]]
    assert exact == transacting.committed + again.committed


@pytest.mark.long
def test_gaps_are_filled_by_whoever_goes_on(both: Stack) -> None:
    """The control plane dies while it fills; the next one finds where the copy ends."""
    instance = both.create_instance("dies", cluster="builtin-1")
    bootstrap = instance["bootstrap_servers"]
    make_topics(bootstrap, "exact")
    make_topics(bootstrap, "table", **TABLE)
    fill_table(bootstrap, "table")
    transacting = Transacting(bootstrap, "exact").start()
    wait_until_compacted(bootstrap, "table")
    transacting.stop()
    before = {name: stored(bootstrap, name) for name in ("exact", "table")}
    order = {"cluster": FAR, "fill_gaps": True}
    both.api("POST", f"instances/{instance['id']}/move", order, expect=202)
    for copied in (1, 200_000):
        while until(both, instance["id"], "copying", "switched")["copied_bytes"] < copied:
            time.sleep(0.02)
        both.wait_for_restart("control", both.kill("control"))
    until(both, instance["id"], "switched")
    assert {name: stored(bootstrap, name) for name in before} == before

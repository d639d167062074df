"""Brokers that come, go, and speak to each other."""

import struct
import threading
import time
from functools import partial
from typing import Any

import msgspec
import pytest
from confluent_kafka import Producer

from contracts import cluster as messages
from tests.integration.broker.process import BrokerProcess
from tests.integration.broker.raw import RawClient, request
from tests.integration.cluster.brokers import Cluster, eventually


class Production:
    """Produces in the background, one record after the other, with acks=all."""

    def __init__(self, cluster: Cluster, topic: str, partitions: int) -> None:
        self.acked = 0
        self.errors: list[str] = []
        self._topic, self._partitions = topic, partitions
        self._producer = Producer(
            cluster.config(acks="all", enable_idempotence=True, linger_ms=1, request_timeout_ms=2_000)
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.sent = 0

    def _delivered(self, error: Any, _: Any) -> None:
        if error is None:
            self.acked += 1
        else:
            self.errors.append(str(error))

    def _run(self) -> None:
        while not self._stop.is_set():
            self._producer.produce(
                self._topic,
                str(self.sent).encode(),
                partition=self.sent % self._partitions,
                on_delivery=self._delivered,
            )
            self.sent += 1
            self._producer.poll(0)
            time.sleep(0.003)

    def __enter__(self) -> "Production":
        self._thread.start()
        eventually(lambda: self.acked, lambda acked: acked > 20)
        return self

    def go_on(self, records: int = 50) -> None:
        """Return when so many more were acknowledged."""
        goal = self.acked + records
        eventually(lambda: self.acked, lambda acked: acked >= goal)

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(30) == 0
        assert self.errors == []
        assert self.acked == self.sent


def test_a_broker_that_stops_hands_its_leaders_over_first(cluster: Cluster) -> None:
    cluster.create("handed", 3)
    controller = cluster.controller_id()
    leaving = next(each for each in cluster.brokers if each != controller)
    with Production(cluster, "handed", 3) as production:
        assert cluster.brokers[leaving].stop() == 0
        leaders = {cluster.partition("handed", index).leader_id for index in range(3)}
        assert leaving not in leaders | {-1}
        production.go_on()
        for index in range(3):
            assert leaving not in cluster.partition("handed", index).isr_nodes
        cluster.brokers[leaving].start()
        for index in range(3):
            cluster.until_in_sync("handed", index)
    log = cluster.brokers[leaving].log()
    assert log.count("broker stopped") == 1
    assert '"truncated_bytes": 0' in log.rsplit("broker serves", 1)[0][-400:]


def test_the_controller_stops_like_any_other(cluster: Cluster) -> None:
    cluster.create("controlled", 3)
    controller = cluster.controller_id()
    with Production(cluster, "controlled", 3) as production:
        assert cluster.brokers[controller].stop() == 0
        eventually(cluster.controller_id, lambda each: each != controller)
        production.go_on()
        cluster.create("by.the.next.one", factor=2)
        cluster.brokers[controller].start()
        for index in range(3):
            cluster.until_in_sync("controlled", index)


def test_the_controller_is_killed(cluster: Cluster) -> None:
    cluster.create("survives", 6)
    controller = cluster.controller_id()
    with Production(cluster, "survives", 6) as production:
        cluster.brokers[controller].kill()
        eventually(cluster.controller_id, lambda each: each != controller)
        for index in range(6):
            cluster.leader("survives", index, but=controller)
        production.go_on()
        cluster.create("after.the.kill", 2, factor=2)
        cluster.brokers[controller].start()
        for index in range(6):
            cluster.until_in_sync("survives", index)


def test_a_broker_whose_session_expired_comes_back_as_another(cluster: Cluster) -> None:
    cluster.create("paused", 3)
    controller = cluster.controller_id()
    paused = next(each for each in cluster.brokers if each != controller)

    def epochs() -> list[str]:
        return [line for line in cluster.brokers[paused].log().splitlines() if '"registered"' in line]

    before = len(epochs())
    with Production(cluster, "paused", 3) as production:
        cluster.brokers[paused].pause()
        for index in range(3):
            cluster.leader("paused", index, but=paused)
        production.go_on()
        cluster.brokers[paused].resume()
        eventually(lambda: len(epochs()), lambda number: number == before + 1)
        for index in range(3):
            cluster.until_in_sync("paused", index)


def test_a_killed_broker_does_not_wait_for_its_session(cluster: Cluster) -> None:
    broker = cluster.add(4, "--session-timeout-ms", "60000")
    try:
        broker.start()
        broker.kill()
        broker.start()
        assert "an earlier life of this broker is ended" in broker.log()
    finally:
        broker.stop()
        del cluster.brokers[4]


def test_what_operators_watch(cluster: Cluster) -> None:
    cluster.create("watched", 6)
    for index in range(6):
        cluster.until_in_sync("watched", index)
    stopped = next(each for each in cluster.brokers if each != cluster.controller_id())

    def total(gauge: str) -> float:
        running = [broker for broker in cluster.brokers.values() if broker.is_running]
        return sum(broker.metrics()[f"portico_broker_{gauge}"] for broker in running)

    eventually(partial(total, "under_replicated_partitions"), lambda number: number == 0)
    assert total("active_controller") == 1
    assert total("live_brokers") == 9
    replicas = total("replicas")
    assert total("partitions") * 3 > replicas - 20, "all but a few topics here have three replicas"
    cluster.brokers[stopped].stop()
    eventually(partial(total, "live_brokers"), lambda number: number == 4)
    eventually(partial(total, "under_replicated_partitions"), lambda number: number >= 6)
    assert total("offline_partitions") == 0
    assert total("under_min_isr_partitions") == 0
    cluster.brokers[stopped].start()
    eventually(partial(total, "under_replicated_partitions"), lambda number: number == 0)
    assert total('isr_changes_total{direction="expand"}') >= 6
    leader = cluster.brokers[cluster.leader("watched")].metrics()
    assert [name for name in leader if name.startswith("portico_broker_follower_lag_records{")]


def test_an_id_that_is_taken(cluster: Cluster, tmp_path: Any) -> None:
    taken = cluster.brokers[1]
    twin = BrokerProcess(tmp_path, *taken.arguments)
    twin.launch()
    with pytest.raises(AssertionError, match="broker id 1 is taken by the broker at"):
        twin.wait()
    assert "Traceback" not in twin.log()


def test_another_secret_or_none(cluster: Cluster, tmp_path: Any) -> None:
    twin = BrokerProcess(tmp_path, "--zookeeper", "127.0.0.1:1")
    twin.launch()
    with pytest.raises(AssertionError, match="give a secret file"):
        twin.wait()


def _command(client: RawClient, request: Any) -> Any:
    api_key = messages.api_key_of(request)
    client.send_frame(api_key, 0, messages.encode(request))
    frame = client.receive_frame()
    return messages.decode_response(api_key, frame[4:])


def _metadata(**changes: Any) -> messages.UpdateMetadataRequest:
    values: dict[str, Any] = {"controller_id": 1, "controller_epoch": 2**31, "broker_epoch": 2**62}
    return messages.UpdateMetadataRequest(**(values | changes))


@pytest.mark.parametrize("authorization_id", ["", "10.0.0.7:4711", "broker/1", "broker/1/x"])
def test_only_brokers_command(cluster: Cluster, authorization_id: str) -> None:
    with cluster.client(2, authorization_id) as client:
        client.send_frame(6, 0, messages.encode(_metadata()))
        assert client.is_closed()


def test_commands_of_the_past_are_refused(cluster: Cluster) -> None:
    with cluster.client(2, "broker/1/1") as client:
        assert _command(client, _metadata(broker_epoch=0)).error_code == 77, "STALE_BROKER_EPOCH"
        assert _command(client, _metadata(controller_epoch=0)).error_code == 11, "STALE_CONTROLLER_EPOCH"
        stop = messages.StopReplicaRequest(controller_id=1, controller_epoch=0, broker_epoch=2**62)
        assert _command(client, stop).error_code == 11
    assert len(cluster.metadata("x", node_id=2).brokers) == 3


@pytest.mark.parametrize(
    "body", [b"", b"\x80", b"\xc1", msgspec.msgpack.encode({"version": "x"}), b"\xff" * 64]
)
def test_a_broken_command_costs_its_connection(cluster: Cluster, body: bytes) -> None:
    with cluster.client(2, "broker/1/1") as client:
        client.send_frame(4, 0, body)
        assert client.is_closed()
    with cluster.client(2, "broker/1/1") as client:
        client.send_frame(7, 0, struct.pack(">i", 0))
        assert client.is_closed()


def test_offsets_wait_for_as_many_brokers_as_they_have_replicas(cluster: Cluster, tmp_path: Any) -> None:
    started = Cluster(tmp_path, f"{cluster.zookeeper}-starts", 2, "--default-replication-factor", "2")

    def coordinator() -> Any:
        return started.call(1, request(10, 3, key="g", key_type=0))

    try:
        started.brokers[1].start()
        started.controller_id()
        answer = coordinator()
        assert answer.error_code.name == "coordinator_not_available"
        assert answer.error_message == "__consumer_offsets is made when 2 brokers are there, now 1"
        started.brokers[2].start()
        assert eventually(coordinator, lambda each: each.error_code.value == 0).node_id in started.brokers
        (topic,) = started.metadata("__consumer_offsets", node_id=1).topics
        assert {len(each.replica_nodes) for each in topic.partitions} == {2}
    finally:
        started.stop()


def test_a_cluster_that_stops_as_a_whole_does_not_wait(cluster: Cluster) -> None:
    """Last: it takes the cluster down and up again."""
    cluster.create("rests", 3)
    with Production(cluster, "rests", 3):
        pass
    for broker in cluster.brokers.values():
        broker.terminate()
    for broker in cluster.brokers.values():
        assert broker.wait_for_end() == 0
    for broker in cluster.brokers.values():
        broker.launch()
    for broker in cluster.brokers.values():
        broker.wait()
    for index in range(3):
        cluster.until_in_sync("rests", index)

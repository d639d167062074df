"""Brokers of one cluster as subprocesses, and what tests ask of them."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.integration.broker.process import BrokerProcess
from tests.integration.broker.raw import RawClient, request
from wire.client import plain_token

SECRET: Final = "cluster-test"
SESSION_TIMEOUT_MS: Final = 2_000
_PATIENCE_S: Final = 30.0


class Cluster:
    """Brokers 1 to N. Each keeps its port over restarts."""

    def __init__(self, directory: Path, zookeeper: str, count: int, *arguments: str) -> None:
        self.secret_file = directory / "secret"
        self.secret_file.write_text(SECRET)
        self.zookeeper = zookeeper
        self._directory, self._arguments = directory, arguments
        self.brokers: dict[int, BrokerProcess] = {}
        for node_id in range(1, count + 1):
            self.add(node_id)

    def add(self, node_id: int, *arguments: str) -> BrokerProcess:
        """One more broker, not started."""
        directory = self._directory / f"broker-{node_id}"
        directory.mkdir()
        broker = self.brokers[node_id] = BrokerProcess(
            directory,
            *("--node-id", str(node_id), "--zookeeper", self.zookeeper),
            *("--secret-file", str(self.secret_file), "--session-timeout-ms", str(SESSION_TIMEOUT_MS)),
            *("--replica-lag-time-max-ms", "3000"),
            *self._arguments,
            *arguments,
        )
        return broker

    def start(self) -> None:
        """All at once."""
        for broker in self.brokers.values():
            broker.launch()
        for broker in self.brokers.values():
            broker.wait()

    def stop(self) -> None:
        """All at once; those that are down stay down."""
        running = [broker for broker in self.brokers.values() if broker.is_running]
        for broker in running:
            broker.resume()
            broker.terminate()
        for broker in running:
            broker.wait_for_end()

    @property
    def addresses(self) -> str:
        """bootstrap.servers."""
        return ",".join(broker.address for broker in self.brokers.values())

    def config(self, **more: Any) -> dict[str, Any]:
        """What confluent-kafka's clients need to come in."""
        return {
            "bootstrap.servers": self.addresses,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "portico",
            "sasl.password": SECRET,
            "topic.metadata.refresh.interval.ms": 500,
            **{key.replace("_", "."): value for key, value in more.items()},
        }

    def client(self, node_id: int, authorization_id: str = "") -> RawClient:
        """A bare connection to one broker, logged in."""
        client = RawClient(self.brokers[node_id].port)
        client.call(request(17, 1, mechanism="PLAIN"))
        answer = client.call(request(36, 1, auth_bytes=plain_token(SECRET, authorization_id)))
        assert answer.error_code.value == 0, answer
        return client

    def call(self, node_id: int, wanted: Any) -> Any:
        """Ask one broker one thing."""
        with self.client(node_id) as client:
            return client.call(wanted)

    def metadata(self, *topics: str, node_id: int | None = None) -> Any:
        """As one broker, or any that answers, has it."""
        wanted = request(3, 9, topics=[{"name": name} for name in topics], allow_auto_topic_creation=False)
        for each in self.brokers if node_id is None else (node_id,):
            if self.brokers[each].is_running and not self.brokers[each].is_paused:
                try:
                    return self.call(each, wanted)
                except (ConnectionError, TimeoutError):
                    continue
        raise AssertionError("no broker answers")

    def partition(self, topic: str, index: int = 0, node_id: int | None = None) -> Any:
        """One partition's metadata."""
        (found,) = self.metadata(topic, node_id=node_id).topics
        return next(each for each in found.partitions if each.partition_index == index)

    def controller_id(self) -> int:
        """Waits until somebody is."""
        return int(eventually(lambda: self.metadata("x").controller_id, lambda each: each >= 1))

    def leader(self, topic: str, index: int = 0, *, but: int | None = None) -> int:
        """Waits until somebody leads, somebody else than `but`."""
        return int(
            eventually(lambda: self.partition(topic, index).leader_id, lambda each: each not in (-1, but))
        )

    def until_in_sync(self, topic: str, index: int = 0, replicas: int = 3) -> None:
        """Wait until all replicas are in the ISR."""
        eventually(lambda: self.partition(topic, index).isr_nodes, lambda isr: len(isr) == replicas)

    def create(self, topic: str, partitions: int = 1, factor: int = 3, **configs: str) -> Any:
        """Create a topic at the controller."""
        asked = {
            "name": topic,
            "num_partitions": partitions,
            "replication_factor": factor,
            "assignments": (),
            "configs": [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()],
        }
        (answer,) = self.call(self.controller_id(), request(19, 4, topics=[asked])).topics
        assert answer.error_code.value == 0, answer
        return answer


def eventually(
    ask: Callable[[], Any], holds: Callable[[Any], bool] = bool, within_s: float = _PATIENCE_S
) -> Any:
    """The answer once it is as it should be."""
    deadline = time.monotonic() + within_s
    while True:
        answer = ask()
        if holds(answer):
            return answer
        assert time.monotonic() < deadline, f"after {within_s} s it is still {answer!r}"
        time.sleep(0.05)


@contextmanager
def running_cluster(directory: Path, zookeeper: str, count: int = 3, *arguments: str) -> Iterator[Cluster]:
    """Brokers that are stopped at the end."""
    cluster = Cluster(directory, zookeeper, count, *arguments)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()

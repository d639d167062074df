"""Three brokers over a real ZooKeeper, to be killed, paused and damaged."""

import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from broker.log.payload import records_of
from tests.integration.broker.process import BrokerProcess
from tests.integration.broker.raw import RawClient, request
from wire.batch import iterate_batches
from wire.codec import duration

SECRET: Final = "a-secret-of-the-tests"
SESSION_TIMEOUT_MS: Final = 2_000
LAG_MAX_MS: Final = 3_000
_DEADLINE_S: Final = 30.0


class Cluster:
    """Brokers 1 to 3."""

    def __init__(self, brokers: dict[int, BrokerProcess]) -> None:
        self.brokers = brokers

    @property
    def addresses(self) -> list[str]:
        """For clients."""
        return [broker.address for broker in self.brokers.values()]

    @property
    def security(self) -> dict[str, Any]:
        """How aiokafka logs in."""
        return {
            "bootstrap_servers": self.addresses,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "PLAIN",
            "sasl_plain_username": "portico",
            "sasl_plain_password": SECRET,
        }

    @contextmanager
    def client(self, broker_id: int) -> Iterator[RawClient]:
        """A logged-in connection to one broker."""
        with RawClient(self.brokers[broker_id].port) as client:
            client.call(request(17, 1, mechanism="PLAIN"))
            token = b"\0portico\0" + SECRET.encode()
            assert client.call(request(36, 1, auth_bytes=token)).error_code.value == 0
            yield client

    def controller_id(self) -> int:
        """As any broker that answers sees it."""
        return int(self._metadata(None).controller_id)

    def _metadata(self, topic: str | None) -> Any:
        topics = None if topic is None else ({"name": topic, "topic_id": None},)
        for broker_id in self.brokers:
            try:
                with self.client(broker_id) as client:
                    return client.call(request(3, 8, topics=topics, allow_auto_topic_creation=False))
            except OSError:
                continue
        raise AssertionError("no broker answers")

    def create(self, topic: str, partitions: int = 1) -> None:
        """Create a topic on three replicas and wait until it is led."""
        with self.client(self.controller_id()) as client:
            answer = client.call(
                request(
                    19,
                    4,
                    topics=[
                        {
                            "name": topic,
                            "num_partitions": partitions,
                            "replication_factor": 3,
                            "assignments": (),
                            "configs": (),
                        }
                    ],
                    timeout=_seconds(20),
                    validate_only=False,
                )
            )
        assert [each.error_code.value for each in answer.topics] == [0]

    def partition(self, topic: str, index: int = 0) -> Any:
        """Leader and ISR as Metadata tells them."""
        for each in self._metadata(topic).topics:
            for partition in each.partitions:
                if partition.partition_index == index:
                    return partition
        raise AssertionError(f"{topic}-{index} is not known")

    def leader(self, topic: str, index: int = 0) -> int:
        """The broker that leads."""
        return int(self.partition(topic, index).leader_id)

    def until(self, condition: Callable[[], bool], what: str, timeout_s: float = _DEADLINE_S) -> None:
        """Poll."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            try:
                if condition():
                    return
            except (OSError, AssertionError):
                pass
            time.sleep(0.05)
        raise AssertionError(f"not within {timeout_s:.0f} s: {what}\n{self.logs()}")

    def until_in_sync(self, topic: str, index: int = 0) -> None:
        """All three are in the ISR."""
        self.until(lambda: len(self.partition(topic, index).isr_nodes) == 3, f"{topic}-{index} in sync")

    def logs(self) -> str:
        """The end of what the brokers wrote."""
        return "\n".join(f"-- {i}\n{broker.log()[-2500:]}" for i, broker in self.brokers.items())

    def contents(self, broker_id: int, topic: str, index: int = 0) -> list[tuple[int, bytes]]:
        """(offset, value) of everything in one replica, whoever leads."""
        found: list[tuple[int, bytes]] = []
        offset = 0
        with self.client(broker_id) as client:
            while True:
                answer = client.call(_fetch(topic, index, offset))
                (partition,) = answer.responses[0].partitions
                assert partition.error_code.value == 0, partition.error_code
                records = memoryview(partition.records or b"")
                before = offset
                for at, header in iterate_batches(records):
                    offset = header.next_offset
                    batch = records[at : at + header.size_bytes]
                    found += [(each.offset, each.value or b"") for each in records_of(batch, header)]
                if offset == before:
                    return found

    def until_equal(self, topic: str, index: int = 0) -> list[tuple[int, bytes]]:
        """Wait until the three replicas hold the same; what that is."""
        seen: list[list[tuple[int, bytes]]] = []

        def equal() -> bool:
            seen[:] = [self.contents(broker_id, topic, index) for broker_id in self.brokers]
            return seen[0] == seen[1] == seen[2]

        self.until(equal, f"the replicas of {topic}-{index} are equal")
        return seen[0]

    def log_directory(self, broker_id: int, topic: str, index: int = 0) -> Path:
        """Where a replica keeps its log."""
        return self.brokers[broker_id].data_dir / "logs" / f"{topic}-{index}"

    def pause(self, broker_id: int) -> None:
        """SIGSTOP."""
        self.brokers[broker_id].signal(signal.SIGSTOP)

    def resume(self, broker_id: int) -> None:
        """SIGCONT."""
        self.brokers[broker_id].signal(signal.SIGCONT)

    def empty(self, broker_id: int) -> None:
        """The disk of a dead broker was replaced."""
        shutil.rmtree(self.brokers[broker_id].data_dir)


def _seconds(number: int) -> Any:
    return duration(1000 * number)


def _fetch(topic: str, index: int, offset: int) -> Any:
    return request(
        1,
        10,
        replica_id=-2,
        max_wait=_seconds(0),
        min_bytes=0,
        max_bytes=10_000_000,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[
            {
                "topic": topic,
                "partitions": [
                    {
                        "partition": index,
                        "current_leader_epoch": -1,
                        "fetch_offset": offset,
                        "log_start_offset": -1,
                        "partition_max_bytes": 10_000_000,
                    }
                ],
            }
        ],
        forgotten_topics_data=(),
    )


def _end(broker: BrokerProcess) -> None:
    if broker.is_running:
        broker.kill()  # stopping cleanly is another test's


@contextmanager
def running_cluster(directory: Path, zookeeper: str) -> Iterator[Cluster]:
    """Three brokers that are stopped at the end."""
    secret = directory / "secret"
    secret.write_text(SECRET)
    secret.chmod(0o600)
    brokers: dict[int, BrokerProcess] = {}
    with ExitStack() as stopping:
        for node_id in (1, 2, 3):
            own = directory / f"broker-{node_id}"
            own.mkdir()
            brokers[node_id] = BrokerProcess(
                own,
                *("--node-id", str(node_id), "--zookeeper", zookeeper, "--secret-file", str(secret)),
                *("--session-timeout-ms", str(SESSION_TIMEOUT_MS)),
                *("--replica-lag-time-max-ms", str(LAG_MAX_MS)),
            )
            stopping.callback(_end, brokers[node_id])
            brokers[node_id].start()
        yield Cluster(brokers)

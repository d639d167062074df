"""One side of a mirror as its clients see it: topics, ids, leaders, coordinators, offsets."""

import base64
import time
import uuid
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode

from pipeline.errors import PipelineError
from pipeline.mirror.kafka import Connection
from pipeline.mirror.planning.errors import Paused, Unreachable, expect_success, failure_of
from wire.api_table import ApiKey

EARLIEST: Final = -2
LATEST: Final = -1
GROUP: Final = 0
TRANSACTION: Final = 1
_COORDINATOR_WITHIN_S: Final = 20.0
_AGAIN_AFTER_S: Final = 0.05


class Topic(NamedTuple):
    """A topic as Metadata tells of it."""

    name: str
    topic_id: str
    """The id in Kafka's text form; the name where the cluster has no topic ids."""
    leaders: tuple[int, ...]
    """Node ids by partition, -1 where there is none now."""


class View(NamedTuple):
    """What Metadata tells."""

    cluster_id: str
    topics: dict[str, Topic]
    refused: dict[str, str]
    """Why this client does not get to know of a topic."""


def topic_id_text(topic_id: uuid.UUID | None, name: str) -> str:
    """A topic id in Kafka's form of 22 characters."""
    if topic_id is None or topic_id.int == 0:
        return name
    return base64.urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode()


def parse_bootstrap(text: str) -> list[tuple[str, int]]:
    """Raises: PipelineError."""
    addresses = []
    for part in text.split(","):
        host, _, port = part.strip().rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65_536:
            raise PipelineError(f"'{part.strip()}' is not HOST:PORT")
        addresses.append((host.strip("[]"), int(port)))
    return addresses


class Cluster:
    """Connections to the brokers of one side, by purpose: none waits for another's replies."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = parse_bootstrap(bootstrap)
        self._nodes: dict[int, tuple[str, int]] = {}
        self._connections: dict[tuple[str, int, str], Connection] = {}

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections = {}

    def drop(self, connection: Connection) -> None:
        """Forget a connection that failed, or whose replies nobody wants any more."""
        connection.close()
        self._connections = {key: kept for key, kept in self._connections.items() if kept is not connection}

    def _connect(self, host: str, port: int, purpose: str) -> Connection:
        key = (host, port, purpose)
        if key not in self._connections:
            self._connections[key] = Connection(host, port)
        return self._connections[key]

    def _any(self) -> Connection:
        """A connection to whichever bootstrap address answers."""
        failures = []
        for host, port in self._bootstrap:
            try:
                return self._connect(host, port, "any")
            except Unreachable as error:
                failures.append(str(error))
        raise Unreachable("; ".join(failures))

    def call(self, connection: Connection, api: ApiKey, **fields: Any) -> Any:
        """A call whose failure costs the connection."""
        try:
            return connection.call(api, **fields)
        except Unreachable:
            self.drop(connection)
            raise

    def serves(self, *apis: ApiKey) -> bool:
        """Whether the cluster has all of these APIs."""
        connection = self._any()
        return all(connection.serves(api) for api in apis)

    def view(self, topics: Iterable[str] | None = None) -> View:
        """Cluster id and topics: these, as far as they exist, or all."""
        wanted = None if topics is None else [{"name": name, "topic_id": uuid.UUID(int=0)} for name in topics]
        answer = self.call(
            self._any(),
            ApiKey.METADATA,
            topics=wanted,
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
            include_cluster_authorized_operations=False,
        )
        self._nodes = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        found, refused = {}, {}
        for topic in answer.topics:
            if topic.error_code in (ErrorCode.unknown_topic_or_partition, ErrorCode.leader_not_available):
                continue
            if topic.error_code != ErrorCode.none:
                refused[topic.name] = str(failure_of(topic.error_code, f"topic '{topic.name}'"))
                continue
            leaders = {partition.partition_index: partition.leader_id for partition in topic.partitions}
            found[topic.name] = Topic(
                topic.name,
                topic_id_text(getattr(topic, "topic_id", None), topic.name),
                tuple(leaders.get(partition, -1) for partition in range(len(leaders))),
            )
        return View(answer.cluster_id or "", found, refused)

    def topic(self, name: str) -> Topic | None:
        """One topic, None where it does not exist. Raises: Paused where this client may not use it."""
        view = self.view([name])
        if name in view.refused:
            raise Paused(view.refused[name])
        return view.topics.get(name)

    def node(self, node_id: int, purpose: str) -> Connection:
        """A connection to a broker that Metadata told of."""
        if node_id not in self._nodes:
            raise Unreachable(f"broker {node_id} is away")
        return self._connect(*self._nodes[node_id], purpose)

    def leader(self, topic: str, partition: int, purpose: str) -> Connection:
        """A connection to the leader of a partition."""
        found = self.topic(topic)
        if found is None or partition >= len(found.leaders):
            expect_success(ErrorCode.unknown_topic_or_partition, f"{topic}-{partition}")
            raise AssertionError("an error code is no success")
        if found.leaders[partition] < 0:
            raise Unreachable(f"{topic}-{partition} has no leader")
        return self.node(found.leaders[partition], purpose)

    def coordinator(self, key: str, key_type: int) -> Connection:
        """A connection to the coordinator of a group or transactional id, once there is one."""
        deadline = time.monotonic() + _COORDINATOR_WITHIN_S
        while True:
            answer = self.call(self._any(), ApiKey.FIND_COORDINATOR, key=key, key_type=key_type)
            if answer.error_code == ErrorCode.none:
                return self._connect(answer.host, answer.port, "coordinator")
            passing = answer.error_code == ErrorCode.coordinator_not_available
            if not passing or time.monotonic() > deadline:
                expect_success(answer.error_code, f"the coordinator of '{key}'", answer.error_message)
            time.sleep(_AGAIN_AFTER_S)

    def offsets(
        self, topic: Topic, timestamp: int, *, committed: bool, partitions: Iterable[int] | None = None
    ) -> dict[int, int]:
        """An offset of each partition: EARLIEST or LATEST, of what is committed or of everything."""
        wanted = range(len(topic.leaders)) if partitions is None else partitions
        by_leader: dict[int, list[int]] = {}
        for partition in wanted:
            by_leader.setdefault(topic.leaders[partition], []).append(partition)
        offsets = {}
        for node_id, led in by_leader.items():
            answer = self.call(
                self.node(node_id, "offsets"),
                ApiKey.LIST_OFFSETS,
                replica_id=-1,
                isolation_level=int(committed),
                topics=[
                    {
                        "name": topic.name,
                        "partitions": [{"partition_index": each, "timestamp": timestamp} for each in led],
                    }
                ],
            )
            for each in answer.topics[0].partitions:
                expect_success(each.error_code, f"offsets of {topic.name}-{each.partition_index}")
                offsets[each.partition_index] = each.offset
        return offsets

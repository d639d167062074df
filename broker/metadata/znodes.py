"""What Kafka's znodes hold in ZooKeeper mode (3.x), both ways. Pure. `znode_paths.py` says where.

What Kafka itself or its tools write is read too: unknown fields are skipped, absent ones have Kafka's
defaults. Ours adds one field to a registration, `unclean`.
"""

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeVar
from uuid import UUID

import msgspec

from contracts.cluster import NO_LEADER


class ZnodeDamaged(Exception):  # noqa: N818 - says what is so
    """A node holds what Kafka's format does not allow."""


_T = TypeVar("_T")


def _decoded(decoder: "msgspec.json.Decoder[_T]", data: bytes, what: str) -> _T:
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ZnodeDamaged(f"{what}: {error}") from error


def encode_topic_id(topic_id: UUID) -> str:
    """Kafka's text of a UUID: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode()


def decode_topic_id(text: str) -> UUID:
    """Raises: ZnodeDamaged."""
    try:
        return UUID(bytes=base64.urlsafe_b64decode(text + "=="))
    except (ValueError, binascii.Error) as error:
        raise ZnodeDamaged(f"topic id {text[:40]!r}: {error}") from error


class _Controller(msgspec.Struct, frozen=True):
    brokerid: int
    timestamp: str = "-1"
    version: int = 1


_CONTROLLER: Final = msgspec.json.Decoder(_Controller)


def encode_controller(broker_id: int, now_ms: int) -> bytes:
    """The /controller node, an ephemeral of the broker that is controller."""
    return msgspec.json.encode(
        {"version": 2, "brokerid": broker_id, "timestamp": str(now_ms), "kraftControllerEpoch": -1}
    )


def decode_controller(data: bytes) -> int:
    """The controller's broker id. Raises: ZnodeDamaged."""
    return _decoded(_CONTROLLER, data, "the controller's node").brokerid


def encode_controller_epoch(epoch: int) -> bytes:
    """Decimal digits."""
    return str(epoch).encode()


def decode_controller_epoch(data: bytes) -> int:
    """Raises: ZnodeDamaged."""
    try:
        return int(data)
    except ValueError as error:
        raise ZnodeDamaged(f"the controller epoch: {error}") from error


def encode_kept_until(until_ms: int) -> bytes:
    """Decimal digits."""
    return str(until_ms).encode()


def decode_kept_until(data: bytes) -> int:
    """Raises: ZnodeDamaged."""
    try:
        return int(data)
    except ValueError as error:
        raise ZnodeDamaged(f"until when everything is kept: {error}") from error


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """What a broker says of itself; its epoch is the czxid of the node."""

    host: str
    port: int
    rack: str | None = None
    listener: str = "PLAINTEXT"
    """Kafka's security protocol of the one endpoint."""
    is_unclean: bool = False
    """It may have lost what it had not synced: the machine went down since its last start."""
    timestamp_ms: int = -1


class _Registration(msgspec.Struct, frozen=True):
    host: str | None = None
    port: int = -1
    endpoints: list[str] = []
    rack: str | None = None
    timestamp: str = "-1"
    unclean: bool = False


_REGISTRATION: Final = msgspec.json.Decoder(_Registration)


def encode_registration(broker: Registration) -> bytes:
    """Version 5."""
    fields: dict[str, object] = {
        "version": 5,
        "host": broker.host,
        "port": broker.port,
        "endpoints": [f"{broker.listener}://{_bracketed(broker.host)}:{broker.port}"],
        "listener_security_protocol_map": {broker.listener: broker.listener},
        "jmx_port": -1,
        "timestamp": str(broker.timestamp_ms),
        "features": {},
    }
    if broker.rack is not None:
        fields["rack"] = broker.rack
    if broker.is_unclean:
        fields["unclean"] = True
    return msgspec.json.encode(fields)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def decode_registration(data: bytes) -> Registration:
    """Any version; without a host of its own the first endpoint counts. Raises: ZnodeDamaged."""
    read = _decoded(_REGISTRATION, data, "a broker's registration")
    timestamp_ms = int(read.timestamp) if read.timestamp.isdecimal() else -1
    listener, host, port = "PLAINTEXT", read.host, read.port
    if read.endpoints:
        listener, _, address = read.endpoints[0].partition("://")
        if host is None:
            name, _, digits = address.rpartition(":")
            host, port = name.strip("[]"), int(digits) if digits.isdecimal() else -1
    if not host or not 0 < port < 65536:
        raise ZnodeDamaged("a broker's registration names no address")
    return Registration(
        host=host,
        port=port,
        rack=read.rack,
        listener=listener,
        is_unclean=read.unclean,
        timestamp_ms=timestamp_ms,
    )


class Assignment(NamedTuple):
    """A partition's replicas. While it is being reassigned `replicas` holds adding and removing ones too."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()


class TopicNode(NamedTuple):
    """A topic's id and assignment by partition."""

    topic_id: UUID | None
    """None: written by a tool from before Kafka 2.8; the controller gives it one."""
    partitions: dict[int, Assignment]


class _Topic(msgspec.Struct, frozen=True):
    partitions: dict[int, tuple[int, ...]] = {}
    topic_id: str | None = None
    adding_replicas: dict[int, tuple[int, ...]] = {}
    removing_replicas: dict[int, tuple[int, ...]] = {}


_TOPIC: Final = msgspec.json.Decoder(_Topic)


def encode_topic(topic: TopicNode) -> bytes:
    """Version 3."""
    partitions = sorted(topic.partitions.items())
    fields: dict[str, object] = {
        "version": 3,
        "partitions": {str(index): each.replicas for index, each in partitions},
        "adding_replicas": {str(i): each.adding_replicas for i, each in partitions if each.adding_replicas},
        "removing_replicas": {
            str(i): each.removing_replicas for i, each in partitions if each.removing_replicas
        },
    }
    if topic.topic_id is not None:
        fields["topic_id"] = encode_topic_id(topic.topic_id)
    return msgspec.json.encode(fields)


def decode_topic(data: bytes) -> TopicNode:
    """Raises: ZnodeDamaged."""
    read = _decoded(_TOPIC, data, "a topic's node")
    return TopicNode(
        None if read.topic_id is None else decode_topic_id(read.topic_id),
        {
            index: Assignment(
                replicas, read.adding_replicas.get(index, ()), read.removing_replicas.get(index, ())
            )
            for index, replicas in read.partitions.items()
        },
    )


class PartitionState(msgspec.Struct, frozen=True):
    """A partition's state node. Invariant: the leader, when there is one, is in the ISR."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    leader_recovery_state: int = 0
    """1: the leader was elected from outside the ISR (KIP-704)."""

    @property
    def has_leader(self) -> bool:
        """Whether a broker leads."""
        return self.leader != NO_LEADER


_STATE: Final = msgspec.json.Decoder(PartitionState)


def encode_state(state: PartitionState) -> bytes:
    """Version 1."""
    fields: dict[str, object] = {
        "controller_epoch": state.controller_epoch,
        "leader": state.leader,
        "version": 1,
        "leader_epoch": state.leader_epoch,
        "isr": state.isr,
    }
    if state.leader_recovery_state:
        fields["leader_recovery_state"] = state.leader_recovery_state
    return msgspec.json.encode(fields)


def decode_state(data: bytes) -> PartitionState:
    """Raises: ZnodeDamaged."""
    return _decoded(_STATE, data, "a partition's state")


class _NamedPartition(msgspec.Struct, frozen=True):
    topic: str
    partition: int


class _NamedPartitions(msgspec.Struct, frozen=True):
    partitions: list[_NamedPartition]


_PARTITIONS: Final = msgspec.json.Decoder(_NamedPartitions)


def encode_partitions(partitions: Iterable[tuple[str, int]]) -> bytes:
    """A set of partitions: what an ISR change notification and a preferred election hold."""
    listed = [{"topic": topic, "partition": partition} for topic, partition in partitions]
    return msgspec.json.encode({"version": 1, "partitions": listed})


def decode_partitions(data: bytes) -> set[tuple[str, int]]:
    """Raises: ZnodeDamaged."""
    read = _decoded(_PARTITIONS, data, "a set of partitions")
    return {(each.topic, each.partition) for each in read.partitions}


class _Reassigned(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    replicas: tuple[int, ...]


class _Reassignment(msgspec.Struct, frozen=True):
    partitions: list[_Reassigned]


_REASSIGNMENT: Final = msgspec.json.Decoder(_Reassignment)


def encode_reassignment(targets: Mapping[tuple[str, int], tuple[int, ...]]) -> bytes:
    """The target replicas of partitions."""
    listed = [{"topic": t, "partition": p, "replicas": replicas} for (t, p), replicas in targets.items()]
    return msgspec.json.encode({"version": 1, "partitions": listed})


def decode_reassignment(data: bytes) -> dict[tuple[str, int], tuple[int, ...]]:
    """Raises: ZnodeDamaged."""
    read = _decoded(_REASSIGNMENT, data, "the reassignment")
    return {(each.topic, each.partition): each.replicas for each in read.partitions}


class _Config(msgspec.Struct, frozen=True):
    config: dict[str, str] = {}


_CONFIG: Final = msgspec.json.Decoder(_Config)


def encode_config(configs: Mapping[str, str]) -> bytes:
    """A layer of configs."""
    return msgspec.json.encode({"version": 1, "config": dict(configs)})


def decode_config(data: bytes) -> dict[str, str]:
    """Raises: ZnodeDamaged."""
    return _decoded(_CONFIG, data, "a layer of configs").config if data else {}


def encode_config_change(entity_path: str) -> bytes:
    """What tells brokers of Apache Kafka, and this controller, that `topics/T` or `brokers/N` changed."""
    return msgspec.json.encode({"version": 2, "entity_path": entity_path})


class _LogDirEvent(msgspec.Struct, frozen=True):
    broker: int


_LOG_DIR_EVENT: Final = msgspec.json.Decoder(_LogDirEvent)


def encode_log_dir_event(broker_id: int) -> bytes:
    """A broker's directory failed; which partitions it held the broker answers to LeaderAndIsr."""
    return msgspec.json.encode({"version": 1, "broker": broker_id, "event": 1})


def decode_log_dir_event(data: bytes) -> int:
    """The broker's id. Raises: ZnodeDamaged."""
    return _decoded(_LOG_DIR_EVENT, data, "a log directory event").broker


class _ConfigChange(msgspec.Struct, frozen=True):
    entity_path: str


_CONFIG_CHANGE: Final = msgspec.json.Decoder(_ConfigChange)


def decode_config_change(data: bytes) -> tuple[str, str]:
    """(entity type, name), such as ("topics", "T") or ("brokers", "<default>"). Raises: ZnodeDamaged."""
    kind, _, name = _decoded(_CONFIG_CHANGE, data, "a config change").entity_path.partition("/")
    return kind, name


class _ClusterId(msgspec.Struct, frozen=True):
    id: str


_CLUSTER_ID: Final = msgspec.json.Decoder(_ClusterId)


def encode_cluster_id(cluster_id: str) -> bytes:
    """The cluster's name, made once by its first broker."""
    return msgspec.json.encode({"version": "1", "id": cluster_id})


def decode_cluster_id(data: bytes) -> str:
    """Raises: ZnodeDamaged."""
    return _decoded(_CLUSTER_ID, data, "the cluster id").id


class _ProducerIdBlock(msgspec.Struct, frozen=True):
    broker: int
    block_start: str
    block_end: str


_PRODUCER_ID_BLOCK: Final = msgspec.json.Decoder(_ProducerIdBlock)


def encode_producer_id_block(broker_id: int, first: int, last: int) -> bytes:
    """The block of producer ids taken last, both ends included."""
    return msgspec.json.encode(
        {"version": 1, "broker": broker_id, "block_start": str(first), "block_end": str(last)}
    )


def decode_producer_id_block(data: bytes) -> int:
    """The last producer id taken; -1 before the first block. Raises: ZnodeDamaged."""
    if not data:
        return -1
    read = _decoded(_PRODUCER_ID_BLOCK, data, "the producer id block")
    if not read.block_end.isdecimal():
        raise ZnodeDamaged(f"the producer id block ends at {read.block_end[:40]!r}")
    return int(read.block_end)

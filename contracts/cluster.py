"""What the controller and the brokers of a cluster tell each other: Kafka's API keys 4-7, its field names.

Frames are Kafka's (request header v1, response header v0), api version 0; the body is msgpack of these
structs. Only an authenticated broker may send them. Epochs fence: `controller_epoch` an older controller,
`broker_epoch` (czxid of /brokers/ids/N) a request meant for an earlier life of the receiver, `leader_epoch`
an older decision about one partition. One request carries any number of partitions.
"""

from typing import Final
from uuid import UUID

import msgspec

MESSAGE_VERSION: Final = 1
LEADER_AND_ISR_KEY: Final = 4
STOP_REPLICA_KEY: Final = 5
UPDATE_METADATA_KEY: Final = 6
CONTROLLED_SHUTDOWN_KEY: Final = 7

NO_LEADER: Final = -1
EPOCH_DURING_DELETE: Final = -2
"""Leader epoch of a StopReplica that belongs to a topic's deletion: later than every epoch (KIP-570)."""
UNKNOWN_BROKER_EPOCH: Final = -1


class LiveBroker(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A registered broker."""

    broker_id: int
    host: str
    port: int
    rack: str | None = None
    broker_epoch: int
    """czxid of its /brokers/ids node: another life of the broker, another epoch."""
    in_controlled_shutdown: bool = False
    """It is moving its leaders away: it may not (re)join an ISR."""


class LeaderAndIsrPartitionState(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """One partition as the receiver, one of its replicas, has to play it."""

    topic: str
    topic_id: UUID
    partition: int
    controller_epoch: int
    """The epoch of the controller that last wrote the state node."""
    leader: int
    """A broker, or NO_LEADER."""
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int
    """Version of the state node: what the leader's next ISR write is compared with."""
    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    is_new: bool = False
    """The replica has never been told of before: no log is expected; a log is made also when another
    directory is offline."""


class LeaderAndIsrRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Become leader or follower of partitions (key 4)."""

    version: int = MESSAGE_VERSION
    controller_id: int
    controller_epoch: int
    broker_epoch: int
    """The receiver's epoch."""
    is_full: bool = False
    """Every partition the receiver shall play is named (a broker started, or a controller took over). It
    stops playing others, but keeps their logs: only a StopReplica deletes."""
    partition_states: tuple[LeaderAndIsrPartitionState, ...] = ()
    topic_configs: dict[str, dict[str, str]] = {}
    """Layers of configs of the named topics that have any: a new log needs them at once."""
    live_brokers: tuple[LiveBroker, ...] = ()
    """The leaders named and where to fetch from them."""


class PartitionError(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What became of one partition of a request, when not well."""

    topic: str
    partition: int
    error_code: int


class LeaderAndIsrResponse(msgspec.Struct, frozen=True, kw_only=True):
    """`error_code` is about the whole request: then nothing was done. Else it lists partitions in error."""

    version: int = MESSAGE_VERSION
    error_code: int = 0
    partition_errors: tuple[PartitionError, ...] = ()


class StopReplicaPartitionState(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """One replica to stop."""

    topic: str
    topic_id: UUID
    """A log of another topic of this name stays."""
    partition: int
    leader_epoch: int
    """EPOCH_DURING_DELETE is later than every other."""
    delete_partition: bool


class StopReplicaRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Stop playing replicas, perhaps deleting their logs (key 5)."""

    version: int = MESSAGE_VERSION
    controller_id: int
    controller_epoch: int
    broker_epoch: int
    number: int = 0
    """Grows during a controller's term, and tells a late answer from that to the controller's last word."""
    partition_states: tuple[StopReplicaPartitionState, ...] = ()


class StopReplicaResponse(msgspec.Struct, frozen=True, kw_only=True):
    """An error code per partition, like LeaderAndIsrResponse. A replica that does not exist was stopped."""

    version: int = MESSAGE_VERSION
    error_code: int = 0
    partition_errors: tuple[PartitionError, ...] = ()


class UpdateMetadataPartitionState(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """One partition of the cluster as clients are told of it."""

    topic: str
    partition: int
    controller_epoch: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int
    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    offline_replicas: tuple[int, ...] = ()
    """Replicas on brokers that are not registered, or in directories that failed."""


class UpdateMetadataTopicState(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A topic that is new, or whose configs changed."""

    topic: str
    topic_id: UUID
    """Another id than known: the old topic was deleted and the name taken again."""
    configs: dict[str, str] = {}
    """The whole layer, replacing the one before."""


class DeletedTopic(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A topic that is no more."""

    topic: str
    topic_id: UUID


class UpdateMetadataRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster's metadata, whole or what changed (key 6). Applied in the order: brokers, deleted topics,
    topics, partitions, configs."""

    version: int = MESSAGE_VERSION
    controller_id: int
    controller_epoch: int
    broker_epoch: int
    is_full: bool = False
    """It replaces everything known: a topic that is not named does not exist."""
    topic_states: tuple[UpdateMetadataTopicState, ...] = ()
    partition_states: tuple[UpdateMetadataPartitionState, ...] = ()
    deleted_topics: tuple[DeletedTopic, ...] = ()
    live_brokers: tuple[LiveBroker, ...] = ()
    """All registered brokers, in every request."""
    broker_configs: dict[str, dict[str, str]] | None = None
    """Dynamic configs by broker id, "" for the cluster-wide default; None: unchanged."""


class UpdateMetadataResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Whether it was applied."""

    version: int = MESSAGE_VERSION
    error_code: int = 0


class ControlledShutdownRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A broker wants to stop and asks the controller to take its leaders (key 7)."""

    version: int = MESSAGE_VERSION
    broker_id: int
    broker_epoch: int


class TopicPartition(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A partition's name."""

    topic: str
    partition: int


class ControlledShutdownResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The broker may stop when nothing remains; else it asks again."""

    version: int = MESSAGE_VERSION
    error_code: int = 0
    remaining_partitions: tuple[TopicPartition, ...] = ()


Command = LeaderAndIsrRequest | StopReplicaRequest | UpdateMetadataRequest
"""What a controller sends to a broker."""
CommandResponse = LeaderAndIsrResponse | StopReplicaResponse | UpdateMetadataResponse
ClusterRequest = Command | ControlledShutdownRequest
ClusterResponse = CommandResponse | ControlledShutdownResponse

REQUEST_TYPES: Final[dict[int, type[ClusterRequest]]] = {
    LEADER_AND_ISR_KEY: LeaderAndIsrRequest,
    STOP_REPLICA_KEY: StopReplicaRequest,
    UPDATE_METADATA_KEY: UpdateMetadataRequest,
    CONTROLLED_SHUTDOWN_KEY: ControlledShutdownRequest,
}
RESPONSE_TYPES: Final[dict[int, type[ClusterResponse]]] = {
    LEADER_AND_ISR_KEY: LeaderAndIsrResponse,
    STOP_REPLICA_KEY: StopReplicaResponse,
    UPDATE_METADATA_KEY: UpdateMetadataResponse,
    CONTROLLED_SHUTDOWN_KEY: ControlledShutdownResponse,
}
_KEYS: Final[dict[type, int]] = {kind: key for key, kind in REQUEST_TYPES.items()}
_ENCODER: Final = msgspec.msgpack.Encoder()
_REQUEST_DECODERS: Final = {key: msgspec.msgpack.Decoder(kind) for key, kind in REQUEST_TYPES.items()}
_RESPONSE_DECODERS: Final = {key: msgspec.msgpack.Decoder(kind) for key, kind in RESPONSE_TYPES.items()}


def api_key_of(request: ClusterRequest) -> int:
    """The API key a request travels under."""
    return _KEYS[type(request)]


def encode(message: ClusterRequest | ClusterResponse) -> bytes:
    """A message's body."""
    return _ENCODER.encode(message)


def decode_request(api_key: int, body: bytes | memoryview) -> ClusterRequest:
    """Raises: msgspec.MsgspecError (not that message), KeyError (no such key)."""
    return _REQUEST_DECODERS[api_key].decode(body)


def decode_response(api_key: int, body: bytes | memoryview) -> ClusterResponse:
    """Raises: msgspec.MsgspecError (not that message), KeyError (no such key)."""
    return _RESPONSE_DECODERS[api_key].decode(body)

"""Metadata (3), v0-11.

Behaviour: all topics (null; v0: an empty list) or those named. Each topic's part is encoded once and kept
until the topic changes, so that listing thousands of partitions costs a join.
Deliberately not done: auto-creation (the gateway does it where an instance wants it); requests by topic id
(UNKNOWN_TOPIC_ID).
Versions: v1 controller and internal flag; v2 cluster id; v3 throttle time; v5 offline replicas; v7 leader
epoch (KIP-320); v8 authorized operations (KIP-430; cluster's until v10); v9 flexible; v10 topic ids
(KIP-516).
"""

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from broker.entities import ResponseShape, response_shape
from broker.leadership import LEADER_EPOCH
from broker.topic_names import name_fault
from broker.topics import Topic
from wire.api_table import ApiKey
from wire.codec import duration, encode, response_header_size

if TYPE_CHECKING:
    from broker.app import Broker
    from broker.call import Call

_NOT_ASKED: Final = -(2**31)
_CLUSTER_OPERATIONS: Final = sum(1 << bit for bit in (5, 7, 8, 9, 10, 11, 12))
_TOPIC_OPERATIONS: Final = sum(1 << bit for bit in (3, 4, 5, 6, 7, 8, 10, 11))
"""Read, Write, Create, Delete, Alter, Describe, DescribeConfigs, AlterConfigs (KIP-430)."""
_FLEXIBLE_FROM: Final = 9
_OPERATIONS_VERSIONS: Final = range(8, 11)


def handle(broker: "Broker", call: "Call") -> None:
    """Answer the topics asked for."""
    version = call.api_version
    shape = response_shape(ApiKey.METADATA, version)
    request = call.request
    with_operations = getattr(request, "include_topic_authorized_operations", False)
    asked = request.topics
    if asked is None or (version == 0 and not asked):
        parts = [_known(broker, shape, topic, version, with_operations) for topic in broker.topics]
    else:
        parts = [_asked(broker, shape, each, version, with_operations) for each in _once(asked)]
    head, tail = _around(broker, shape, request, version)
    count = len(parts)
    counted = _uvarint(count + 1) if version >= _FLEXIBLE_FROM else count.to_bytes(4, "big")
    body = b"".join((head, counted, *parts, tail))
    correlation = call.header.correlation_id.to_bytes(4, "big", signed=True)
    tags = b"\0" if response_header_size(ApiKey.METADATA, version) == 5 else b""
    size = len(correlation) + len(tags) + len(body)
    call.reply_parts([size.to_bytes(4, "big") + correlation + tags + body])


def _once(asked: Any) -> list[Any]:
    """Each topic once, in the order asked."""
    return list({(each.name, getattr(each, "topic_id", None)): each for each in asked}.values())


def _uvarint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _around(broker: "Broker", shape: ResponseShape, request: Any, version: int) -> tuple[bytes, bytes]:
    """What stands before the topics' count and behind the topics."""
    node_id, host, port = broker.node
    asked = getattr(request, "include_cluster_authorized_operations", False)
    empty = encode(
        shape.make(
            throttle_time=duration(0),
            brokers=(
                shape.nested("MetadataResponseBroker", node_id=node_id, host=host, port=port, rack=None),
            ),
            cluster_id=broker.config.cluster_id,
            controller_id=node_id,
            topics=(),
            cluster_authorized_operations=_CLUSTER_OPERATIONS if asked else _NOT_ASKED,
        )
    )
    flexible = version >= _FLEXIBLE_FROM
    tail_bytes = (4 if version in _OPERATIONS_VERSIONS else 0) + (1 if flexible else 0)
    tail_at = len(empty) - tail_bytes
    return empty[: tail_at - (1 if flexible else 4)], empty[tail_at:]


def _asked(broker: "Broker", shape: ResponseShape, asked: Any, version: int, with_operations: bool) -> bytes:
    name = asked.name
    topic = None if name is None else broker.topics.get(name)
    if topic is not None:
        return _known(broker, shape, topic, version, with_operations)
    topic_id = getattr(asked, "topic_id", None)
    if name is None:
        error_code = ErrorCode.unknown_topic_id
    else:
        fault = name_fault(name)
        error_code = (
            ErrorCode.unknown_topic_or_partition if fault is None else ErrorCode.invalid_topic_exception
        )
        topic_id = None
    return _refused(shape, error_code, name or "", topic_id, version)


def _refused(
    shape: ResponseShape, error_code: ErrorCode, name: str, topic_id: UUID | None, version: int
) -> bytes:
    """An error's entry. The name is put in by hand: a request may hold a hundred thousand."""
    if topic_id is None:
        around = _around_name(shape, error_code)
    else:
        around = _encode_refusal(shape, error_code, topic_id)
    encoded = name.encode()
    if version >= _FLEXIBLE_FROM:
        return around[:2] + _uvarint(len(encoded) + 1) + encoded + around[3:]
    return around[:2] + len(encoded).to_bytes(2, "big") + encoded + around[4:]


@lru_cache(maxsize=64)
def _around_name(shape: ResponseShape, error_code: ErrorCode) -> bytes:
    return _encode_refusal(shape, error_code, None)


def _encode_refusal(shape: ResponseShape, error_code: ErrorCode, topic_id: UUID | None) -> bytes:
    return encode(
        shape.nested(
            "MetadataResponseTopic",
            error_code=error_code,
            name="",
            topic_id=topic_id,
            is_internal=False,
            partitions=(),
            topic_authorized_operations=_NOT_ASKED,
        )
    )


def _known(
    broker: "Broker", shape: ResponseShape, topic: Topic, version: int, with_operations: bool
) -> bytes:
    key = 2 * version + with_operations
    encoded = topic.metadata.get(key)
    if encoded is None:
        encoded = topic.metadata[key] = encode(_entity(broker, shape, topic, with_operations))
    return encoded


def _entity(broker: "Broker", shape: ResponseShape, topic: Topic, with_operations: bool) -> Any:
    nodes = (broker.config.node_id,)
    partitions = tuple(
        shape.nested(
            "MetadataResponsePartition",
            error_code=ErrorCode.none,
            partition_index=index,
            leader_id=broker.config.node_id,
            leader_epoch=LEADER_EPOCH,
            replica_nodes=nodes,
            isr_nodes=nodes,
            offline_replicas=(),
        )
        for index in range(len(topic.partitions))
    )
    return shape.nested(
        "MetadataResponseTopic",
        error_code=ErrorCode.none,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=partitions,
        topic_authorized_operations=_TOPIC_OPERATIONS if with_operations else _NOT_ASKED,
    )

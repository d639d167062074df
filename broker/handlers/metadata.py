"""Metadata (3), v0-13.

Behaviour: all topics (null; v0: an empty list) or those named, as the controller last described them. Each
topic's part is encoded once and kept until it changes, so that listing thousands of partitions costs a join.
For a tenant's connection all topics are its instance's, so that nobody pays for its neighbours' topics.
A partition without a live leader is LEADER_NOT_AVAILABLE. A broker that has not heard of a controller yet
lets the call wait: an empty answer would say that there are no topics.
Deliberately not done: auto-creation (the gateway does it where an instance wants it).
Versions: v0 names only live replicas; v1 controller and internal flag; v2 cluster id; v3 throttle time; v5
offline replicas; v7 leader epoch (KIP-320); v8 authorized operations (KIP-430; cluster's until v10); v9
flexible; v10 topic ids (KIP-516); v12 requests by topic id; v13 an error of the whole answer.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final, Protocol
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.static.protocol import Entity

from broker.config import BrokerConfig
from broker.metadata.metadata_cache import CachedTopic, MetadataCache
from broker.metadata.topic_names import name_fault
from broker.net.later import Later
from broker.requests.call import Call
from contracts.cluster import NO_LEADER, UpdateMetadataPartitionState
from wire.api_table import ApiKey
from wire.build import ResponseShape, response_shape
from wire.codec import duration, encode, response_header_size
from wire.messages import MetadataRequest, MetadataRequestTopic
from wire.uvarint import pack_uvarint

_NOT_ASKED: Final = -(2**31)
_CLUSTER_OPERATIONS: Final = sum(1 << bit for bit in (5, 7, 8, 9, 10, 11, 12))
_TOPIC_OPERATIONS: Final = sum(1 << bit for bit in (3, 4, 5, 6, 7, 8, 10, 11))
"""Read, Write, Create, Delete, Alter, Describe, DescribeConfigs, AlterConfigs (KIP-430)."""
_FLEXIBLE_FROM: Final = 9
_BY_ID_FROM: Final = 12
_THROTTLED_FROM: Final = 3
_OPERATIONS_VERSIONS: Final = range(8, 11)
_ERROR_FROM: Final = 13


class _Deps(Protocol):
    config: BrokerConfig
    later: Later
    metadata: MetadataCache


def handle(call: Call, deps: _Deps) -> None:
    """Answer the topics asked for, as soon as any are known."""
    deps.later.when_known(call, lambda: _answer(deps, call))


def _answer(deps: _Deps, call: Call) -> None:
    version = call.api_version
    shape = response_shape(ApiKey.METADATA, version)
    request = call.request
    with_operations = getattr(request, "include_topic_authorized_operations", False)
    asked = request.topics
    metadata = deps.metadata
    if asked is None or (version == 0 and not asked):
        topics = metadata if call.instance_id is None else metadata.of_instance(call.instance_id)
        parts = [_known(metadata, shape, topic, version, with_operations) for topic in topics]
    else:
        parts = [_asked(metadata, shape, each, version, with_operations) for each in _once(asked)]
    head, tail = _around(deps, shape, request, version)
    throttle_time_ms = call.channel.request_throttle_ms()
    if throttle_time_ms and version >= _THROTTLED_FROM:
        head = throttle_time_ms.to_bytes(4, "big") + head[4:]  # its first field
    count = len(parts)
    counted = pack_uvarint(count + 1) if version >= _FLEXIBLE_FROM else count.to_bytes(4, "big")
    body = b"".join((head, counted, *parts, tail))
    correlation = call.header.correlation_id.to_bytes(4, "big", signed=True)
    tags = b"\0" if response_header_size(ApiKey.METADATA, version) == 5 else b""
    size = len(correlation) + len(tags) + len(body)
    call.reply_parts([size.to_bytes(4, "big") + correlation + tags + body])


def _once(asked: Iterable[MetadataRequestTopic]) -> list[MetadataRequestTopic]:
    """Each topic once, in the order asked."""
    return list({(each.name, getattr(each, "topic_id", None)): each for each in asked}.values())


def _around(deps: _Deps, shape: ResponseShape, request: MetadataRequest, version: int) -> tuple[bytes, bytes]:
    """What stands before the topics' count and behind the topics."""
    asked = getattr(request, "include_cluster_authorized_operations", False)
    encoded = deps.metadata.encoded
    key = 2 * version + asked
    if key not in encoded:
        encoded[key] = _encode_around(deps, shape, version, with_operations=asked)
    return encoded[key]


def _encode_around(
    deps: _Deps, shape: ResponseShape, version: int, *, with_operations: bool
) -> tuple[bytes, bytes]:
    metadata = deps.metadata
    empty = encode(
        shape.make(
            throttle_time=duration(0),
            brokers=tuple(
                shape.nested(
                    "MetadataResponseBroker",
                    node_id=each.broker_id,
                    host=each.host,
                    port=each.port,
                    rack=each.rack,
                )
                for _, each in sorted(metadata.brokers.items())
            ),
            cluster_id=deps.config.cluster_id,
            controller_id=metadata.live_controller_id,
            topics=(),
            cluster_authorized_operations=_CLUSTER_OPERATIONS if with_operations else _NOT_ASKED,
            error_code=ErrorCode.none,
        )
    )
    flexible = version >= _FLEXIBLE_FROM
    tail_bytes = (4 if version in _OPERATIONS_VERSIONS else 0) + (1 if flexible else 0)
    tail_bytes += 2 if version >= _ERROR_FROM else 0
    tail_at = len(empty) - tail_bytes
    return empty[: tail_at - (1 if flexible else 4)], empty[tail_at:]


def _asked(
    metadata: MetadataCache,
    shape: ResponseShape,
    asked: MetadataRequestTopic,
    version: int,
    with_operations: bool,
) -> bytes:
    name, topic_id = asked.name, getattr(asked, "topic_id", None)
    by_id = name is None or (version >= _BY_ID_FROM and topic_id is not None)
    topic = metadata.topic_by_id(topic_id) if by_id and topic_id is not None else metadata.topic(name or "")
    if topic is not None:
        return _known(metadata, shape, topic, version, with_operations)
    if by_id:
        return _refused(shape, ErrorCode.unknown_topic_id, None, topic_id, version)
    assert name is not None
    fault = name_fault(name)
    error_code = ErrorCode.unknown_topic_or_partition if fault is None else ErrorCode.invalid_topic_exception
    return _refused(shape, error_code, name, None, version)


def _refused(
    shape: ResponseShape, error_code: ErrorCode, name: str | None, topic_id: UUID | None, version: int
) -> bytes:
    """An error's entry. The name is put in by hand: a request may hold a hundred thousand."""
    if name is None and version >= _BY_ID_FROM:
        return _encode_refusal(shape, error_code, None, topic_id)
    around = (
        _around_name(shape, error_code)
        if topic_id is None
        else _encode_refusal(shape, error_code, "", topic_id)
    )
    encoded = (name or "").encode()
    if version >= _FLEXIBLE_FROM:
        return around[:2] + pack_uvarint(len(encoded) + 1) + encoded + around[3:]
    return around[:2] + len(encoded).to_bytes(2, "big") + encoded + around[4:]


@lru_cache(maxsize=64)
def _around_name(shape: ResponseShape, error_code: ErrorCode) -> bytes:
    return _encode_refusal(shape, error_code, "", None)


def _encode_refusal(
    shape: ResponseShape, error_code: ErrorCode, name: str | None, topic_id: UUID | None
) -> bytes:
    return encode(
        shape.nested(
            "MetadataResponseTopic",
            error_code=error_code,
            name=name,
            topic_id=topic_id,
            is_internal=False,
            partitions=(),
            topic_authorized_operations=_NOT_ASKED,
        )
    )


def _known(
    metadata: MetadataCache, shape: ResponseShape, topic: CachedTopic, version: int, with_operations: bool
) -> bytes:
    key = 2 * version + with_operations
    encoded = topic.encoded.get(key)
    if encoded is None:
        encoded = topic.encoded[key] = encode(_entity(metadata, shape, topic, version, with_operations))
    return encoded


def _entity(
    metadata: MetadataCache, shape: ResponseShape, topic: CachedTopic, version: int, with_operations: bool
) -> Entity:
    partitions = tuple(
        _partition(metadata, shape, state, version) for _, state in sorted(topic.partitions.items())
    )
    return shape.nested(
        "MetadataResponseTopic",
        error_code=ErrorCode.none if partitions else ErrorCode.leader_not_available,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=partitions,
        topic_authorized_operations=_TOPIC_OPERATIONS if with_operations else _NOT_ASKED,
    )


def _partition(
    metadata: MetadataCache, shape: ResponseShape, state: UpdateMetadataPartitionState, version: int
) -> Entity:
    live = metadata.brokers
    has_leader = state.leader in live
    offline = tuple(each for each in state.replicas if each not in live or each in state.offline_replicas)
    replicas, isr = state.replicas, state.isr
    error_code = ErrorCode.none if has_leader else ErrorCode.leader_not_available
    if version == 0:
        replicas = tuple(each for each in replicas if each in live)
        isr = tuple(each for each in isr if each in live)
        if has_leader and len(replicas) < len(state.replicas):
            error_code = ErrorCode.replica_not_available
    return shape.nested(
        "MetadataResponsePartition",
        error_code=error_code,
        partition_index=state.partition,
        leader_id=state.leader if has_leader else NO_LEADER,
        leader_epoch=state.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=offline,
    )

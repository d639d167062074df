"""ConsumerGroupDescribe 0-1 (KIP-848).

Behaviour: epochs, state and members with what they have and shall have. A group that is not there, or is of
the classic protocol, is GROUP_ID_NOT_FOUND. The instance pays for what is told; groups behind
`DESCRIBED_PARTITIONS_MAX` get COORDINATOR_LOAD_IN_PROGRESS, with which clients ask again.
Deliberately not done: authorization; who may ask at all may do everything, as in a Kafka without authorizer.
Version notes: v1 has the members' type.
"""

from typing import Final, Protocol

from kio.schema.errors import ErrorCode
from kio.static.protocol import Entity

from broker.coordinators.groups import GroupCoordinators
from broker.groups.consumer_messages import DescribedConsumer, DescribedConsumerGroup
from broker.groups.consumer_records import Partitions
from broker.metadata.metadata_cache import MetadataCache
from broker.requests.call import Call
from wire.api_table import ApiKey
from wire.build import ResponseShape, response_shape
from wire.codec import duration

DESCRIBED_PARTITIONS_MAX: Final = 20_000
"""Partitions in one answer, given and targets; the group that passes it is the last one."""
_PARTITION_BYTES: Final = 4
_NOT_ASKED: Final = -(2**31)
_ALL_OPERATIONS: Final = 1 << 3 | 1 << 6 | 1 << 8
"""READ, DELETE and DESCRIBE: what an authorizer can allow on a group."""
_NEW_PROTOCOL: Final = 1


class _Deps(Protocol):
    groups: GroupCoordinators
    metadata: MetadataCache

    def charge_owner(self, key: str, size_bytes: int) -> None: ...


def handle(call: Call, deps: _Deps) -> None:
    shape = response_shape(ApiKey.CONSUMER_GROUP_DESCRIBE, call.api_version)
    operations = _ALL_OPERATIONS if call.request.include_authorized_operations else _NOT_ASKED
    told = 0
    groups = []
    for group_id in dict.fromkeys(call.request.group_ids):
        shard = deps.groups.of(group_id)
        if not isinstance(shard, ErrorCode) and told > DESCRIBED_PARTITIONS_MAX:
            shard = ErrorCode.coordinator_load_in_progress
        if isinstance(shard, ErrorCode):
            groups.append(_refused(shape, group_id, shard, None))
            continue
        group = shard.core.describe_consumers(group_id)
        if group is None:
            message = f"Group {group_id} is not a consumer group."
            groups.append(_refused(shape, group_id, ErrorCode.group_id_not_found, message))
            continue
        size = sum(_size(member.current.assigned) + _size(member.target) for member in group.members)
        told += size
        deps.charge_owner(group_id, size * _PARTITION_BYTES)
        groups.append(_group(shape, group, operations, deps.metadata))
    call.reply(shape.make(throttle_time=duration(0), groups=tuple(groups)))


def _size(partitions: Partitions) -> int:
    return sum(map(len, partitions.values()))


def _refused(shape: ResponseShape, group_id: str, error: ErrorCode, message: str | None) -> Entity:
    return shape.nested(
        "DescribedGroup",
        error_code=error,
        error_message=message,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=(),
        authorized_operations=_NOT_ASKED,
    )


def _group(
    shape: ResponseShape, group: DescribedConsumerGroup, operations: int, metadata: MetadataCache
) -> Entity:
    return shape.nested(
        "DescribedGroup",
        error_code=ErrorCode.none,
        error_message=None,
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor,
        members=tuple(_member(shape, member, metadata) for member in group.members),
        authorized_operations=operations,
    )


def _member(shape: ResponseShape, member: DescribedConsumer, metadata: MetadataCache) -> Entity:
    said = member.metadata
    return shape.nested(
        "Member",
        member_id=member.member_id,
        instance_id=said.instance_id,
        rack_id=said.rack_id,
        member_epoch=member.current.member_epoch,
        client_id=said.client_id,
        client_host=said.client_host,
        subscribed_topic_names=tuple(sorted(said.topic_names)),
        subscribed_topic_regex=said.topic_regex,
        assignment=_assignment(shape, member.current.assigned, metadata),
        target_assignment=_assignment(shape, member.target, metadata),
        member_type=_NEW_PROTOCOL,
    )


def _assignment(shape: ResponseShape, partitions: Partitions, metadata: MetadataCache) -> Entity:
    """Topics that are gone meanwhile have no name, and are left out."""
    topics = tuple(
        shape.nested(
            "TopicPartitions",
            topic_id=topic_id,
            topic_name=topic.name,
            partitions=tuple(sorted(indexes)),
        )
        for topic_id, indexes in partitions.items()
        if (topic := metadata.topic_by_id(topic_id)) is not None
    )
    return shape.nested("Assignment", topic_partitions=topics)

"""Consumer groups of an instance: list, describe with members and lag, delete."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from kio.schema.delete_groups.v1.request import DeleteGroupsRequest
from kio.schema.describe_groups.v4.request import DescribeGroupsRequest
from kio.schema.describe_groups.v4.response import DescribedGroup, DescribedGroupMember
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v2.request import FindCoordinatorRequest
from kio.schema.list_groups.v4.request import ListGroupsRequest
from kio.schema.offset_commit.v5.request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kio.schema.offset_delete.v0.request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kio.schema.offset_fetch.v5.request import OffsetFetchRequest
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i8, i32, i64

from contracts.names import owner_of, physical_name, tenant_name
from tenants.backend import topics
from tenants.backend.assignment import assigned_partitions
from tenants.backend.cluster import Cluster
from tenants.backend.topics import TopicPartition
from tenants.rules.errors import Conflict, NotFound, Unavailable

_RETRIES: Final = 10
_RETRY_S: Final = 0.2
_LOADING: Final = (
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
)


class ListedGroup(NamedTuple):
    """A group in a listing."""

    name: str
    state: str
    protocol_type: str
    coordinator: int | None
    """The broker that told of it."""


class MemberFacts(NamedTuple):
    """A member and what it was assigned: the tenant's topic names, partitions in order."""

    member: DescribedGroupMember
    assignment: dict[str, list[int]]


class OffsetFacts(NamedTuple):
    """A committed offset; `log_end_offset` None: the partition has no leader, or is gone."""

    key: TopicPartition
    committed_offset: int
    metadata: str | None
    log_end_offset: int | None


def no_group(name: str) -> NotFound:
    """The answer for a group that is not there."""
    return NotFound(f"there is no group '{name[:250]}'")


async def listing(cluster: Cluster, instance_id: str) -> list[ListedGroup]:
    """All groups of an instance, by name. Raises: Unavailable."""
    request = ListGroupsRequest(states_filter=())
    nodes: list[int | None] = [*cluster.addresses] or [None]
    answers = await asyncio.gather(*(_when_loaded(cluster, request, node_id) for node_id in nodes))
    found = []
    for node_id, answer in zip(nodes, answers, strict=True):
        for one in answer.groups:
            name = tenant_name(instance_id, one.group_id)
            if name is not None:
                found.append(ListedGroup(name, one.group_state, one.protocol_type, node_id))
    return sorted(found, key=lambda each: each.name)


async def by_instance(cluster: Cluster) -> dict[str, list[ListedGroup]]:
    """Everybody's groups by instance, by name. Raises: Unavailable."""
    request = ListGroupsRequest(states_filter=())
    nodes: list[int | None] = [*cluster.addresses] or [None]
    answers = await asyncio.gather(*(_when_loaded(cluster, request, node_id) for node_id in nodes))

    def sorted_out() -> dict[str, list[ListedGroup]]:
        found: defaultdict[str, list[ListedGroup]] = defaultdict(list)
        for node_id, answer in zip(nodes, answers, strict=True):
            for one in answer.groups:
                instance_id = owner_of(one.group_id)
                name = None if instance_id is None else tenant_name(instance_id, one.group_id)
                if instance_id is not None and name is not None:
                    found[instance_id].append(ListedGroup(name, one.group_state, one.protocol_type, node_id))
        return {key: sorted(names, key=lambda each: each.name) for key, names in found.items()}

    return await asyncio.to_thread(sorted_out)


async def describe(
    cluster: Cluster, instance_id: str, name: str
) -> tuple[DescribedGroup, list[MemberFacts], list[OffsetFacts]]:
    """A group with its members and committed offsets. Raises: NotFound, Unavailable."""
    group_id = GroupId(physical_name(instance_id, name))
    coordinator = await coordinator_of(cluster, group_id)
    answer = await cluster.ask(
        DescribeGroupsRequest(groups=(group_id,), include_authorized_operations=False), coordinator
    )
    group = answer.groups[0]
    committed = await _committed(cluster, instance_id, group_id, coordinator)
    # DescribeGroups answers for a group that never was: Dead, as for one whose last offset expired.
    if group.error_code is not ErrorCode.none or (group.group_state == "Dead" and not committed):
        raise no_group(name)
    members = [
        MemberFacts(
            one if cluster.tells_client_hosts else replace(one, client_host=""),
            assigned_partitions(instance_id, one.member_assignment),
        )
        for one in sorted(group.members, key=lambda each: each.member_id)
    ]
    return group, members, committed


async def delete(cluster: Cluster, instance_id: str, name: str) -> None:
    """Raises: NotFound, Conflict, Unavailable."""
    group_id = GroupId(physical_name(instance_id, name))
    coordinator = await coordinator_of(cluster, group_id)
    answer = await cluster.ask(DeleteGroupsRequest(groups_names=(group_id,)), coordinator, read_only=False)
    error_code = answer.results[0].error_code
    if error_code is ErrorCode.none:
        return
    if error_code in (ErrorCode.group_id_not_found, ErrorCode.invalid_group_id):
        raise no_group(name)
    if error_code is ErrorCode.non_empty_group:
        raise Conflict(f"group '{name}' has members: stop its consumers first")
    raise Unavailable(f"the cluster answered {error_code.name.upper()}. Try again in a few seconds")


async def delete_offsets(cluster: Cluster, instance_id: str, name: str, topic: str) -> None:
    """Delete what a group has committed of a topic. Raises: NotFound, Conflict, Unavailable."""
    group_id = GroupId(physical_name(instance_id, name))
    coordinator = await coordinator_of(cluster, group_id)
    committed = await committed_offsets(cluster, instance_id, group_id, coordinator)
    partitions = [partition for each, partition in committed if each == topic]
    if not partitions:
        raise NotFound(f"group '{name[:250]}' has committed nothing of topic '{topic[:250]}'")
    request = OffsetDeleteRequest(
        group_id=group_id,
        topics=(
            OffsetDeleteRequestTopic(
                name=TopicName(physical_name(instance_id, topic)),
                partitions=tuple(OffsetDeleteRequestPartition(partition_index=i32(p)) for p in partitions),
            ),
        ),
    )
    answer = await cluster.ask(request, coordinator, read_only=False)
    codes = {one.error_code for each in answer.topics for one in each.partitions} | {answer.error_code}
    codes -= {ErrorCode.none}
    if codes & {ErrorCode.group_subscribed_to_topic, ErrorCode.non_empty_group}:
        raise Conflict(f"group '{name[:250]}' has members of topic '{topic[:250]}': stop its consumers first")
    if codes:
        first = min(code.name for code in codes)
        raise Unavailable(f"the cluster answered {first.upper()}. Try again in a few seconds")


async def coordinator_of(cluster: Cluster, group_id: str) -> int:
    """The broker that coordinates a group. Raises: Unavailable."""
    request = FindCoordinatorRequest(key=group_id, key_type=i8(0))
    answer = await _when_loaded(cluster, request, None)
    return int(answer.node_id)


async def _when_loaded(cluster: Cluster, request: Any, node_id: int | None) -> Any:
    """Ask until the coordinator has loaded: right after a start that takes a moment."""
    for _ in range(_RETRIES):
        answer = await cluster.ask(request, node_id)
        if answer.error_code not in _LOADING:
            break
        await asyncio.sleep(_RETRY_S)
    if answer.error_code is not ErrorCode.none:
        raise Unavailable(
            f"the cluster answered {answer.error_code.name.upper()}. Try again in a few seconds"
        )
    return answer


async def committed_offsets(
    cluster: Cluster, instance_id: str, group_id: GroupId, coordinator: int
) -> dict[TopicPartition, int]:
    """What a group has committed. Raises: Unavailable."""
    found = await committed_with_metadata(cluster, instance_id, group_id, coordinator)
    return {key: offset for key, (offset, _) in found.items()}


PARTITIONS_PER_COMMIT: Final = 2_000
"""Brokers bound the entries of a request (`wire.request_bounds`)."""
Committed = Mapping[TopicPartition, tuple[int, str | None]]
"""Offset and metadata, by the tenant's names."""


def commit_of(instance_id: str, group_id: GroupId, committed: Committed) -> OffsetCommitRequest:
    """The request that commits offsets in the name of a group without members."""
    by_topic: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, index), (offset, metadata) in committed.items():
        by_topic.setdefault(topic, []).append(
            OffsetCommitRequestPartition(
                partition_index=i32(index), committed_offset=i64(offset), committed_metadata=metadata
            )
        )
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=i32(-1),
        member_id="",
        topics=tuple(
            OffsetCommitRequestTopic(
                name=TopicName(physical_name(instance_id, topic)), partitions=tuple(partitions)
            )
            for topic, partitions in by_topic.items()
        ),
    )


async def committed_with_metadata(
    cluster: Cluster, instance_id: str, group_id: GroupId, coordinator: int
) -> dict[TopicPartition, tuple[int, str | None]]:
    """What a group has committed, each with its metadata. Raises: Unavailable."""
    answer = await _when_loaded(cluster, OffsetFetchRequest(group_id=group_id, topics=None), coordinator)
    offsets: dict[TopicPartition, tuple[int, str | None]] = {}
    for topic in answer.topics:
        name = tenant_name(instance_id, topic.name)
        for one in topic.partitions:
            if name is not None and one.error_code is ErrorCode.none and one.committed_offset >= 0:
                offsets[name, int(one.partition_index)] = (int(one.committed_offset), one.metadata)
    return offsets


async def _committed(
    cluster: Cluster, instance_id: str, group_id: GroupId, coordinator: int
) -> list[OffsetFacts]:
    offsets = await committed_with_metadata(cluster, instance_id, group_id, coordinator)
    ends = await log_ends(cluster, instance_id, list(offsets))
    return [
        OffsetFacts(key, committed, metadata, ends.get(key))
        for key, (committed, metadata) in sorted(offsets.items())
    ]


async def log_ends(
    cluster: Cluster, instance_id: str, keys: list[TopicPartition]
) -> dict[TopicPartition, int]:
    """High watermarks of partitions whose leader answers. Raises: Unavailable."""
    if not keys:
        return {}
    metadata = await cluster.topics(instance_id, sorted({name for name, _ in keys}))
    wanted = set(keys)
    leaders = {
        (name, int(one.partition_index)): int(one.leader_id)
        for name, topic in metadata.items()
        for one in topic.partitions
        if (name, int(one.partition_index)) in wanted
    }
    return await topics.offsets(cluster, instance_id, leaders)

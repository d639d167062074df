"""Setting a group's committed offsets: what is known of its partitions, and the commit in its place."""

from collections.abc import Mapping, Sequence
from typing import Final

from kio.schema.describe_groups.v4.request import DescribeGroupsRequest
from kio.schema.errors import ErrorCode
from kio.schema.types import GroupId
from kio.static.primitive import i64

from contracts.names import physical_name
from tenants.backend import groups, topics
from tenants.backend.cluster import Cluster
from tenants.backend.topics import TopicPartition
from tenants.rules.errors import Conflict, Invalid, Unavailable
from tenants.rules.lifecycle import unfit
from tenants.rules.offset_reset import Known, Planned, Wish
from wire.request_bounds import pieces

_NO_MEMBER: Final = ("Empty", "Dead")
_HAS_MEMBERS: Final = frozenset(
    {ErrorCode.unknown_member_id, ErrorCode.illegal_generation, ErrorCode.rebalance_in_progress}
)


async def known(
    cluster: Cluster, instance_id: str, name: str, wish: Wish, asked: Mapping[str, Sequence[int] | None]
) -> dict[TopicPartition, Known]:
    """What the plan needs of each partition: those asked for (None: all of a topic), named in the wish, or
    else those with a committed offset.

    Raises: NotFound, Conflict for a group with members, Invalid, Unavailable.
    """
    group_id = GroupId(physical_name(instance_id, name))
    coordinator = await groups.coordinator_of(cluster, group_id)
    request = DescribeGroupsRequest(groups=(group_id,), include_authorized_operations=False)
    described = (await cluster.ask(request, coordinator)).groups[0]
    if described.error_code is ErrorCode.none and described.group_state not in _NO_MEMBER:
        raise _has_members(name)
    committed = await groups.committed_offsets(cluster, instance_id, group_id, coordinator)
    named = set(wish.offsets) | {(topic, one) for topic, parts in asked.items() for one in parts or ()}
    chosen = set() if asked or wish.offsets else set(committed)
    if not (asked or named or chosen):
        raise groups.no_group(name)
    leaders = await _leaders(
        cluster, instance_id, named, chosen, [t for t, one in asked.items() if one is None]
    )
    starts = await topics.offsets(cluster, instance_id, leaders, topics.EARLIEST)
    ends = await topics.offsets(cluster, instance_id, leaders)
    times: dict[TopicPartition, int] = {}
    if wish.at_ms is not None:
        times = await topics.offsets(cluster, instance_id, leaders, i64(wish.at_ms))
    return {key: Known(starts.get(key), ends.get(key), committed.get(key), times.get(key)) for key in leaders}


async def _leaders(
    cluster: Cluster,
    instance_id: str,
    named: set[TopicPartition],
    chosen: set[TopicPartition],
    whole: Sequence[str],
) -> dict[TopicPartition, int]:
    """The leader of every partition of `whole` topics and of those named, which must be there.

    Of those chosen by what is committed, topics that are gone are left alone. Raises: Invalid, Unavailable.
    """
    names = sorted({topic for topic, _ in named | chosen} | set(whole))
    metadata = await cluster.topics(instance_id, names)
    found = {
        (name, int(one.partition_index)): int(one.leader_id)
        for name, topic in metadata.items()
        if topic.error_code is ErrorCode.none
        for one in topic.partitions
    }
    topics_found = {topic for topic, _ in found}
    faults = [f"there is no topic '{topic}'" for topic in whole if topic not in topics_found]
    faults += [f"topic '{topic}' has no partition {one}" for topic, one in sorted(named - found.keys())]
    if faults:
        raise Invalid([unfit("topics", fault) for fault in faults[:10]])
    wanted = named | chosen | {key for key in found if key[0] in whole}
    return {key: found[key] for key in wanted if key in found}


async def commit(cluster: Cluster, instance_id: str, name: str, planned: Sequence[Planned]) -> None:
    """Commit the new offsets in the name of a group without members. Raises: Conflict, Unavailable."""
    group_id = GroupId(physical_name(instance_id, name))
    committed = [
        ((one.topic, one.partition), (one.new_offset, "")) for one in planned if one.new_offset is not None
    ]
    for some in pieces(committed, groups.PARTITIONS_PER_COMMIT):
        request = groups.commit_of(instance_id, group_id, dict(some))
        coordinator = await groups.coordinator_of(cluster, group_id)
        answer = await cluster.ask(request, coordinator, read_only=False)
        codes = {one.error_code for topic in answer.topics for one in topic.partitions} - {ErrorCode.none}
        if codes & _HAS_MEMBERS:
            raise _has_members(name)
        if codes:
            first = min(code.name for code in codes)
            raise Unavailable(f"the cluster answered {first.upper()}. Try again in a few seconds")


def _has_members(name: str) -> Conflict:
    return Conflict(f"group '{name[:250]}' has members: stop its consumers first")

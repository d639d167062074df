"""How far consumer groups are behind, in records and in seconds: of one, and of a page of many."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from kio.schema.describe_groups.v4.request import DescribeGroupsRequest
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v12.request import MetadataRequest, MetadataRequestTopic
from kio.schema.metadata.v12.response import MetadataResponse
from kio.schema.offset_fetch.v8.request import OffsetFetchRequest, OffsetFetchRequestGroup
from kio.schema.types import GroupId, TopicName

from contracts.names import physical_name, tenant_name
from runtime.clock import epoch_ms, monotonic_ms
from tenants.backend import groups, topics
from tenants.backend.cluster import Cluster
from tenants.backend.groups import ListedGroup, OffsetFacts
from tenants.backend.record_times import Place, RecordTimes, Where
from tenants.backend.topics import TopicPartition
from tenants.rules.errors import Unavailable
from tenants.rules.record_time import Oldest, lag_seconds, largest, oldest

COMMITTED_MAX: Final = 10_000
"""Committed offsets that one page of groups looks at; groups beyond them are told without lag."""
PAGE_MS_MAX: Final = 600
"""How long one page of groups collects offsets; groups that are not reached by then are told without lag."""
_WITHIN_S: Final = 0.25
_GROUPS_FIRST: Final = 1
_GROUPS_MAX: Final = 100
_OFFSETS_AT_ONCE: Final = 4_000
TOPICS_SHOWN_MAX: Final = 20
"""Names of topics that a page tells of one group."""


class GroupOffset(NamedTuple):
    """Where a group is in a partition."""

    key: TopicPartition
    committed_offset: int
    log_end_offset: int | None


class GroupFacts(NamedTuple):
    """A group on a page. None: not known now."""

    members: int
    topics: list[str]
    lag: int | None
    lag_seconds: float | None


class Behind(NamedTuple):
    """How far a group is behind."""

    records: int
    """Over the partitions whose log end is known."""
    is_whole: bool
    """Whether it is known of every partition."""
    offsets: list[GroupOffset]


class GroupLags:
    """Asks clusters, and remembers the times of records."""

    def __init__(self) -> None:
        self.times = RecordTimes()

    async def seconds(
        self,
        cluster: Cluster,
        instance_id: str,
        committed: Iterable[GroupOffset],
        within_s: float = _WITHIN_S,
    ) -> dict[tuple[TopicPartition, int], float | None]:
        """By partition and committed offset: 0 where nothing is left to be seen, None what is not known after
        `within_s`.

        Raises: Unavailable.
        """
        found: dict[tuple[TopicPartition, int], float | None] = {}
        behind: dict[TopicPartition, int] = {}
        for one in committed:
            found[one.key, one.committed_offset] = None
            if one.log_end_offset is not None and one.committed_offset >= one.log_end_offset:
                found[one.key, one.committed_offset] = 0.0
            elif one.log_end_offset is not None:
                behind[one.key] = one.log_end_offset
        places: dict[Place, Where] = {}
        place_of: dict[tuple[TopicPartition, int], Place] = {}
        known = await _leaders(cluster, instance_id, behind) if behind else {}
        starts = await topics.offsets(
            cluster, instance_id, {key: where.leader for key, (_, where) in known.items()}, topics.EARLIEST
        )
        for (key, offset), seconds in found.items():
            if seconds is None and key in known and key in starts:
                place, where = known[key]
                place_of[key, offset] = place._replace(offset=max(offset, starts[key]))
                places[place_of[key, offset]] = where
        times = await self.times.times(cluster, instance_id, places, within_s) if places else {}
        now_ms = epoch_ms()
        for at, place in place_of.items():
            if place in times:
                time_ms = times[place]
                found[at] = 0.0 if time_ms is None else lag_seconds(time_ms, now_ms)
        return found

    async def of_group(
        self, cluster: Cluster, instance_id: str, offsets: Sequence[OffsetFacts]
    ) -> dict[TopicPartition, float | None]:
        """Of one group that was described. Raises: Unavailable."""
        committed = [GroupOffset(one.key, one.committed_offset, one.log_end_offset) for one in offsets]
        found = await self.seconds(cluster, instance_id, committed)
        return {one.key: found[one.key, one.committed_offset] for one in committed}

    async def behind(
        self, cluster: Cluster, instance_id: str, shown: Sequence[ListedGroup], committed_max: int
    ) -> dict[str, Behind]:
        """In records, of groups of a listing, without those that it did not come to, or whose coordinator is
        away. Raises: Unavailable."""
        committed = await _collected(cluster, instance_id, shown, committed_max, None)
        return await _behind(cluster, instance_id, committed)

    async def ages(
        self, cluster: Cluster, instance_id: str, behind: Mapping[str, Behind], within_s: float
    ) -> dict[str, Oldest]:
        """Of some of them, what is known after `within_s`. Raises: Unavailable."""
        every = (offset for one in behind.values() for offset in one.offsets)
        seconds = await self.seconds(cluster, instance_id, every, within_s)
        return {
            name: oldest(seconds[one.key, one.committed_offset] for one in group.offsets)
            for name, group in behind.items()
        }

    async def of_page(
        self, cluster: Cluster, instance_id: str, shown: Sequence[ListedGroup]
    ) -> dict[str, GroupFacts]:
        """Of groups of a listing, without those that it did not come to, or whose coordinator is away.

        Raises: Unavailable.
        """
        members: dict[str, int] = {}
        committed = await _collected(cluster, instance_id, shown, COMMITTED_MAX, members)
        behind = await _behind(cluster, instance_id, committed)
        every = (offset for one in behind.values() for offset in one.offsets)
        seconds = await self.seconds(cluster, instance_id, every)
        return {
            name: GroupFacts(
                members.get(name, 0),
                sorted({one.key[0] for one in group.offsets})[:TOPICS_SHOWN_MAX],
                group.records,
                largest(seconds[one.key, one.committed_offset] for one in group.offsets),
            )
            for name, group in behind.items()
        }


async def _collected(
    cluster: Cluster,
    instance_id: str,
    shown: Sequence[ListedGroup],
    committed_max: int,
    members: dict[str, int] | None,
) -> dict[str, dict[TopicPartition, int]]:
    """What groups have committed, and into `members` how many they have. The first is told whatever it has
    committed, the others within the bounds."""
    committed: dict[str, dict[TopicPartition, int]] = {}
    deadline_ms = monotonic_ms() + PAGE_MS_MAX
    by_coordinator: defaultdict[int | None, list[str]] = defaultdict(list)
    for one in shown:
        by_coordinator[one.coordinator].append(one.name)
    room = committed_max
    for coordinator, names in by_coordinator.items():
        at, width = 0, _GROUPS_FIRST
        while at < len(names) and room > 0 and monotonic_ms() < deadline_ms:
            asked = names[at : at + width]
            try:
                found = await _committed(cluster, instance_id, asked, coordinator)
                if members is not None:
                    members |= await _members(cluster, instance_id, asked, coordinator)
            except Unavailable:
                break
            for name, offsets in found.items():
                if len(offsets) <= room or not committed:
                    committed[name] = offsets
                room -= len(offsets)
            size = sum(map(len, found.values()))
            at += width
            width = max(1, min(_GROUPS_MAX, 4 * width, _OFFSETS_AT_ONCE * width // max(size, 1)))
    return committed


async def _behind(
    cluster: Cluster, instance_id: str, committed: Mapping[str, Mapping[TopicPartition, int]]
) -> dict[str, Behind]:
    """Raises: Unavailable."""
    keys = sorted({key for offsets in committed.values() for key in offsets})
    ends = await groups.log_ends(cluster, instance_id, keys)
    found = {}
    for name, offsets in committed.items():
        its = [GroupOffset(key, offset, ends.get(key)) for key, offset in offsets.items()]
        lags = [
            max(0, one.log_end_offset - one.committed_offset) for one in its if one.log_end_offset is not None
        ]
        found[name] = Behind(sum(lags), len(lags) == len(its), its)
    return found


async def _leaders(
    cluster: Cluster, instance_id: str, ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, tuple[Place, Where]]:
    """How partitions are asked that have a leader. Raises: Unavailable."""
    names = sorted({physical_name(instance_id, topic) for topic, _ in ends})
    request = MetadataRequest(
        topics=tuple(MetadataRequestTopic(topic_id=None, name=TopicName(name)) for name in names),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )
    answer: MetadataResponse = await cluster.ask(request)
    found = {}
    for topic in answer.topics:
        name = tenant_name(instance_id, topic.name or "")
        if name is None or topic.topic_id is None or topic.name is None:
            continue
        for one in topic.partitions:
            key = name, int(one.partition_index)
            if key in ends and one.leader_id in cluster.addresses:
                place = Place(topic.topic_id, key[1], 0)
                found[key] = place, Where(topic.name, int(one.leader_id), ends[key])
    return found


async def _committed(
    cluster: Cluster, instance_id: str, names: Sequence[str], coordinator: int | None
) -> dict[str, dict[TopicPartition, int]]:
    """Of groups that the coordinator has loaded. Raises: Unavailable."""
    request = OffsetFetchRequest(
        groups=tuple(
            OffsetFetchRequestGroup(group_id=GroupId(physical_name(instance_id, name)), topics=None)
            for name in names
        )
    )
    answer = await cluster.ask(request, coordinator)
    found: dict[str, dict[TopicPartition, int]] = {}
    for group in answer.groups:
        name = tenant_name(instance_id, group.group_id)
        if name is not None and group.error_code is ErrorCode.none:
            found[name] = {
                (topic_name, int(one.partition_index)): int(one.committed_offset)
                for topic in group.topics
                if (topic_name := tenant_name(instance_id, topic.name)) is not None
                for one in topic.partitions
                if one.error_code is ErrorCode.none and one.committed_offset >= 0
            }
    return found


async def _members(
    cluster: Cluster, instance_id: str, names: Sequence[str], coordinator: int | None
) -> dict[str, int]:
    """How many each group has. Raises: Unavailable."""
    request = DescribeGroupsRequest(
        groups=tuple(GroupId(physical_name(instance_id, name)) for name in names),
        include_authorized_operations=False,
    )
    answer = await cluster.ask(request, coordinator)
    return {
        name: len(one.members)
        for one in answer.groups
        if (name := tenant_name(instance_id, one.group_id)) is not None
    }

"""Actions on consumer groups and their offsets."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec

from tenants.backend import groups as backend
from tenants.backend import topics as topic_backend
from tenants.backend.cluster import Cluster
from tenants.backend.groups import MemberFacts, OffsetFacts
from tenants.ckafka.action import Action, Call
from tenants.ckafka.found import instance_of, window
from tenants.ckafka.listings import Filter
from tenants.ckafka.request.errors import ApiError, Code, wrong_value
from tenants.ckafka.request.params import Count, Number, Params, Text
from tenants.ckafka.tasks import done
from tenants.rules.errors import NotFound
from tenants.rules.model import Instance
from tenants.rules.offset_reset import ResetTo, Wish

GROUPS_LOOKED_AT_MAX: Final = 200
"""Groups of an instance that DescribeTopicSubscribeGroup looks into; with more of them it is refused."""
_AT_ONCE: Final = 8
_PARTITIONS_MAX: Final = 10_000
_PageSize = Annotated[int, msgspec.Meta(ge=1, le=50)]
_Names = Annotated[tuple[Text, ...], msgspec.Meta(max_length=100)]
_GroupName = Annotated[str, msgspec.Meta(min_length=1, max_length=1000)]
_EARLIEST, _LATEST = -2, -1


class Listing(Params):
    """Which groups, and which page of them."""

    instance_id: Text
    search_word: Text = ""
    offset: Count = 0
    limit: _PageSize = 20
    filters: Annotated[tuple[Filter, ...], msgspec.Meta(max_length=10)] = ()


class Subscriptions(Params):
    """Groups with what they have committed."""

    instance_id: Text
    group_name: Text = ""
    topic_name: Text = ""
    offset: Count = 0
    limit: _PageSize = 20


class Named(Params):
    """Some groups."""

    instance_id: Text
    group_list: Annotated[tuple[_GroupName, ...], msgspec.Meta(min_length=1, max_length=50)]


class Offsets(Params):
    """What a group has committed, by topic."""

    instance_id: Text
    group: _GroupName
    topics: _Names = ()
    search_word: Text = ""
    offset: Count = 0
    limit: _PageSize = 50


class Subscribers(Params):
    """Groups of a topic."""

    instance_id: Text
    topic_name: Text
    offset: Count = 0
    limit: _PageSize = 20


class Reset(Params):
    """Where to set a group's offsets."""

    instance_id: Text
    group: _GroupName
    strategy: Annotated[int, msgspec.Meta(ge=0, le=2)]
    topics: _Names = ()
    partitions: Annotated[tuple[Count, ...], msgspec.Meta(max_length=_PARTITIONS_MAX)] = ()
    shift: Number | None = None
    shift_timestamp: Number | None = None
    offset: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] | None = None


class PartitionOffset(Params):
    """A partition's new offset."""

    partition: Count
    offset: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class BatchReset(Params):
    """Offsets of partitions, the same for all topics."""

    instance_id: Text
    group_name: _GroupName
    partitions: Annotated[tuple[PartitionOffset, ...], msgspec.Meta(min_length=1, max_length=_PARTITIONS_MAX)]
    topic_name: _Names = ()


class OfGroup(Params):
    """A group."""

    instance_id: Text
    group: _GroupName


class OfTopic(Params):
    """A topic that a group has committed offsets of."""

    instance_id: Text
    group: _GroupName
    topic: Text


class NewGroup(Params):
    """A group that is to exist before its first consumer."""

    instance_id: Text
    group_name: _GroupName
    topic_name: Text = ""
    topic_name_list: _Names = ()


async def describe(call: Call[Listing]) -> dict[str, Any]:
    """Groups by name."""
    asked = call.params
    found = await instance_of(call)
    every = await backend.listing(await call.plane.cluster(found.cluster_id), found.id)
    kept = [one for one in every if asked.search_word in one.name]
    for each in asked.filters:
        if each.name != "GroupState":
            raise wrong_value("Filters", "Name is GroupState")
        kept = [one for one in kept if one.state in each.values]
    shown = window(kept, asked.offset, asked.limit)
    return {
        "TotalCount": len(kept),
        "GroupList": [{"Group": one.name, "Protocol": one.protocol_type} for one in shown],
        "GroupCountQuota": None,
    }


async def describe_consumer_group(call: Call[Subscriptions]) -> dict[str, Any]:
    """Groups by name with topics, partitions and offsets."""
    asked = call.params
    found = await instance_of(call)
    cluster = await call.plane.cluster(found.cluster_id)
    every = [one.name for one in await backend.listing(cluster, found.id)]
    names = [name for name in every if asked.group_name in ("", name)]
    shown = window(names, asked.offset, asked.limit)
    wanted = asked.topic_name if asked.group_name else ""
    groups = []
    for name, described in zip(shown, await _described(cluster, found, shown), strict=True):
        committed = [] if described is None else described[2]
        groups.append(_subscriptions(name, [one for one in committed if wanted in ("", one.key[0])]))
    topics = sorted({info["TopicName"] for one in groups for info in one["SubscribedInfo"]})
    partitions = sorted({p for one in groups for info in one["SubscribedInfo"] for p in info["Partition"]})
    listed = [{"TopicId": name, "TopicName": name} for name in topics]
    return {
        "TotalCount": len(names),
        "TopicList": listed,
        "GroupList": groups,
        "TotalPartition": len(partitions),
        "PartitionListForMonitor": [{"PartitionId": one} for one in partitions],
        "TotalTopic": len(topics),
        "TopicListForMonitor": listed,
        "GroupListForMonitor": [{"GroupName": one["ConsumerGroupName"]} for one in groups],
    }


def _subscriptions(name: str, committed: list[OffsetFacts]) -> dict[str, Any]:
    by_topic: dict[str, list[OffsetFacts]] = {}
    for one in committed:
        by_topic.setdefault(one.key[0], []).append(one)
    return {
        "ConsumerGroupName": name,
        "SubscribedInfo": [
            {
                "TopicName": topic,
                "Partition": [one.key[1] for one in offsets],
                "PartitionOffset": [
                    {"Partition": str(one.key[1]), "Offset": one.committed_offset} for one in offsets
                ],
                "TopicId": topic,
            }
            for topic, offsets in by_topic.items()
        ],
    }


_Described = tuple[Any, list[MemberFacts], list[OffsetFacts]] | None


async def _described(cluster: Cluster, found: Instance, names: Sequence[str]) -> list[_Described]:
    """What is known of groups, a few at once; None of one that is not there."""
    turn = asyncio.Semaphore(_AT_ONCE)

    async def one(name: str) -> _Described:
        async with turn:
            try:
                return await backend.describe(cluster, found.id, name)
            except NotFound:
                return None

    return list(await asyncio.gather(*map(one, names)))


async def describe_info(call: Call[Named]) -> list[dict[str, Any]]:
    """Groups with their members."""
    found = await instance_of(call)
    cluster = await call.plane.cluster(found.cluster_id)
    names = call.params.group_list
    described = await _described(cluster, found, names)
    return [_info(name, one) for name, one in zip(names, described, strict=True)]


def _info(name: str, described: _Described) -> dict[str, Any]:
    group, members, _offsets = described or (None, [], [])
    return {
        "ErrorCode": "0",
        "State": "Dead" if group is None else group.group_state,
        "ProtocolType": "" if group is None else group.protocol_type,
        "Protocol": "" if group is None else group.protocol_data,
        "Members": [_member(one) for one in members],
        "Group": name,
    }


def _member(facts: MemberFacts) -> dict[str, Any]:
    topics = [{"Topic": name, "Partitions": parts} for name, parts in sorted(facts.assignment.items())]
    return {
        "MemberId": facts.member.member_id,
        "ClientId": facts.member.client_id,
        "ClientHost": facts.member.client_host,
        "Assignment": {"Version": 0, "Topics": topics},
    }


async def describe_offsets(call: Call[Offsets]) -> dict[str, Any]:
    """Committed offsets with their lag, by topic."""
    asked = call.params
    found = await instance_of(call)
    cluster = await call.plane.cluster(found.cluster_id)
    _group, _members, committed = await backend.describe(cluster, found.id, asked.group)
    by_topic: dict[str, list[OffsetFacts]] = {}
    for one in committed:
        if (not asked.topics or one.key[0] in asked.topics) and asked.search_word in one.key[0]:
            by_topic.setdefault(one.key[0], []).append(one)
    shown = window(sorted(by_topic), asked.offset, asked.limit)
    listed = [{"Topic": name, "Partitions": [_offset(one) for one in by_topic[name]]} for name in shown]
    return {"TotalCount": len(by_topic), "TopicList": listed}


def _offset(facts: OffsetFacts) -> dict[str, Any]:
    end = facts.log_end_offset
    return {
        "Partition": facts.key[1],
        "Offset": facts.committed_offset,
        "Metadata": facts.metadata or "",
        "ErrorCode": 0,
        "LogEndOffset": end,
        "Lag": None if end is None else max(0, end - facts.committed_offset),
    }


async def describe_subscribers(call: Call[Subscribers]) -> dict[str, Any]:
    """Groups that have committed offsets of a topic, or are assigned partitions of it."""
    asked = call.params
    found = await instance_of(call)
    _check_topics([asked.topic_name])
    cluster = await call.plane.cluster(found.cluster_id)
    await topic_backend.existing(cluster, found.id, asked.topic_name)
    names = [one.name for one in await backend.listing(cluster, found.id)]
    if len(names) > GROUPS_LOOKED_AT_MAX:
        raise ApiError(
            Code.LIMIT_EXCEEDED, f"the instance has {len(names)} groups, more than {GROUPS_LOOKED_AT_MAX}"
        )
    described = await _described(cluster, found, names)
    subscribed = [
        _info(name, one)
        for name, one in zip(names, described, strict=True)
        if one is not None and _is_of(one, asked.topic_name)
    ]
    states = sorted({one["State"] for one in subscribed})
    counts = {state: sum(one["State"] == state for one in subscribed) for state in states}
    return {
        "TotalCount": len(subscribed),
        "StatusCountInfo": msgspec.json.encode(counts).decode(),
        "GroupsInfo": list(window(subscribed, asked.offset, asked.limit)),
        "Status": 1,
    }


def _is_of(described: tuple[Any, list[MemberFacts], list[OffsetFacts]], topic: str) -> bool:
    _group, members, committed = described
    return any(one.key[0] == topic for one in committed) or any(topic in one.assignment for one in members)


async def modify_offsets(call: Call[Reset]) -> dict[str, Any]:
    """Set a group's offsets by a shift, a time or to an offset. The group may have no members."""
    asked = call.params
    found = await instance_of(call)
    _check_topics(asked.topics)
    wish = _wish(asked)
    partitions = list(asked.partitions) or None
    targets: dict[str, list[int] | None] = dict.fromkeys(asked.topics, partitions)
    if not asked.topics and partitions is not None:
        committed = await _committed(call, found, asked.group)
        targets = {}
        for topic, partition in committed:
            if partition in partitions:
                targets[topic] = [*(targets.get(topic) or []), partition]
        if not targets:
            raise wrong_value("Partitions", "the group has committed nothing of them")
    await call.plane.topics.reset_offsets(call.caller, found, asked.group, wish, targets, execute=True)
    return await done(call.plane)


def _wish(asked: Reset) -> Wish:
    if asked.strategy == 0:
        return Wish(ResetTo.SHIFT, shift=_needed("Shift", asked.shift))
    if asked.strategy == 2:
        return Wish(ResetTo.OFFSET, offset=_needed("Offset", asked.offset))
    at_ms = _needed("ShiftTimestamp", asked.shift_timestamp)
    if at_ms in (_EARLIEST, _LATEST):
        return Wish(ResetTo.EARLIEST if at_ms == _EARLIEST else ResetTo.LATEST)
    if at_ms < 0:
        raise wrong_value("ShiftTimestamp", "is epoch milliseconds, -2 for the begin or -1 for the end")
    return Wish(ResetTo.DATETIME, at_ms=at_ms)


def _needed(name: str, value: int | None) -> int:
    if value is None:
        raise ApiError(Code.MISSING_PARAMETER, f"parameter {name} is required with this Strategy")
    return value


async def modify_offsets_batch(call: Call[BatchReset]) -> dict[str, Any]:
    """Set offsets of named partitions, of some topics or of all that the group has committed."""
    asked = call.params
    found = await instance_of(call)
    _check_topics(asked.topic_name)
    wanted = {one.partition: one.offset for one in asked.partitions}
    if len(wanted) < len(asked.partitions):
        raise wrong_value("Partitions", "names a partition twice")
    if asked.topic_name:
        keys = [(topic, partition) for topic in asked.topic_name for partition in wanted]
    else:
        keys = [key for key in await _committed(call, found, asked.group_name) if key[1] in wanted]
    if not keys:
        raise wrong_value("Partitions", "the group has committed nothing of them")
    wish = Wish(ResetTo.OFFSETS, offsets={key: wanted[key[1]] for key in keys})
    await call.plane.topics.reset_offsets(call.caller, found, asked.group_name, wish, {}, execute=True)
    return await done(call.plane)


async def _committed(call: Call[Any], found: Instance, group: str) -> list[tuple[str, int]]:
    cluster = await call.plane.cluster(found.cluster_id)
    _group, _members, committed = await backend.describe(cluster, found.id, group)
    return [one.key for one in committed]


async def create(call: Call[NewGroup]) -> dict[str, Any]:
    """Have a group commit where its topics begin, so that it exists and skips nothing."""
    asked = call.params
    found = await instance_of(call)
    names = list(dict.fromkeys([*([asked.topic_name] if asked.topic_name else []), *asked.topic_name_list]))
    if not names:
        raise ApiError(Code.MISSING_PARAMETER, "parameter TopicName or TopicNameList is required")
    _check_topics(names)
    cluster = await call.plane.cluster(found.cluster_id)
    for name in names:
        await topic_backend.existing(cluster, found.id, name)
    if (await _described(cluster, found, [asked.group_name]))[0] is not None:
        raise ApiError(Code.REPETITION_VALUE, f"group '{asked.group_name[:250]}' exists already")
    targets: dict[str, list[int] | None] = dict.fromkeys(names)
    wish = Wish(ResetTo.EARLIEST)
    await call.plane.topics.reset_offsets(call.caller, found, asked.group_name, wish, targets, execute=True)
    return await done(call.plane)


async def delete(call: Call[OfGroup]) -> dict[str, Any]:
    """Delete a group without members."""
    found = await instance_of(call)
    await call.plane.topics.delete_group(call.caller, found, call.params.group)
    return await done(call.plane)


async def delete_topic(call: Call[OfTopic]) -> dict[str, Any]:
    """Forget what a group has committed of a topic."""
    found = await instance_of(call)
    _check_topics([call.params.topic])
    await call.plane.topics.delete_offsets(call.caller, found, call.params.group, call.params.topic)
    return await done(call.plane)


def _check_topics(names: Sequence[str]) -> None:
    for name in names:
        topic_backend.check_name(name)


_GROUPS: Final = "/v1/instances/{instance}/groups"
_GROUP: Final = f"{_GROUPS}/{{group}}"
_RESET: Final = f"POST {_GROUP}/reset-offsets"
ACTIONS: Final = (
    Action(name="DescribeGroup", handle=describe, rest=f"GET {_GROUPS}"),
    Action(name="DescribeConsumerGroup", handle=describe_consumer_group, rest=f"GET {_GROUP}"),
    Action(name="DescribeGroupInfo", handle=describe_info, rest=f"GET {_GROUP}"),
    Action(name="DescribeGroupOffsets", handle=describe_offsets, rest=f"GET {_GROUP}"),
    Action(name="DescribeTopicSubscribeGroup", handle=describe_subscribers, rest=f"GET {_GROUP}"),
    Action(name="ModifyGroupOffsets", handle=modify_offsets, changes=True, rest=_RESET),
    Action(name="BatchModifyGroupOffsets", handle=modify_offsets_batch, changes=True, rest=_RESET),
    Action(name="CreateConsumer", handle=create, changes=True, rest=_RESET),
    Action(name="DeleteGroup", handle=delete, changes=True, rest=f"DELETE {_GROUP}"),
    Action(name="DeleteGroupSubscribeTopic", handle=delete_topic, changes=True, rest=f"DELETE {_GROUP}"),
)

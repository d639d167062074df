"""Actions on topics: create, change, delete, show."""

import asyncio
from typing import Annotated, Any, Final

import msgspec

from tenants.backend import topics as backend
from tenants.backend.cluster import Cluster
from tenants.ckafka import topic_views as views
from tenants.ckafka.action import Action, Call
from tenants.ckafka.found import instance_of, window
from tenants.ckafka.listings import Filter
from tenants.ckafka.request.errors import ApiError, Code, of_refusal, wrong_value
from tenants.ckafka.request.params import Count, Entries, Flag, Number, Params, Positive, Text
from tenants.ckafka.tasks import done
from tenants.rules.errors import Exists, Refused
from tenants.rules.model import Instance

_BATCH_MAX: Final = 10
_ORDER_BY: Final = ("", "PartitionNum", "CreateTime")
_PageSize = Annotated[int, msgspec.Meta(ge=1, le=50)]


class Configs(Params):
    """What may be set of a topic; None: as it is."""

    clean_up_policy: Text | None = None
    min_insync_replicas: Positive | None = None
    unclean_leader_election_enable: Flag | bool | None = None
    retention_ms: Number | None = None
    retention_bytes: Number | None = None
    segment_ms: Number | None = None
    max_message_bytes: Number | None = None
    log_msg_timestamp_type: Text | None = None


class NewTopic(Configs, kw_only=True):
    """A new topic. How many replicas it has is the cluster's business."""

    instance_id: Text
    topic_name: Text
    partition_num: Positive
    enable_white_list: Flag = 0
    ip_white_list: Entries | None = None


class TopicChange(Configs, kw_only=True):
    """Other configs, or another whitelist."""

    instance_id: Text
    topic_name: Text
    enable_white_list: Flag | None = None
    ip_white_list: Entries | None = None


class BatchEntry(Configs, kw_only=True, forbid_unknown_fields=True):
    """What is to change of one topic."""

    topic_name: Text
    partition_num: Positive | None = None
    note: Text | None = None
    """Not kept."""


class Batch(Params):
    """Changes of several topics."""

    instance_id: Text
    topic: Annotated[tuple[BatchEntry, ...], msgspec.Meta(min_length=1, max_length=_BATCH_MAX)]


class Growth(Params):
    """A larger number of partitions."""

    instance_id: Text
    topic_name: Text
    partition_num: Positive


class OfTopic(Params):
    """A topic."""

    instance_id: Text
    topic_name: Text


class Listing(Params):
    """Which topics, and which page of them."""

    instance_id: Text
    search_word: Text = ""
    offset: Count = 0
    limit: _PageSize = 20


class DetailListing(Params):
    """Topics of a page, in an order."""

    instance_id: Text
    search_word: Text = ""
    search_word_ignore_case_flag: bool = False
    offset: Count = 0
    limit: _PageSize = 20
    order_by: Text = ""
    order_type: Flag = 0
    filters: Annotated[tuple[Filter, ...], msgspec.Meta(max_length=10)] = ()


class Replicas(Params):
    """Which partitions of a topic."""

    instance_id: Text
    topic_name: Text
    offset: Count = 0
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 20
    out_of_sync_replica_only: bool = False


def kafka_configs(asked: Configs) -> dict[str, str]:
    """Kafka's names and values of what was given."""
    unclean = asked.unclean_leader_election_enable
    given: dict[str, Any] = {
        "cleanup.policy": asked.clean_up_policy and asked.clean_up_policy.replace(" ", ""),
        "min.insync.replicas": asked.min_insync_replicas,
        "unclean.leader.election.enable": None if unclean is None else str(bool(unclean)).lower(),
        "retention.ms": asked.retention_ms,
        "retention.bytes": asked.retention_bytes,
        "segment.ms": asked.segment_ms,
        "max.message.bytes": asked.max_message_bytes,
        "message.timestamp.type": asked.log_msg_timestamp_type,
    }
    return {name: str(value) for name, value in given.items() if value is not None}


async def create(call: Call[NewTopic]) -> dict[str, Any]:
    """Create a topic; with a whitelist of its own it has that one from its first moment."""
    asked = call.params
    found = await instance_of(call)
    if asked.ip_white_list is not None and not asked.enable_white_list:
        raise wrong_value("IpWhiteList", "means nothing without EnableWhiteList 1")
    name = asked.topic_name
    before = found.topic_whitelists.get(name)
    if asked.enable_white_list:
        if name in await (await call.plane.cluster(found.cluster_id)).topics(found.id):
            raise _exists(Exists(f"topic '{name[:250]}' exists already"))
        await _set_whitelist(call, found, name, asked.ip_white_list or ())
    try:
        await call.plane.topics.create(call.caller, found, name, asked.partition_num, kafka_configs(asked))
    except Refused as refusal:
        if asked.enable_white_list:
            await _set_whitelist(call, found, name, before)
        raise _exists(refusal) from refusal
    return {"TopicId": name}


def _exists(refusal: Refused) -> Refused | ApiError:
    if isinstance(refusal, Exists):
        return ApiError(Code.TOPIC_NAME_ALREADY_EXIST, refusal.detail)
    return refusal


async def _set_whitelist(
    call: Call[Any], found: Instance, topic: str, entries: tuple[str, ...] | None
) -> None:
    listed = None if entries is None else list(entries)
    await asyncio.to_thread(call.plane.instances.set_topic_whitelist, call.caller, found.id, topic, listed)


async def modify(call: Call[TopicChange]) -> dict[str, Any]:
    """Change configs and the topic's own whitelist."""
    asked = call.params
    found = await instance_of(call)
    await _existing(await call.plane.cluster(found.cluster_id), found, asked.topic_name)
    if asked.enable_white_list is None and asked.ip_white_list is not None:
        raise wrong_value("IpWhiteList", "means nothing without EnableWhiteList 1")
    configs: dict[str, str | None] = dict(kafka_configs(asked))
    if configs:
        await call.plane.topics.change(call.caller, found, asked.topic_name, None, configs)
    if asked.enable_white_list is not None:
        own = found.topic_whitelists.get(asked.topic_name, ())
        entries = own if asked.ip_white_list is None else asked.ip_white_list
        await _set_whitelist(call, found, asked.topic_name, entries if asked.enable_white_list else None)
    return await done(call.plane)


async def modify_batch(call: Call[Batch]) -> list[dict[str, Any]]:
    """Change several topics; each has its own outcome."""
    found = await instance_of(call)
    outcomes = []
    for one in call.params.topic:
        code, message = "0", "ok"
        try:
            configs: dict[str, str | None] = dict(kafka_configs(one))
            await call.plane.topics.change(call.caller, found, one.topic_name, one.partition_num, configs)
        except Refused as refusal:
            code, message = of_refusal(refusal).code.value, refusal.detail
        outcomes.append(
            {
                "InstanceId": call.params.instance_id,
                "TopicName": one.topic_name,
                "ReturnCode": code,
                "Message": message,
            }
        )
    return outcomes


async def create_partition(call: Call[Growth]) -> dict[str, Any]:
    """Add partitions up to a number."""
    asked = call.params
    found = await instance_of(call)
    backend.check_name(asked.topic_name)
    await call.plane.topics.change(call.caller, found, asked.topic_name, asked.partition_num, {})
    return await done(call.plane)


async def delete(call: Call[OfTopic]) -> dict[str, Any]:
    """Delete a topic and its records."""
    found = await instance_of(call)
    await call.plane.topics.delete(call.caller, found, call.params.topic_name)
    return await done(call.plane)


async def describe(call: Call[Listing]) -> dict[str, Any]:
    """Topics by name."""
    asked = call.params
    found = await instance_of(call)
    every = await (await call.plane.cluster(found.cluster_id)).topics(found.id)
    names = [name for name in every if asked.search_word in name]
    shown = window(names, asked.offset, asked.limit)
    listed = [{"TopicId": name, "TopicName": name, "Note": ""} for name in shown]
    return {"TopicList": listed, "TotalCount": len(names)}


async def describe_detail(call: Call[DetailListing]) -> dict[str, Any]:
    """Topics with their configs. When one was created is not kept, so that order is the one by name."""
    asked = call.params
    if asked.order_by not in _ORDER_BY:
        raise wrong_value("OrderBy", "is PartitionNum or CreateTime")
    found = await instance_of(call)
    cluster = await call.plane.cluster(found.cluster_id)
    every = await cluster.topics(found.id)
    word, fold = asked.search_word, asked.search_word_ignore_case_flag
    names = [name for name in every if word in name or (fold and word.lower() in name.lower())]
    for each in asked.filters:
        if each.name != "ReplicaNum":
            raise wrong_value("Filters", "Name is ReplicaNum")
        names = [name for name in names if str(views.replicas_of(every[name])) in each.values]
    if asked.order_by == "PartitionNum":
        names.sort(key=lambda name: len(every[name].partitions))
    if asked.order_type:
        names.reverse()
    shown = window(names, asked.offset, asked.limit)
    configs = await backend.configs(cluster, found.id, list(shown))
    listed = [views.detail(found, name, every[name], configs.get(name, [])) for name in shown]
    return {"TopicList": listed, "TotalCount": len(names)}


async def describe_attributes(call: Call[OfTopic]) -> dict[str, Any]:
    """One topic."""
    found = await instance_of(call)
    name = call.params.topic_name
    cluster = await call.plane.cluster(found.cluster_id)
    topic = await _existing(cluster, found, name)
    configs = await backend.configs(cluster, found.id, [name])
    return views.attributes(found, name, topic, configs.get(name, []))


async def describe_sync_replica(call: Call[Replicas]) -> dict[str, Any]:
    """Partitions with replicas and offsets."""
    asked = call.params
    found = await instance_of(call)
    cluster = await call.plane.cluster(found.cluster_id)
    await _existing(cluster, found, asked.topic_name)
    _topic, partitions, _configs = await backend.describe(cluster, found.id, asked.topic_name)
    rows = [views.sync_replica(one) for one in partitions]
    if asked.out_of_sync_replica_only:
        rows = [one for one in rows if one["OutOfSyncReplica"]]
    return {
        "TopicInSyncReplicaList": list(window(rows, asked.offset, asked.limit)),
        "TotalCount": len(rows),
    }


async def _existing(cluster: Cluster, found: Instance, name: str) -> Any:
    backend.check_name(name)
    return await backend.existing(cluster, found.id, name)


_ACL_RULES: Final = ("EnableAclRule", "AclRuleName")
_TOPICS: Final = "/v1/instances/{instance}/topics"
_TOPIC: Final = f"{_TOPICS}/{{topic}}"
ACTIONS: Final = (
    Action(
        name="CreateTopic",
        handle=create,
        changes=True,
        rest=f"POST {_TOPICS}",
        ignored=("ReplicaNum", "Note", "Tags"),
        refused=_ACL_RULES,
    ),
    Action(name="DeleteTopic", handle=delete, changes=True, rest=f"DELETE {_TOPIC}"),
    Action(
        name="ModifyTopicAttributes",
        handle=modify,
        changes=True,
        rest=f"PATCH {_TOPIC}, PUT {_TOPIC}/whitelist",
        ignored=("Note", "Tags"),
        refused=(*_ACL_RULES, "QuotaProducerByteRate", "QuotaConsumerByteRate", "ReplicaNum"),
    ),
    Action(name="BatchModifyTopicAttributes", handle=modify_batch, changes=True, rest=f"PATCH {_TOPIC}"),
    Action(name="CreatePartition", handle=create_partition, changes=True, rest=f"PATCH {_TOPIC}"),
    Action(name="DescribeTopic", handle=describe, rest=f"GET {_TOPICS}", refused=("AclRuleName",)),
    Action(
        name="DescribeTopicDetail", handle=describe_detail, rest=f"GET {_TOPICS}", refused=("AclRuleName",)
    ),
    Action(name="DescribeTopicAttributes", handle=describe_attributes, rest=f"GET {_TOPIC}"),
    Action(name="DescribeTopicSyncReplica", handle=describe_sync_replica, rest=f"GET {_TOPIC}"),
)

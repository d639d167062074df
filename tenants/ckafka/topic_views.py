"""Topics as CKafka shows them. Pure."""

from typing import Any

from kio.schema.metadata.v8.response import MetadataResponseTopic

from contracts import topic_policy
from tenants.backend.topics import ConfigFacts, PartitionFacts
from tenants.rules.model import Instance

_ON, _OFF = 1, 0


def config_of(instance: Instance, configs: list[ConfigFacts]) -> dict[str, Any]:
    """The configs that CKafka names, as they apply."""
    values = {
        one.name: topic_policy.applied(one.name, one.value, instance.limits, is_own=not one.is_default)
        for one in configs
    }

    def number(name: str) -> int | None:
        value = values.get(name)
        return None if value is None else int(value)

    return {
        "Retention": number("retention.ms"),
        "MinInsyncReplicas": number("min.insync.replicas"),
        "CleanUpPolicy": values.get("cleanup.policy"),
        "SegmentMs": number("segment.ms"),
        "UncleanLeaderElectionEnable": _OFF,
        "SegmentBytes": number("segment.bytes"),
        "MaxMessageBytes": number("max.message.bytes"),
        "RetentionBytes": number("retention.bytes"),
        "LogMsgTimestampType": values.get("message.timestamp.type"),
    }


def replicas_of(topic: MetadataResponseTopic) -> int:
    """The most of any partition."""
    return max((len(one.replica_nodes) for one in topic.partitions), default=0)


def detail(
    instance: Instance, name: str, topic: MetadataResponseTopic, configs: list[ConfigFacts]
) -> dict[str, Any]:
    """A topic as DescribeTopicDetail lists it. Its name is its id: no other topic of its instance has it."""
    own = instance.topic_whitelists.get(name)
    config = config_of(instance, configs)
    minutes = None if config["Retention"] is None else config["Retention"] // 60_000
    return {
        "TopicName": name,
        "TopicId": name,
        "PartitionNum": len(topic.partitions),
        "ReplicaNum": replicas_of(topic),
        "Note": "",
        "CreateTime": 0,
        "EnableWhiteList": own is not None,
        "IpWhiteListCount": len(own or ()),
        "ForwardCosBucket": "",
        "ForwardStatus": 1,
        "ForwardInterval": 0,
        "Config": config,
        "RetentionTimeConfig": {"Expect": minutes, "Current": minutes, "ModTimeStamp": 0},
        "Status": 0,
        "Tags": [],
    }


def attributes(
    instance: Instance, name: str, topic: MetadataResponseTopic, configs: list[ConfigFacts]
) -> dict[str, Any]:
    """A topic as DescribeTopicAttributes shows it."""
    own = instance.topic_whitelists.get(name)
    partitions = sorted(topic.partitions, key=lambda one: one.partition_index)
    return {
        "TopicId": name,
        "CreateTime": 0,
        "Note": "",
        "PartitionNum": len(partitions),
        "EnableWhiteList": _OFF if own is None else _ON,
        "IpWhiteList": list(own or ()),
        "Config": config_of(instance, configs),
        "Partitions": [
            {
                "Partition": int(one.partition_index),
                "LeaderStatus": 0 if one.leader_id >= 0 else 1,
                "IsrNum": len(one.isr_nodes),
                "ReplicaNum": len(one.replica_nodes),
            }
            for one in partitions
        ],
        "EnableAclRule": _OFF,
        "AclRuleList": [],
        "QuotaConfig": {"QuotaProducerByteRate": None, "QuotaConsumerByteRate": None},
        "ReplicaNum": replicas_of(topic),
    }


def sync_replica(facts: PartitionFacts) -> dict[str, Any]:
    """Replicas of a partition, and which of them are in sync."""
    one = facts.metadata
    lacking = [node for node in one.replica_nodes if node not in one.isr_nodes]
    start, end = facts.log_start_offset, facts.high_watermark
    return {
        "Partition": str(int(one.partition_index)),
        "Leader": int(one.leader_id),
        "Replica": _nodes(one.replica_nodes),
        "InSyncReplica": _nodes(one.isr_nodes),
        "BeginOffset": start,
        "EndOffset": end,
        "MessageCount": None if start is None or end is None else end - start,
        "OutOfSyncReplica": _nodes(lacking),
    }


def _nodes(nodes: Any) -> str:
    return ",".join(str(int(one)) for one in nodes)

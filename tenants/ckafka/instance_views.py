"""Instances as CKafka shows them: its units, status codes and health."""

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from contracts.names import owner_of
from contracts.quota_view import QuotaView
from contracts.specs import Limits
from contracts.units import GB, MB
from tenants.ckafka.request.params import ckafka_id_of
from tenants.console import Console
from tenants.rules.errors import Unavailable
from tenants.rules.lifecycle import State
from tenants.rules.model import Instance

MINUTE_MS: Final = 60_000
ZONE_ID: Final = 1
"""The one zone of the one region: which broker holds what is the cluster's business."""
KAFKA_VERSION: Final = "2.8.1"
"""The version, among CKafka's, whose clients all find what they need."""
_BITS: Final = 8
_STATUS: Final = {
    State.CREATING: 0,
    State.RUNNING: 1,
    State.SUSPENDED: 5,
    State.FAILED: -1,
}
_HEALTHY, _ALARMING, _UNHEALTHY = 1, 2, 3
_ALARM_PERCENT: Final = 80
_UNHEALTHY_PERCENT: Final = 95


def status_of(instance: Instance) -> int:
    """CKafka's number for the state of a visible instance."""
    return _STATUS[instance.state]


def bandwidth_mbps(instance: Instance) -> int:
    """The larger one of the two rates, in Mbps."""
    rate = max(instance.produce_rate_bytes_per_s, instance.consume_rate_bytes_per_s)
    return rate * _BITS // MB


def summary(instance: Instance) -> dict[str, Any]:
    """An instance in a short listing."""
    return {
        "InstanceId": ckafka_id_of(instance.id),
        "InstanceName": instance.name,
        "Status": status_of(instance),
        "IfCommunity": True,
    }


class Numbers:
    """What brokers and the quota master know of instances now; None where they do not answer."""

    def __init__(self, usage: dict[str, QuotaView], topics: Counter[str], partitions: Counter[str]) -> None:
        self._usage = usage
        self._topics = topics
        self._partitions = partitions
        self.has_counts = True

    @classmethod
    async def of(cls, plane: Console, instances: Iterable[Instance]) -> "Numbers":
        """Numbers of some instances: one look at each of their clusters."""
        clusters = sorted({one.cluster_id for one in instances})
        topics: Counter[str] = Counter()
        partitions: Counter[str] = Counter()
        try:
            looks = await asyncio.gather(*(plane.facts.facts(one) for one in clusters))
        except Unavailable:
            unknown = cls(await plane.quota.usage(), topics, partitions)
            unknown.has_counts = False
            return unknown
        seen = set()
        for one in (state for look in looks for state in look.partitions):
            owner = owner_of(one.topic)
            if owner is not None:
                partitions[owner] += 1
                if one.topic not in seen:
                    seen.add(one.topic)
                    topics[owner] += 1
        return cls(await plane.quota.usage(), topics, partitions)

    def topics(self, instance: Instance) -> int | None:
        """Topics it has."""
        return self._topics[instance.id] if self.has_counts else None

    def partitions(self, instance: Instance) -> int | None:
        """Partitions it has, without replicas."""
        return self._partitions[instance.id] if self.has_counts else None

    def health(self, instance: Instance) -> tuple[int, str]:
        """CKafka's number, by how full the instance is, and a sentence."""
        if instance.state is State.FAILED:
            return _UNHEALTHY, instance.state_reason or "failed"
        known = self._usage.get(instance.id)
        if known is None:
            return _HEALTHY, ""
        percent = known.stored_bytes * 100 // instance.capacity_bytes
        if known.blocked or percent > _UNHEALTHY_PERCENT:
            return _UNHEALTHY, f"disk usage {percent}%"
        return (_ALARMING if percent > _ALARM_PERCENT else _HEALTHY), f"disk usage {percent}%"


def _address(instance: Instance) -> tuple[str, str]:
    listener = instance.bootstrap
    return ("", "") if listener is None else (listener.advertised_host, str(listener.port))


def _common(instance: Instance, numbers: Numbers) -> dict[str, Any]:
    vip, vport = _address(instance)
    healthy, message = numbers.health(instance)
    return {
        "InstanceId": ckafka_id_of(instance.id),
        "InstanceName": instance.name,
        "Vip": vip,
        "Vport": vport,
        "VipList": [{"Vip": vip, "Vport": vport}] if vip else [],
        "Status": status_of(instance),
        "Bandwidth": bandwidth_mbps(instance),
        "DiskSize": instance.capacity_bytes // GB,
        "ZoneId": ZONE_ID,
        "ZoneIds": [ZONE_ID],
        "VpcId": "",
        "SubnetId": "",
        "Healthy": healthy,
        "HealthyMessage": message,
        "CreateTime": instance.created_at_ms // 1000,
        "ExpireTime": 0,
        "Tags": [],
        "Version": KAFKA_VERSION,
        "Cvm": 1,
        "InstanceType": "profession",
        "ClusterType": "",
        "Features": [],
        "PublicNetwork": 0,
        "RetentionBytes": -1,
    }


def detail(instance: Instance, numbers: Numbers) -> dict[str, Any]:
    """An instance as DescribeInstancesDetail lists it."""
    return _common(instance, numbers) | {
        "RenewFlag": 0,
        "IsInternal": 0,
        "TopicNum": numbers.topics(instance),
        "PartitionNumber": numbers.partitions(instance),
        "MaxTopicNumber": instance.limits.partitions_max,
        "MaxPartitionNumber": instance.limits.partitions_max,
        "DiskType": "",
        "RebalanceTime": "",
        "PublicNetworkChargeType": "",
    }


def attributes(instance: Instance, numbers: Numbers) -> dict[str, Any]:
    """An instance as DescribeInstanceAttributes shows it."""
    topics, partitions = numbers.topics(instance), numbers.partitions(instance)
    left = None if partitions is None else max(0, instance.limits.partitions_max - partitions)
    return _common(instance, numbers) | {
        "MsgRetentionTime": instance.limits.retention_ms_max // MINUTE_MS,
        "Config": {
            "AutoCreateTopicsEnable": instance.auto_create_topics,
            "DefaultNumPartitions": instance.limits.partitions_default,
            "DefaultReplicationFactor": 1,
        },
        "CreatedTopics": topics,
        "CreatedPartitions": partitions,
        "RemainderPartitions": left,
        "RemainingPartitions": left,
        "RemainderTopics": left,
        "RemainingTopics": left,
        "MaxConnection": instance.limits.connections_max,
        "MaxMessageByte": instance.limits.message_bytes_max,
        **_NOT_HERE,
    }


_NOT_HERE: Final[dict[str, Any]] = {
    "MaxGroupNum": 0,
    "RetentionTimeConfig": {
        "Enable": 0,
        "DiskQuotaPercentage": None,
        "StepForwardPercentage": None,
        "BottomRetention": None,
    },
    "DynamicDiskConfig": {
        "Enable": 0,
        "StepForwardPercentage": None,
        "DiskQuotaPercentage": None,
        "MaxDiskSpace": None,
    },
    "DeleteRouteTimestamp": "",
    "SystemMaintenanceTime": "",
    "InstanceChargeType": "POSTPAID_BY_HOUR",
    "ElasticBandwidthSwitch": 0,
    "ElasticBandwidthOpenStatus": 1,
    "FreePartitionNumber": 0,
    "ElasticFloatBandwidth": 0,
    "CustomCertId": "",
    "UncleanLeaderElectionEnable": 0,
    "DeleteProtectionEnable": 0,
    "TransactionalIdExpirationMs": 0,
}
"""What this service does not have, as CKafka shows what is off."""


def limits_of(partitions: int | None, retention_minutes: int | None) -> dict[str, int]:
    """Limits that an order names; those left out keep their value."""
    named = {
        "partitions_max": partitions,
        "retention_ms_max": None if retention_minutes is None else retention_minutes * MINUTE_MS,
    }
    assert named.keys() <= set(Limits.__struct_fields__)
    return {name: value for name, value in named.items() if value is not None}

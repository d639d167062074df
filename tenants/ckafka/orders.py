"""Actions that order, change, isolate and delete instances."""

import asyncio
from typing import Annotated, Any, Final

import msgspec

from contracts.units import GB, MB
from tenants.ckafka.action import Action, Call
from tenants.ckafka.found import instance_of
from tenants.ckafka.instance_views import limits_of
from tenants.ckafka.request.errors import wrong_value
from tenants.ckafka.request.params import Params, Positive, Text, ckafka_id_of
from tenants.ckafka.tasks import done
from tenants.rules.model import Instance
from tenants.usecases.instances import Change, NewInstance

_BANDWIDTH_MB_PER_S: Final = 40
_DISK_GB: Final = 500
_PARTITIONS: Final = 800
"""What CKafka gives to an order that does not say."""
_Few = Annotated[int, msgspec.Meta(ge=1, le=100)]


class Order(Params):
    """A new instance. One unit of CKafka's bandwidth buys as much of either direction."""

    instance_name: Text
    band_width: Positive = _BANDWIDTH_MB_PER_S
    disk_size: Positive = _DISK_GB
    partition: Positive = _PARTITIONS
    msg_retention_time: Positive | None = None
    instance_num: _Few = 1


class Resize(Params):
    """Other sizes; those left out stay."""

    instance_id: Text
    band_width: Positive | None = None
    disk_size: Positive | None = None
    partition: Positive | None = None


class AutoCreation(Params):
    """Whether clients' requests create topics."""

    auto_create_topic_enable: bool | None = None
    default_num_partitions: Positive | None = None
    default_replication_factor: Positive | None = None


class Attributes(Params):
    """Other attributes; those left out stay."""

    instance_id: Text
    instance_name: Text | None = None
    msg_retention_time: Positive | None = None
    max_message_byte: Positive | None = None
    config: AutoCreation | None = None


class Existing(Params):
    """An instance."""

    instance_id: Text


async def create(call: Call[Order]) -> dict[str, Any]:
    """Order an instance. Its whitelist is empty: nobody may connect until ModifyAccessPolicy says who."""
    asked = call.params
    if asked.instance_num != 1:
        raise wrong_value("InstanceNum", "instances are ordered one by one, each with its own name")
    order = NewInstance(
        name=asked.instance_name,
        produce_rate_bytes_per_s=asked.band_width * MB,
        consume_rate_bytes_per_s=asked.band_width * MB,
        capacity_bytes=asked.disk_size * GB,
        whitelist=[],
        limits=limits_of(asked.partition, asked.msg_retention_time),
    )
    tenant = call.caller.tenant
    made = await asyncio.to_thread(call.plane.instances.create, call.caller, tenant, order)
    return _deal(made)


def _deal(instance: Instance) -> dict[str, Any]:
    named = ckafka_id_of(instance.id)
    return {
        "ReturnCode": "0",
        "ReturnMessage": "ok",
        "Data": {
            "FlowId": instance.revision,
            "DealNames": [named],
            "InstanceId": named,
            "DealNameInstanceIdMapping": [{"DealName": named, "InstanceIdList": [named]}],
            "EventId": "",
        },
    }


async def create_prepaid(call: Call[Order]) -> dict[str, Any]:
    """Creates an instance, in an answer that has a field more."""
    return _prepaid(await create(call))


def _prepaid(answer: dict[str, Any]) -> dict[str, Any]:
    return {**answer, "DeleteRouteTimestamp": None}


async def resize(call: Call[Resize]) -> dict[str, Any]:
    """Other sizes, larger or smaller."""
    return _prepaid(_deal(await _resized(call)))


async def scale_down(call: Call[Resize]) -> dict[str, Any]:
    """Makes an instance smaller, in an answer of its own."""
    changed = await _resized(call)
    return {"DealNames": [ckafka_id_of(changed.id)]}


async def _resized(call: Call[Resize]) -> Instance:
    asked = call.params
    rate = None if asked.band_width is None else asked.band_width * MB
    return await _changed(
        call,
        Change(
            produce_rate_bytes_per_s=rate,
            consume_rate_bytes_per_s=rate,
            capacity_bytes=None if asked.disk_size is None else asked.disk_size * GB,
            limits=limits_of(asked.partition, None),
        ),
    )


async def modify_attributes(call: Call[Attributes]) -> dict[str, Any]:
    """Name, limits and automatic topics."""
    asked = call.params
    limits = limits_of(None, asked.msg_retention_time)
    if asked.max_message_byte is not None:
        limits["message_bytes_max"] = asked.max_message_byte
    automatic = None if asked.config is None else asked.config.auto_create_topic_enable
    changed = await _changed(
        call, Change(name=asked.instance_name, limits=limits, auto_create_topics=automatic)
    )
    return await done(call.plane, changed.revision)


async def _changed(call: Call[Any], wanted: Change) -> Instance:
    found = await instance_of(call)
    usage = await call.plane.quota.usage_of(found.id)
    return await asyncio.to_thread(call.plane.instances.change, call.caller, found.id, wanted, usage)


async def delete_prepaid(call: Call[Existing]) -> dict[str, Any]:
    """Delete it; it is kept for its grace."""
    return _prepaid(_deal(await _deleted(call)))


async def delete_postpaid(call: Call[Existing]) -> dict[str, Any]:
    """Deletes an instance, in an answer of its own."""
    return {"FlowId": (await _deleted(call)).revision}


async def _deleted(call: Call[Existing]) -> Instance:
    found = await instance_of(call)
    return await asyncio.to_thread(call.plane.instances.delete, call.caller, found.id)


async def isolate(call: Call[Existing]) -> dict[str, Any]:
    """Suspend it: its clients are cut, its data stays."""
    found = await instance_of(call)
    return _prepaid(_deal(await asyncio.to_thread(call.plane.instances.suspend, call.caller, found.id)))


async def renew(call: Call[Existing]) -> dict[str, Any]:
    """Resume an isolated one."""
    found = await instance_of(call)
    resumed = await asyncio.to_thread(call.plane.instances.resume, call.caller, found.id)
    named = ckafka_id_of(resumed.id)
    return {"BigDealId": named, "DealName": named}


_NETWORK_AND_MACHINES: Final = (
    "VpcId",
    "SubnetId",
    "ZoneId",
    "ZoneIds",
    "ClusterId",
    "InstanceType",
    "SpecificationsType",
    "DiskType",
    "KafkaVersion",
    "Tags",
)
_OTHER_PRODUCTS: Final = (
    "MultiZoneFlag",
    "PublicNetworkMonthly",
    "ElasticBandwidthSwitch",
    "CustomSSLCertId",
    "StoreQuantityType",
)
_CREATE: Final = "POST /v1/instances"
_CHANGE: Final = "PATCH /v1/instances/{instance}"
_DELETE: Final = "DELETE /v1/instances/{instance}"
ACTIONS: Final = (
    Action(
        name="CreateInstancePre",
        handle=create_prepaid,
        changes=True,
        rest=_CREATE,
        ignored=(*_NETWORK_AND_MACHINES, "Period", "RenewFlag", "AutoVoucher"),
        refused=_OTHER_PRODUCTS,
    ),
    Action(
        name="CreatePostPaidInstance",
        handle=create,
        changes=True,
        rest=_CREATE,
        ignored=(*_NETWORK_AND_MACHINES, "TopicNum"),
        refused=_OTHER_PRODUCTS,
    ),
    Action(name="ModifyInstancePre", handle=resize, changes=True, rest=_CHANGE),
    Action(
        name="InstanceScalingDown",
        handle=scale_down,
        changes=True,
        rest=_CHANGE,
        ignored=("UpgradeStrategy",),
    ),
    Action(
        name="ModifyInstanceAttributes",
        handle=modify_attributes,
        changes=True,
        rest=_CHANGE,
        ignored=("RebalanceTime",),
        refused=(
            "DynamicRetentionConfig",
            "PublicNetwork",
            "DynamicDiskConfig",
            "UncleanLeaderElectionEnable",
            "DeleteProtectionEnable",
            "RetentionBytes",
            "AdminSecurity",
            "TransactionalIdExpirationMs",
        ),
    ),
    Action(name="DeleteInstancePre", handle=delete_prepaid, changes=True, rest=_DELETE),
    Action(name="DeleteInstancePost", handle=delete_postpaid, changes=True, rest=_DELETE),
    Action(
        name="IsolatedInstancePre", handle=isolate, changes=True, rest="POST /v1/instances/{instance}/suspend"
    ),
    Action(
        name="RenewCkafkaInstance",
        handle=renew,
        changes=True,
        rest="POST /v1/instances/{instance}/resume",
        ignored=("TimeSpan",),
    ),
)

"""Actions that show instances, and where they are: listings, attributes, region, zone, version, tasks."""

import asyncio
from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated, Any, Final

import msgspec

from tenants.ckafka import instance_views as views
from tenants.ckafka.action import Action, Call
from tenants.ckafka.found import all_instances, instance_of, window
from tenants.ckafka.instance_views import Numbers
from tenants.ckafka.request.errors import wrong_value
from tenants.ckafka.request.params import Count, Number, Params, Text, ckafka_id_of
from tenants.ckafka.tasks import task_status
from tenants.rules.errors import NotFound
from tenants.rules.model import Instance

_VALUES_MAX: Final = 100
_FILTERS: Final[dict[str, Callable[[Instance], str]]] = {
    "Ip": lambda one: "" if one.bootstrap is None else one.bootstrap.advertised_host,
    "VpcId": lambda _: "",
    "SubNetId": lambda _: "",
    "InstanceType": lambda _: "profession",
    "InstanceId": lambda one: ckafka_id_of(one.id),
}


class Filter(Params):
    """Keep what has one of these values."""

    name: Text
    values: Annotated[tuple[Text, ...], msgspec.Meta(max_length=10)]


class Listing(Params):
    """Which instances, and which page of them."""

    instance_id: Text = ""
    search_word: Text = ""
    status: Annotated[tuple[Number, ...], msgspec.Meta(max_length=_VALUES_MAX)] = ()
    offset: Count = 0
    limit: Annotated[int, msgspec.Meta(ge=1, le=100)] = 10


class DetailListing(Params):
    """A page has at most twenty, since every one costs a look at its brokers."""

    instance_id: Text = ""
    search_word: Text = ""
    status: Annotated[tuple[Number, ...], msgspec.Meta(max_length=_VALUES_MAX)] = ()
    instance_id_list: Annotated[tuple[Text, ...], msgspec.Meta(max_length=_VALUES_MAX)] = ()
    filters: Annotated[tuple[Filter, ...], msgspec.Meta(max_length=10)] = ()
    offset: Count = 0
    limit: Annotated[int, msgspec.Meta(ge=1, le=20)] = 10


class OfInstance(Params):
    """An action that needs to know the instance alone."""

    instance_id: Text


class Nothing(Params):
    """An action that needs to know nothing."""


class Flow(Params):
    """A task, by the number that the action which began it answered with."""

    flow_id: Number


async def describe_instances(call: Call[Listing]) -> dict[str, Any]:
    """Instances by name."""
    found = _kept(await all_instances(call), call.params)
    shown = window(found, call.params.offset, call.params.limit)
    return {"InstanceList": [views.summary(one) for one in shown], "TotalCount": len(found)}


async def describe_instances_detail(call: Call[DetailListing]) -> dict[str, Any]:
    """Instances by name, with what brokers know of them."""
    asked = call.params
    found = _kept(await all_instances(call), asked)
    if asked.instance_id_list:
        found = [one for one in found if ckafka_id_of(one.id) in asked.instance_id_list]
    for each in asked.filters:
        value_of = _FILTERS.get(each.name)
        if value_of is None:
            raise wrong_value("Filters", f"Name is one of {', '.join(_FILTERS)}")
        found = [one for one in found if value_of(one) in each.values]
    shown = window(found, asked.offset, asked.limit)
    numbers = await Numbers.of(call.plane, shown)
    return {"InstanceList": [views.detail(one, numbers) for one in shown], "TotalCount": len(found)}


def _kept(found: list[Instance], asked: Listing | DetailListing) -> list[Instance]:
    return [
        one
        for one in found
        if (not asked.instance_id or ckafka_id_of(one.id) == asked.instance_id)
        and (not asked.status or views.status_of(one) in asked.status)
        and (asked.search_word in one.name or asked.search_word in ckafka_id_of(one.id))
    ]


async def describe_instance_attributes(call: Call[OfInstance]) -> dict[str, Any]:
    """One instance."""
    found = await instance_of(call)
    return views.attributes(found, await Numbers.of(call.plane, [found]))


async def describe_region(call: Call[Nothing]) -> list[dict[str, Any]]:
    """The one region."""
    name = call.plane.config.region
    return [
        {
            "RegionId": 1,
            "RegionName": name,
            "AreaName": name,
            "RegionCode": name,
            "RegionCodeV3": name,
            "Support": "NONE",
            "Ipv6": 1,
            "MultiZone": 0,
        }
    ]


async def describe_zones(call: Call[Nothing]) -> dict[str, Any]:
    """The one zone. What is sold is decided by ceilings, so nothing says beforehand that it is sold out."""
    zone = {
        "ZoneId": str(views.ZONE_ID),
        "IsInternalApp": 0,
        "AppId": 0,
        "Flag": False,
        "ZoneName": f"{call.plane.config.region}-{views.ZONE_ID}",
        "ZoneStatus": 3,
        "Exflag": "",
        "SoldOut": "false",
        "SalesInfo": [
            {"Flag": False, "Version": views.KAFKA_VERSION, "Platform": "profession", "SoldOut": False}
        ],
        "ExtraFlag": "",
    }
    free = {"RealTotalCost": 0.0, "TotalCost": 0.0}
    texts = ("Standard", "StandardS2", "Profession", "Physical", "PublicNetwork", "PublicNetworkLimit")
    return {
        "ZoneList": [zone],
        "MaxBuyInstanceNum": 1,
        "MaxBandwidth": 0,
        "UnitPrice": free,
        "MessagePrice": free,
        "ClusterInfo": [],
        **dict.fromkeys(texts, ""),
        "RequestId": "",
        "Offset": 0,
        "Limit": 1,
        "ForceCheckTag": False,
    }


async def describe_version(call: Call[OfInstance]) -> dict[str, Any]:
    """Every instance has the newest version: the cluster's."""
    await instance_of(call)
    newest = {"KafkaVersion": views.KAFKA_VERSION, "BrokerVersion": version("portico")}
    return {
        "KafkaVersion": newest["KafkaVersion"],
        "CurBrokerVersion": newest["BrokerVersion"],
        "LatestBrokerVersion": [newest],
        "AllowUpgradeHighVersion": False,
        "HighVersionSet": [],
        "AllowAutoDeleteTimestamp": False,
        "AllowModifyTxnIdExpiration": False,
    }


async def describe_task_status(call: Call[Flow]) -> dict[str, Any]:
    """Whether gateways serve the change that a flow id stands for."""
    found = await asyncio.to_thread(task_status, call.plane, call.params.flow_id)
    if found is None:
        raise NotFound(f"there is no task {call.params.flow_id}")
    return {"Status": found, "Output": ""}


ACTIONS: Final = (
    Action(
        name="DescribeInstances",
        handle=describe_instances,
        rest="GET /v1/instances",
        ignored=("TagKey", "VpcId"),
    ),
    Action(
        name="DescribeTypeInstances", handle=describe_instances, rest="GET /v1/instances", ignored=("TagKey",)
    ),
    Action(
        name="DescribeInstancesDetail",
        handle=describe_instances_detail,
        rest="GET /v1/instances",
        ignored=("TagKey", "InstanceIds"),
        refused=("TagList",),
    ),
    Action(
        name="DescribeInstanceAttributes",
        handle=describe_instance_attributes,
        rest="GET /v1/instances/{instance}",
    ),
    Action(
        name="DescribeRegion",
        handle=describe_region,
        rest="",
        ignored=("Offset", "Limit", "Business", "CdcId"),
    ),
    Action(name="DescribeCkafkaZone", handle=describe_zones, rest="", ignored=("CdcId",)),
    Action(name="DescribeCkafkaVersion", handle=describe_version, rest="GET /v1/instances/{instance}"),
    Action(
        name="DescribeTaskStatus", handle=describe_task_status, rest="GET /v1/instances/{instance}, `applied`"
    ),
)

"""Actions on routes and on who may connect: an instance's one route, its whitelist, those of topics."""

import asyncio
import ipaddress
from typing import Annotated, Any, Final

import msgspec

from contracts.users import SecurityProtocol
from tenants.backend import topics as backend
from tenants.ckafka.action import Action, Call
from tenants.ckafka.found import instance_of
from tenants.ckafka.request.errors import ApiError, Code
from tenants.ckafka.request.params import Entries, Number, Params, Text
from tenants.ckafka.tasks import done
from tenants.rules.lifecycle import WHITELIST_ENTRIES_MAX
from tenants.rules.model import Instance

_ROUTE_ID: Final = 1
"""The id of the route that every instance is made with."""
_ACCESS_TYPES: Final = {
    SecurityProtocol.PLAIN: 0,
    SecurityProtocol.SASL_PLAINTEXT: 1,
    SecurityProtocol.TLS: 2,
    SecurityProtocol.SASL_SSL: 3,
}
_VPC: Final = 3
_CREATED: Final = 2
_EVERYBODY: Final = ("0.0.0.0/0", "::/0")


class TopicEntries(Params):
    """Entries of a topic's own list."""

    instance_id: Text
    topic_name: Text
    ip_white_list: Entries


class Routes(Params):
    """All routes, or one."""

    instance_id: Text
    route_id: Number | None = None


class Route(Params):
    """A route."""

    instance_id: Text
    route_id: Number


class Entry(Params):
    """One entry of a whitelist."""

    cidr_block: Text
    policy_description: Text = ""


class Policy(Params):
    """The whole whitelist of a route; left out: empty, which admits nobody."""

    instance_id: Text
    route_id: Number
    ip_whitelist: Annotated[tuple[Entry, ...], msgspec.Meta(max_length=WHITELIST_ENTRIES_MAX)] = ()


async def add_topic_entries(call: Call[TopicEntries]) -> dict[str, Any]:
    """Add to a topic's list. A topic without one has this list from then on."""
    return await _changed_topic(call, call.params.ip_white_list, ())


async def remove_topic_entries(call: Call[TopicEntries]) -> dict[str, Any]:
    """Remove from a topic's list. An empty one admits nobody, as long as it is switched on."""
    return await _changed_topic(call, (), call.params.ip_white_list)


async def _changed_topic(
    call: Call[TopicEntries], add: tuple[str, ...], remove: tuple[str, ...]
) -> dict[str, Any]:
    found = await instance_of(call)
    topic = call.params.topic_name
    cluster = await call.plane.cluster(found.cluster_id)
    if topic not in await cluster.topics(found.id):
        raise backend.no_topic(topic)
    changed = await asyncio.to_thread(
        call.plane.instances.change_topic_whitelist, call.caller, found.id, topic, add, remove
    )
    return await done(call.plane, changed.revision)


async def describe_route(call: Call[Routes]) -> dict[str, Any]:
    """The one route: an address for clients to begin with, and one for each broker."""
    found = await instance_of(call)
    if call.params.route_id not in (None, _ROUTE_ID) or not found.listeners:
        return {"Routers": []}
    first = found.bootstrap
    assert first is not None, "an instance with listeners has one that clients begin with"
    same = [one for one in found.listeners if one.security_protocol is first.security_protocol]
    brokers = sorted((one.node_id, one) for one in same if one.node_id is not None)
    host = first.advertised_host
    route = {
        "AccessType": _ACCESS_TYPES[first.security_protocol],
        "RouteId": _ROUTE_ID,
        "VipType": _VPC,
        "VipList": [{"Vip": host, "Vport": str(first.port)}],
        "Domain": None if _is_address(host) else host,
        "DomainPort": None if _is_address(host) else first.port,
        "DeleteTimestamp": "",
        "Subnet": None,
        "BrokerVipList": [{"Vip": one.advertised_host, "Vport": str(one.port)} for _, one in brokers],
        "VpcId": None,
        "Note": None,
        "Status": _CREATED,
    }
    return {"Routers": [route]}


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


async def describe_policy(call: Call[Route]) -> dict[str, Any]:
    """The instance's whitelist."""
    found = await _of_route(call)
    entries = (*_EVERYBODY, *found.whitelist) if found.allow_all else found.whitelist
    unique = list(dict.fromkeys(entries))
    return {
        "TotalCount": len(unique),
        "IpWhitelist": [{"CidrBlock": one, "PolicyDescription": ""} for one in unique],
    }


async def modify_policy(call: Call[Policy]) -> str:
    """Replace the instance's whitelist."""
    found = await _of_route(call)
    entries = [one.cidr_block for one in call.params.ip_whitelist]
    await asyncio.to_thread(call.plane.instances.set_whitelist, call.caller, found.id, False, entries)
    return "ok"


async def _of_route(call: Call[Any]) -> Instance:
    found = await instance_of(call)
    if call.params.route_id != _ROUTE_ID:
        raise ApiError(Code.RESOURCE_NOT_FOUND, f"there is no route {call.params.route_id}")
    return found


_TOPIC_WHITELIST: Final = "PUT /v1/instances/{instance}/topics/{topic}/whitelist"
ACTIONS: Final = (
    Action(name="CreateTopicIpWhiteList", handle=add_topic_entries, changes=True, rest=_TOPIC_WHITELIST),
    Action(name="DeleteTopicIpWhiteList", handle=remove_topic_entries, changes=True, rest=_TOPIC_WHITELIST),
    Action(
        name="DescribeRoute",
        handle=describe_route,
        rest="GET /v1/instances/{instance}",
        ignored=("MainRouteFlag",),
    ),
    Action(
        name="DescribeAccessPolicy", handle=describe_policy, rest="GET /v1/instances/{instance}/whitelist"
    ),
    Action(
        name="ModifyAccessPolicy",
        handle=modify_policy,
        changes=True,
        rest="PUT /v1/instances/{instance}/whitelist",
    ),
)

"""What has to be called for an object to become true. Pure: object and console's answer in, calls out."""

from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any, Final, NamedTuple

from contracts.units import parse_bytes
from contracts.users import SecurityProtocol

_MAPPED: Final = IPv6Network("::ffff:0:0/96")
_SIZES: Final = {
    "produceRate": ("produce_rate_bytes_per_s", True),
    "consumeRate": ("consume_rate_bytes_per_s", True),
    "capacity": ("capacity_bytes", False),
}
_PLAIN: Final = {
    "requestPercent": "request_percent",
    "fullBehaviour": "full_behaviour",
    "autoCreateTopics": "auto_create_topics",
    "legacyClients": "legacy_clients",
    "clientMetrics": "client_metrics",
}
_LIMITS: Final = {
    "partitionsMax": "partitions_max",
    "partitionsDefault": "partitions_default",
    "connectionsMax": "connections_max",
    "connectionsPerIpMax": "connections_per_ip_max",
    "connectionRateMax": "connection_rate_max",
    "controllerMutationRateMax": "controller_mutation_rate_max",
    "messageBytesMax": "message_bytes_max",
    "requestBytesMax": "request_bytes_max",
    "retentionMsMax": "retention_ms_max",
    "loginMsMax": "login_ms_max",
}
"""Fields of the objects and what the console calls them. One that an object leaves out is left alone."""


class Call(NamedTuple):
    """One request to the console, below the resource that the plan is for."""

    method: str
    path: str
    body: Mapping[str, Any] | None = None


class WrongSpec(Exception):  # noqa: N818 - what is wrong with an object, in a sentence
    """Trying again is of no use before somebody changes the object."""


def instance_body(spec: Mapping[str, Any]) -> dict[str, Any]:
    """What an object says of an instance, as the console takes it. Raises: WrongSpec."""
    body: dict[str, Any] = {}
    for field, (name, is_rate) in _SIZES.items():
        if field not in spec:
            continue
        try:
            body[name] = parse_bytes(str(spec[field]), rate=is_rate)
        except ValueError as error:
            raise WrongSpec(f"spec.{field}: {error}") from error
    body |= {name: spec[field] for field, name in _PLAIN.items() if field in spec}
    if "listeners" in spec:
        body["security_protocols"] = sorted(set(spec["listeners"]), key=_place)
    given = spec.get("limits") or {}
    limits = {name: given[field] for field, name in _LIMITS.items() if field in given}
    return body | ({"limits": limits} if limits else {})


def _place(listener: str) -> int:
    """In the order in which the console shows them; what is none stays, for it to refuse."""
    known = [str(one) for one in SecurityProtocol]
    return known.index(listener) if listener in known else len(known)


def creation(spec: Mapping[str, Any], name: str) -> Call:
    """The instance as it is ordered. Raises: WrongSpec."""
    body = {"name": name, **instance_body(spec)}
    missing = [field for field, (key, _rate) in _SIZES.items() if key not in body]
    if missing:
        raise WrongSpec(f"spec.{missing[0]} is missing")
    if spec.get("allowAll"):
        body["allow_all"] = True
    else:
        body["whitelist"] = list(spec.get("whitelist") or [])
    return Call("POST", "", body)


def instance_calls(spec: Mapping[str, Any], name: str, shown: Mapping[str, Any]) -> list[Call]:
    """What makes an instance as its object says, nothing where it is. Raises: WrongSpec."""
    wanted = {"name": name, **instance_body(spec)}
    limits = wanted.pop("limits", {})
    changed = {key: value for key, value in wanted.items() if shown[key] != value}
    if shown.get("request_percent_derived") and changed.get("request_percent") == 0:
        del changed["request_percent"]  # 0 asks for what goes with the rates
    changed_limits = {key: value for key, value in limits.items() if shown["limits"][key] != value}
    if changed_limits:
        changed["limits"] = changed_limits
    calls = [Call("PATCH", "", changed)] if changed else []
    allow_all = bool(spec.get("allowAll"))
    cidrs = list(spec.get("whitelist") or [])
    if ("whitelist" in spec or "allowAll" in spec) and (
        shown["allow_all"] != allow_all or (not allow_all and _network_set(cidrs) != set(shown["whitelist"]))
    ):
        calls.append(Call("PUT", "/whitelist", {"allow_all": allow_all, "cidrs": [] if allow_all else cidrs}))
    is_suspended = shown["state"] == "suspended"
    if spec.get("suspended", False) and not is_suspended:
        calls.append(Call("POST", "/suspend"))
    if not spec.get("suspended", False) and is_suspended:
        calls.append(Call("POST", "/resume"))
    return calls


def _network_set(cidrs: list[str]) -> set[str]:
    """Entries in the one form that the console writes them in; what is none stays, for it to refuse."""
    found = set()
    for cidr in cidrs:
        try:
            network = ip_network(cidr.strip(), strict=False)
        except ValueError:
            found.add(cidr)
            continue
        if isinstance(network, IPv6Network) and network.subnet_of(_MAPPED):
            packed = network.network_address.packed[-4:]
            network = IPv4Network((packed, network.prefixlen - 96))
        found.add(str(network))
    return found


def topic_creation(spec: Mapping[str, Any], name: str) -> Call:
    """The topic as it is ordered."""
    body = {"name": name, "partitions": spec["partitions"], "configs": dict(spec.get("config") or {})}
    return Call("POST", "", body)


def topic_calls(spec: Mapping[str, Any], managed: Mapping[str, Any], shown: Mapping[str, Any]) -> list[Call]:
    """What makes a topic as its object says. `managed` are the configs that the object set before: what it
    ceases to name goes back to the default. Raises: WrongSpec."""
    have, wanted = len(shown["partitions"]), int(spec["partitions"])
    if wanted < have:
        raise WrongSpec(f"spec.partitions is {wanted}, the topic has {have}: partitions cannot be removed")
    body: dict[str, Any] = {"partitions": wanted} if wanted > have else {}
    configs = dict(spec.get("config") or {})
    shown_configs = {each["name"]: each for each in shown["configs"]}
    changed: dict[str, str | None] = {
        key: value
        for key, value in configs.items()
        if key not in shown_configs
        or shown_configs[key]["is_default"]
        or str(shown_configs[key]["value"]) != value
    }
    for key in managed:
        if key not in configs and not shown_configs.get(key, {"is_default": True})["is_default"]:
            changed[key] = None
    if changed:
        body["configs"] = changed
    return [Call("PATCH", "", body)] if body else []

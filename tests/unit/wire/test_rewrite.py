"""Names of a tenant go up with the scope and come down without it, for every API and version we serve."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from tests.unit.wire.messages import FOREIGN, NAME_CLASSES, OWN, SERVED, VIEW, map_fields, messages
from wire import codec
from wire.faults import EmptyName, NameTooLong, NotMappable
from wire.rewrite import rewrite_request, rewrite_response
from wire.schema import payload_apis
from wire.scope import Scope
from wire.subscription import physical_subscription, tenant_subscription

KEYS = {api: key for key, api in payload_apis().items()}
RESOURCES = {"config resource name", "ACL resource name"}

quick = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))


def up(scope: Scope, *, request: bool) -> Any:
    """The oracle's way up."""

    def mapped(found: str, value: Any, beside: Any) -> Any:
        if found in NAME_CLASSES or found in RESOURCES:
            return scope.prefix + value
        return None if found == "cluster id" and request else value

    return mapped


def normal_subscriptions(entity: Any, scope: Scope) -> Any:
    if getattr(entity, "protocol_type", None) != "consumer" or not entity.protocols:
        return entity
    protocols = tuple(
        replace(each, metadata=physical_subscription(each.metadata, scope)) for each in entity.protocols
    )
    return replace(entity, protocols=protocols)


@pytest.mark.parametrize("api", SERVED)
@quick
@given(data=st.data())
def test_requests_go_up_with_the_scope(api: str, data: st.DataObject) -> None:
    version = data.draw(st.sampled_from(SERVED[api]))
    request = data.draw(messages(codec.request_class(KEYS[api], version)))
    expected = map_fields(request, up(OWN, request=True))
    if api == "join_group":
        expected = normal_subscriptions(expected, OWN)
    physical = rewrite_request(request, OWN)
    assert physical == expected
    assert codec.decode(type(physical), codec.encode(physical)) == physical
    if physical == request:
        assert physical is request


def seen_by_tenant(found: str, value: Any, beside: Any) -> Any:
    """What a response holds when it has come down: the tenant's names, and nothing of the cluster."""
    if found == "cluster id":
        return OWN.instance_id
    if found == "rack":
        return None
    if found == "log dir":
        return "/kafka"
    return value


@pytest.mark.parametrize("api", SERVED)
@quick
@given(data=st.data())
def test_responses_come_down_without_it(api: str, data: st.DataObject) -> None:
    version = data.draw(st.sampled_from(SERVED[api]))
    tenants = data.draw(messages(codec.response_class(KEYS[api], version)))
    if api in ("metadata", "describe_cluster"):
        ids = "node_id" if api == "metadata" else "broker_id"
        visible = tuple(each for each in tenants.brokers if getattr(each, ids) in VIEW.brokers)
        tenants = replace(tenants, brokers=visible)
    if api == "fetch" and hasattr(tenants, "node_endpoints"):
        visible = tuple(each for each in tenants.node_endpoints if each.node_id in VIEW.brokers)
        tenants = replace(tenants, node_endpoints=visible)
    if api == "find_coordinator" and version < 4:
        tenants = replace(tenants, node_id=1)
    elif api == "find_coordinator":
        known = tuple(replace(each, node_id=1) for each in tenants.coordinators)
        tenants = replace(tenants, coordinators=known)
    if api == "describe_log_dirs":
        tenants = replace(tenants, results=tenants.results[:1])
    physical = map_fields(tenants, up(OWN, request=False))
    down = rewrite_response(physical, OWN, VIEW)
    assert addressless(down) == addressless(map_fields(tenants, seen_by_tenant))
    assert OWN.prefix_bytes not in codec.encode(down)
    assert codec.decode(type(down), codec.encode(down)) == down


def addressless(entity: Any) -> Any:
    def mapped(found: str, value: Any, beside: Any) -> Any:
        return type(value)() if found == "broker address" else value

    return map_fields(entity, mapped)


@pytest.mark.parametrize("api", SERVED)
@quick
@given(data=st.data())
def test_nothing_of_a_neighbour_is_seen(api: str, data: st.DataObject) -> None:
    """Every name of the response is drawn to be ours, a neighbour's or the backend's own."""
    version = data.draw(st.sampled_from(SERVED[api]))
    response = data.draw(messages(codec.response_class(KEYS[api], version)))
    prefixes = st.sampled_from([OWN.prefix, FOREIGN.prefix, "__backend-", "i00000000000."])

    def mapped(found: str, value: Any, beside: Any) -> Any:
        if found in NAME_CLASSES or found in RESOURCES:
            return data.draw(prefixes) + value
        if found == "error text":
            return f"about {data.draw(prefixes)}{value}"
        if found in ("broker address", "cluster id", "rack", "log dir") and isinstance(value, str):
            return "backend-secret"
        return value

    down = codec.encode(rewrite_response(map_fields(response, mapped), OWN, VIEW))
    for secret in (FOREIGN.instance_id, OWN.instance_id + ".", "i00000000000", "backend-secret"):
        assert secret.encode() not in down


def test_a_null_topic_name_stays_null() -> None:
    cls = codec.response_class(3, 12)
    empty = codec.decode(cls, codec.encode(cls(throttle_time=codec.duration(0), brokers=(), topics=())))
    topic_class = cls.__dataclass_fields__["topics"].type.__args__[0]
    topic = topic_class(error_code=ErrorCode.unknown_topic_id, name=None, topic_id=None, partitions=())
    down = rewrite_response(replace(empty, topics=(topic,)), OWN, VIEW)
    assert down.topics == (topic,)


@pytest.mark.parametrize(
    ("api_key", "version", "fields", "kind"),
    [
        (12, 0, {"group_id": "", "generation_id": 1, "member_id": ""}, "group_id"),
        (10, 0, {"key": ""}, "group_id"),
        (10, 1, {"key": "", "key_type": 1}, "transactional_id"),
        (10, 4, {"coordinator_keys": ("a", ""), "key_type": 0}, "group_id"),
        (15, 0, {"groups": ("a", "")}, "group_id"),
        (
            22,
            0,
            {"transactional_id": "", "transaction_timeout": codec.duration(1)},
            "transactional_id",
        ),
    ],
)
def test_empty_ids_are_refused(api_key: int, version: int, fields: dict[str, Any], kind: str) -> None:
    with pytest.raises(EmptyName) as caught:
        rewrite_request(codec.request_class(api_key, version)(**fields), OWN)
    assert caught.value.kind == kind


def test_a_null_transactional_id_stays_null() -> None:
    request = codec.request_class(22, 0)(transactional_id=None, transaction_timeout=codec.duration(1))
    assert rewrite_request(request, OWN) is request


@pytest.mark.parametrize("name", ["x" * 32755, "é" * 16378])
def test_a_name_that_kafka_cannot_hold_is_refused(name: str) -> None:
    with pytest.raises(NameTooLong):
        rewrite_request(codec.request_class(20, 1)(topic_names=(name,), timeout=codec.duration(1)), OWN)
    fitting = rewrite_request(
        codec.request_class(20, 1)(topic_names=(name[:-1],), timeout=codec.duration(1)), OWN
    )
    assert codec.encode(fitting)


@pytest.mark.parametrize(("api_key", "version"), [(27, 1), (48, 0), (50, 0), (55, 0), (57, 0), (64, 0)])
def test_what_speaks_about_the_cluster_is_never_mapped(api_key: int, version: int) -> None:
    request = object.__new__(codec.request_class(api_key, version))
    with pytest.raises(NotMappable):
        rewrite_request(request, OWN)


def test_a_client_that_claims_to_be_a_replica_is_refused() -> None:
    with pytest.raises(NotMappable):
        rewrite_request(codec.request_class(2, 1)(replica_id=3, topics=()), OWN)


def find_coordinator(node_id: int, error_code: ErrorCode, version: int = 1) -> Any:
    cls = codec.response_class(10, version)
    return cls(
        throttle_time=codec.duration(0),
        error_code=error_code,
        error_message=None,
        node_id=node_id,
        host="10.1.2.3",
        port=9092,
    )


def test_a_coordinator_is_shown_at_its_advertised_address() -> None:
    down = rewrite_response(find_coordinator(2, ErrorCode.none), OWN, VIEW)
    assert (down.node_id, down.host, down.port) == (2, "vip.example", 20002)


def test_a_coordinator_without_address_is_not_available_yet() -> None:
    down = rewrite_response(find_coordinator(7, ErrorCode.none), OWN, VIEW)
    assert (down.error_code, down.node_id, down.host, down.port) == (
        ErrorCode.coordinator_not_available,
        -1,
        "",
        -1,
    )


def test_an_error_of_find_coordinator_is_kept_and_its_address_hidden() -> None:
    down = rewrite_response(find_coordinator(-1, ErrorCode.invalid_group_id), OWN, VIEW)
    assert (down.error_code, down.host, down.port) == (ErrorCode.invalid_group_id, "", -1)


def acl(name: str, resource_type: int = 2, pattern_type: int = 3) -> Any:
    cls = codec.request_class(30, 1)
    creation = cls.__dataclass_fields__["creations"].type.__args__[0]
    return cls(
        creations=(
            creation(
                resource_type=resource_type,
                resource_name=name,
                resource_pattern_type=pattern_type,
                principal="User:x",
                host="*",
                operation=2,
                permission_type=3,
            ),
        )
    )


def test_an_acl_for_all_topics_means_all_topics_of_the_instance() -> None:
    (creation,) = rewrite_request(acl("*"), OWN).creations
    assert (creation.resource_name, creation.resource_pattern_type) == (OWN.prefix, 4)


@pytest.mark.parametrize("resource_type", [1, 4, 6, 7])
def test_an_acl_beyond_names_is_refused(resource_type: int) -> None:
    with pytest.raises(NotMappable):
        rewrite_request(acl("kafka-cluster", resource_type), OWN)


def test_config_resources_of_brokers_are_node_ids() -> None:
    cls = codec.request_class(32, 1)
    resource = cls.__dataclass_fields__["resources"].type.__args__[0]
    request = cls(
        resources=(
            resource(resource_type=4, resource_name="1", configuration_keys=None),
            resource(resource_type=2, resource_name="a", configuration_keys=None),
        )
    )
    names = [each.resource_name for each in rewrite_request(request, OWN).resources]
    assert names == ["1", OWN.prefix + "a"]


def test_log_dirs_become_one_with_the_sizes_of_the_instance() -> None:
    cls = codec.response_class(35, 4)
    result = cls.__dataclass_fields__["results"].type.__args__[0]
    topic = result.__dataclass_fields__["topics"].type.__args__[0]
    dirs = [
        result(
            error_code=ErrorCode.none,
            log_dir=f"/mnt/{at}",
            topics=(topic(name=f"{OWN.prefix}t{at}", partitions=()), topic(name="other", partitions=())),
            total_bytes=77,
            usable_bytes=7,
        )
        for at in range(2)
    ]
    response = cls(throttle_time=codec.duration(0), error_code=ErrorCode.none, results=tuple(dirs))
    (down,) = rewrite_response(response, OWN, VIEW).results
    assert [each.name for each in down.topics] == ["t0", "t1"]
    assert (down.log_dir, down.total_bytes, down.usable_bytes) == ("/kafka", 10**10, 10**9)


def test_members_of_a_consumer_group_are_described_with_the_tenants_topics() -> None:
    metadata = bytes.fromhex("0001 00000001 0001 61 ffffffff 00000001 0001 61 00000001 00000000")
    cls = codec.response_class(11, 5)
    member = cls.__dataclass_fields__["members"].type.__args__[0]
    up_metadata = physical_subscription(metadata, OWN)
    assert up_metadata.count(OWN.prefix_bytes) == 2
    response = cls(
        throttle_time=codec.duration(0),
        error_code=ErrorCode.none,
        generation_id=1,
        protocol_name="range",
        leader="m",
        member_id="m",
        members=(member(member_id="m", group_instance_id=None, metadata=up_metadata),),
    )
    (down,) = rewrite_response(response, OWN, VIEW).members
    assert down.metadata == metadata == tenant_subscription(up_metadata, OWN)

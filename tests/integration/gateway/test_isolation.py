"""The whole table is walked with a neighbour's name in every name field, both ways; bytes are searched."""

import asyncio
import re
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from gateway.apis import APIS, SERVED
from tests.integration.gateway.filling import filled
from tests.scenarios.fake_broker import FakeBroker, Received, topic_id_of
from tests.scenarios.harness import A, B, RunningGateway
from wire.api_table import ApiKey
from wire.build import build
from wire.classify import FieldClass
from wire.codec import framed_response, request_class, response_class

NEIGHBOUR = f"{B}.orders"
NAMES = (
    FieldClass.TOPIC_NAME,
    FieldClass.GROUP_ID,
    FieldClass.TRANSACTIONAL_ID,
    FieldClass.COORDINATOR_KEY,
    FieldClass.CONFIG_RESOURCE,
    FieldClass.ACL_RESOURCE,
)
WALK = [pytest.param(key, version, id=f"{ApiKey(key).name}-{version}") for key, version in SERVED]


def foreign(field_class: FieldClass) -> str:
    """What a backend might say of a neighbour, or of itself."""
    if field_class in NAMES:
        return NEIGHBOUR
    return {
        FieldClass.ERROR_TEXT: f"topic {NEIGHBOUR} is gone",
        FieldClass.BROKER_ADDRESS: "physical.internal",
        FieldClass.CLUSTER_ID: "physical-cluster",
        FieldClass.LOG_DIR: "/physical/log",
        FieldClass.RACK: "physical-rack",
        # Bytes of the tenant's own members: mapped when they went up.
        FieldClass.CONSUMER_METADATA: f"{A}.orders",
    }.get(field_class, "plain")


def own(field_class: FieldClass) -> str:
    """The same of the instance itself."""
    if field_class in NAMES:
        return f"{A}.orders"
    return f"topic {A}.orders is gone" if field_class is FieldClass.ERROR_TEXT else foreign(field_class)


def asked(field_class: FieldClass) -> str:
    """What a curious client might ask for."""
    return NEIGHBOUR if field_class is FieldClass.CONSUMER_METADATA else foreign(field_class)


@pytest.mark.parametrize(("key", "version"), WALK)
async def test_a_neighbours_name_never_goes_up_bare(
    broker: FakeBroker, gateway: RunningGateway, key: int, version: int
) -> None:
    broker.topics = {NEIGHBOUR: 3}
    client = await gateway.client(A)
    client.send(filled(request_class(key, version), [asked]))
    client.writer.write_eof()
    assert await client.ended()
    for received in broker.received:
        bare = re.findall(rb"(?<!" + f"{A}.".encode() + rb")" + NEIGHBOUR.encode(), received.frame)
        assert not bare, received
    assert set(gateway.closed(A)) <= {"client_closed", "malformed_request"}


@pytest.mark.parametrize(("key", "version"), WALK)
@pytest.mark.parametrize("namers", [[own], [own, foreign], [foreign]], ids=["own", "mixed", "foreign"])
async def test_nothing_of_a_neighbour_or_the_cluster_comes_down(
    broker: FakeBroker, gateway: RunningGateway, key: int, version: int, namers: list[Any]
) -> None:
    answer = filled(response_class(key, version), namers)
    broker.intercept(key, lambda one: framed_response(answer, one.correlation_id))
    client = await gateway.client(A)
    client.send(filled(request_class(key, version), [lambda field_class: "orders"]))
    try:
        reply = await client.frame()
    except asyncio.IncompleteReadError:
        reply = b""
        assert namers != [own] and gateway.closed(A) == {"upstream_malformed": 1}
    for secret in (B, f"{A}.", "physical"):
        assert secret.encode() not in reply, reply
    if namers == [own] and key not in (ApiKey.FIND_COORDINATOR, ApiKey.LIST_GROUPS):
        names_topics = f"{A}.orders".encode() in framed_response(answer, 0) and broker.of(key)
        assert not names_topics or b"orders" in reply


def test_the_walk_covers_the_table() -> None:
    assert {key for key, _ in SERVED} == set(APIS)


BY_ID = [
    (ApiKey.METADATA, 12, {"topics": [{"name": None, "topic_id": None}]}),
    (ApiKey.DELETE_TOPICS, 6, {"topics": [{"name": None, "topic_id": None}]}),
    (
        ApiKey.OFFSET_COMMIT,
        10,
        {"group_id": "g", "topics": [{"topic_id": None, "partitions": [{"partition_index": 0}]}]},
    ),
    (
        ApiKey.OFFSET_FETCH,
        10,
        {"groups": [{"group_id": "g", "topics": [{"topic_id": None, "partition_indexes": [0]}]}]},
    ),
    *(
        (ApiKey.FETCH, version, {"session_epoch": 0, "topics": [{"topic_id": None, "partitions": [{}]}]})
        for version in range(13, 19)
    ),
]


def _with_id(values: Any, topic_id: UUID) -> Any:
    if isinstance(values, dict):
        return {
            name: topic_id if name == "topic_id" else _with_id(value, topic_id)
            for name, value in values.items()
        }
    return [_with_id(value, topic_id) for value in values] if isinstance(values, list) else values


@pytest.mark.parametrize(("key", "version", "asked_by_id"), BY_ID)
async def test_a_neighbours_topic_id_is_nobodys(
    broker: FakeBroker, gateway: RunningGateway, key: int, version: int, asked_by_id: dict[str, Any]
) -> None:
    broker.topics = {NEIGHBOUR: 3}
    client = await gateway.client(A)
    answers = []
    for topic_id in (topic_id_of(NEIGHBOUR), UUID(int=0xAA)):
        client.send(build(request_class(key, version), _with_id(asked_by_id, topic_id)))
        answers.append((await client.frame())[4:].replace(topic_id.bytes, b"its id"))
    assert answers[0] == answers[1]
    assert b"its id" in answers[0]
    sent = [one for one in broker.received if topic_id_of(NEIGHBOUR).bytes in one.frame]
    assert {one.api_key for one in sent} == {int(ApiKey.METADATA)}


@pytest.mark.parametrize("version", range(13, 19))
async def test_a_neighbours_topic_id_never_comes_down(
    broker: FakeBroker, gateway: RunningGateway, version: int
) -> None:
    own_topic, theirs = topic_id_of(f"{A}.orders"), topic_id_of(NEIGHBOUR)
    broker.topics = {f"{A}.orders": 1, NEIGHBOUR: 3}
    told = [own_topic]

    def answer(one: Received) -> bytes:
        topics = [{"topic_id": each, "partitions": [{"records": b"r"}]} for each in told]
        known: dict[str, Any] = {"responses": topics}
        if version >= 16:
            known["node_endpoints"] = [{"node_id": 1, "host": "physical.internal", "port": 9092}]
        return framed_response(build(response_class(ApiKey.FETCH, version), known), one.correlation_id)

    broker.intercept(ApiKey.FETCH, answer)
    asked_for = [{"topic_id": own_topic, "partitions": [{"partition": 0}]}]
    request = build(request_class(ApiKey.FETCH, version), {"session_epoch": -1, "topics": asked_for})
    client = await gateway.client(A)
    client.send(request)
    reply = await client.frame()
    assert own_topic.bytes in reply and b"physical" not in reply
    told.append(theirs)
    client.send(request)
    assert await client.ended()
    assert gateway.closed(A) == {"upstream_malformed": 1}


async def test_a_session_goes_on_by_ids_of_its_own(broker: FakeBroker, gateway: RunningGateway) -> None:
    version = 17
    names = {f"{A}.{each}": 1 for each in ("orders", "payments")}
    broker.topics = {**names, NEIGHBOUR: 3}
    ids = [topic_id_of(each) for each in names]
    shape = response_class(ApiKey.FETCH, version)
    answer = build(shape, {"session_id": 77, "responses": []})
    broker.intercept(ApiKey.FETCH, lambda _received: answer)
    client = await gateway.client(A)

    async def fetch(epoch: int, wanted: list[UUID], forgotten: list[UUID]) -> Any:
        known = {
            "session_id": 77 if epoch else 0,
            "session_epoch": epoch,
            "topics": [{"topic_id": each, "partitions": [{"partition": 0}]} for each in wanted],
            "forgotten_topics_data": [{"topic_id": each, "partitions": [0]} for each in forgotten],
        }
        return await client.call(build(request_class(ApiKey.FETCH, version), known))

    await fetch(0, ids[:1], [])
    await fetch(1, ids[1:], [])
    await fetch(2, [], ids[:1])
    gone_up = [(one.request.session_id, one.request.session_epoch) for one in broker.of(ApiKey.FETCH)]
    assert gone_up == [(0, 0), (77, 1), (77, 2)]
    looked_up = [one for one in broker.received if one.api_key == ApiKey.METADATA]
    assert [sum(each.bytes in one.frame for one in looked_up) for each in ids] == [1, 1]
    refused = await fetch(3, [topic_id_of(NEIGHBOUR)], [])
    assert refused.error_code is ErrorCode.fetch_session_id_not_found
    assert len(broker.of(ApiKey.FETCH)) == 3

"""The whole table is walked with a neighbour's name in every name field, both ways; bytes are searched."""

import asyncio
import re
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from gateway.apis import APIS, SERVED
from tests.integration.gateway.filling import Filling, filled, has_bare_topic_ids, has_topic_ids
from tests.scenarios.fake_broker import FakeBroker, topic_id_of
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


def ids_in(message_of: Any, has_ids: Any = has_topic_ids) -> list[Any]:
    """Rows and versions whose messages name topics by their ids."""
    found = [(key, version) for key, version in SERVED if has_ids(message_of(key, version))]
    return [pytest.param(key, version, id=f"{ApiKey(key).name}-{version}") for key, version in found]


IDS_PASS = (ApiKey.CONSUMER_GROUP_HEARTBEAT,)
"""A broker gives ids of the names and patterns that the gateway scoped, and looks at a member's own
only where it has given them: `tests/e2e/test_isolation_walk.py`."""
BY_ID_FROM = 12
"""Metadata before has ids, but is not asked by them."""


@pytest.mark.parametrize(("key", "version"), ids_in(request_class))
async def test_a_neighbours_topic_id_is_nobodys(
    broker: FakeBroker, gateway: RunningGateway, key: int, version: int
) -> None:
    broker.topics = {NEIGHBOUR: 3}
    client = await gateway.client(A)
    answers = []
    for topic_id in (topic_id_of(NEIGHBOUR), UUID(int=0xAA)):
        asking = Filling(lambda _: "g", topic_id, by_id=True)
        client.send(filled(request_class(key, version), [asking], session_epoch=-1))
        answers.append((await client.frame())[4:].replace(topic_id.bytes, b"its id"))
    assert answers[0] == answers[1]
    sent = [one for one in broker.received if topic_id_of(NEIGHBOUR).bytes in one.frame]
    if key in IDS_PASS:
        return
    if key != ApiKey.METADATA or version >= BY_ID_FROM:
        assert b"its id" in answers[0]
    assert {one.api_key for one in sent} <= {int(ApiKey.METADATA)}


@pytest.mark.parametrize(("key", "version"), ids_in(response_class))
async def test_a_neighbours_topic_id_never_comes_down(
    broker: FakeBroker, gateway: RunningGateway, key: int, version: int
) -> None:
    await nothing_comes_down(broker, gateway, key, version, foreign)


@pytest.mark.parametrize(("key", "version"), ids_in(response_class, has_bare_topic_ids))
async def test_a_neighbours_topic_id_beside_own_names_never_comes_down(
    broker: FakeBroker, gateway: RunningGateway, key: int, version: int
) -> None:
    await nothing_comes_down(broker, gateway, key, version, own)


async def nothing_comes_down(
    broker: FakeBroker, gateway: RunningGateway, key: int, version: int, namer: Any
) -> None:
    """Beside an own topic's id, which does, a broker says a neighbour's, in an entry that `namer` names."""
    own_topic, theirs = topic_id_of(f"{A}.orders"), topic_id_of(NEIGHBOUR)
    broker.topics = {f"{A}.orders": 1, NEIGHBOUR: 3}
    told = [Filling(own, own_topic)]
    shape = response_class(key, version)
    broker.intercept(key, lambda one: framed_response(filled(shape, told), one.correlation_id))
    asking = Filling(lambda _: "orders", own_topic, by_id=True)
    request = filled(request_class(key, version), [asking], session_epoch=-1)
    if key == ApiKey.CREATE_TOPICS:  # something in every field is more than it takes
        wanted = {"name": "orders", "num_partitions": 1, "replication_factor": -1}
        request = build(request_class(key, version), {"topics": [wanted]})
    client = await gateway.client(A)
    client.send(request)
    reply = await client.frame()
    assert own_topic.bytes in reply and b"physical" not in reply
    told.append(Filling(namer, theirs))
    client.send(request)
    try:
        reply = await client.frame()
    except asyncio.IncompleteReadError:
        assert gateway.closed(A) == {"upstream_malformed": 1}
        return
    assert theirs.bytes not in reply or key in IDS_PASS


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

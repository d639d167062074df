"""`portico.client`, made of the API's document, against the API."""

import importlib.util
from collections.abc import AsyncIterator

import httpx
import pytest
from portico.client import AuthenticatedClient
from portico.client.api.instances import change_instance, create_instance, instance, instances
from portico.client.api.topics import create_topic
from portico.client.errors import UnexpectedStatus
from portico.client.models import (
    ConsoleState,
    InstanceChange,
    InstanceCreate,
    InstanceList,
    InstanceView,
    OperationView,
    Problem,
    TopicCreate,
)

from tenants.app import create_console_app
from tenants.console import Console
from tests.openapi import document

from .conftest import OPERATOR_KEY, ORDER


@pytest.fixture
async def api(plane: Console) -> AsyncIterator[AuthenticatedClient]:
    """A program's client with an operator's key."""
    transport = httpx.ASGITransport(app=create_console_app(plane))
    async with AuthenticatedClient(
        base_url="http://console", token=OPERATOR_KEY, httpx_args={"transport": transport}
    ) as made:
        yield made


async def test_what_is_answered_has_its_type(api: AuthenticatedClient) -> None:
    made = await create_instance.asyncio(client=api, body=InstanceCreate.from_dict(ORDER))
    assert isinstance(made, InstanceView)
    assert made.state is ConsoleState.CREATING and made.whitelist == ORDER["whitelist"]
    assert made.created_at.tzinfo is not None
    listed = await instances.asyncio(client=api)
    assert isinstance(listed, InstanceList) and [each.id for each in listed.items] == [made.id]
    waits = InstanceCreate.from_dict({**ORDER, "name": "later"})
    later = await create_instance.asyncio(client=api, body=waits, prefer="respond-async")
    assert isinstance(later, OperationView)


async def test_a_refusal_is_a_problem_that_names_fields(api: AuthenticatedClient) -> None:
    slow = InstanceCreate.from_dict({**ORDER, "produce_rate_bytes_per_s": 1})
    refused = await create_instance.asyncio(client=api, body=slow)
    assert isinstance(refused, Problem) and refused.status == 422 and isinstance(refused.errors, list)
    assert [fault.field for fault in refused.errors] == ["produce_rate_bytes_per_s"]
    absent = await create_topic.asyncio("nowhere", client=api, body=TopicCreate(name="orders", partitions=1))
    assert isinstance(absent, Problem) and absent.status == 404 and "nowhere" in absent.detail


async def test_a_wrong_key_is_told_apart(api: AuthenticatedClient, plane: Console) -> None:
    transport = httpx.ASGITransport(app=create_console_app(plane))
    stranger = AuthenticatedClient("http://console", token="wrong", httpx_args={"transport": transport})
    refused = await instances.asyncio_detailed(client=stranger)
    assert refused.status_code == 401 and isinstance(refused.parsed, Problem)


async def test_what_is_sent_again_is_done_once(api: AuthenticatedClient) -> None:
    order = InstanceCreate.from_dict(ORDER)
    first = await create_instance.asyncio_detailed(client=api, body=order, idempotency_key="order-1")
    again = await create_instance.asyncio_detailed(client=api, body=order, idempotency_key="order-1")
    assert isinstance(first.parsed, InstanceView) and first.parsed == again.parsed
    assert again.headers["Idempotency-Replayed"] == "true"


async def test_a_change_of_what_somebody_else_changed_is_refused(api: AuthenticatedClient) -> None:
    made = await create_instance.asyncio(client=api, body=InstanceCreate.from_dict(ORDER))
    assert isinstance(made, InstanceView)
    seen = await instance.asyncio_detailed(made.id, client=api)
    wish, etag = InstanceChange(capacity_bytes=2_000_000_000), seen.headers["ETag"]
    changed = await change_instance.asyncio(made.id, client=api, body=wish, if_match=etag)
    assert isinstance(changed, InstanceView) and changed.capacity_bytes == 2_000_000_000
    stale = await change_instance.asyncio(made.id, client=api, body=wish, if_match=etag)
    assert isinstance(stale, Problem) and stale.status == 412


async def test_what_a_proxy_answers_is_raised() -> None:
    proxy = httpx.MockTransport(lambda _: httpx.Response(502, text="<html>"))
    api = AuthenticatedClient(
        "http://console", token="k", raise_on_unexpected_status=True, httpx_args={"transport": proxy}
    )
    with pytest.raises(UnexpectedStatus):
        await instances.asyncio(client=api)


def test_every_operation_but_the_streams_is_there() -> None:
    told = {
        (operation["tags"][0], operation["operationId"]): list(operation["responses"]["200"]["content"])
        if "200" in operation["responses"] and "content" in operation["responses"]["200"]
        else []
        for methods in document()["paths"].values()
        for operation in methods.values()
    }
    found = {key for key in told if importlib.util.find_spec("portico.client.api." + ".".join(key))}
    assert {key for key in told if key not in found} == {
        key for key, kinds in told.items() if kinds == ["text/event-stream"]
    }
    assert len(found) > 60

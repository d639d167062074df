"""A key that sends too much is told so; its neighbours notice nothing."""

from collections.abc import AsyncIterator

import httpx
import pytest

from tenants.api.middleware import RATE_LIMITED
from tenants.app import create_console_app
from tenants.console import Console
from tenants.rules.rate_limit import ApiRates, Quota
from tenants.shared_limits import RequestRates

from .conftest import OPERATOR_KEY, Caller

_RATES = ApiRates(
    key=Quota("key", 5, 3_600), tenant=Quota("tenant", 8, 3_600), operator=Quota("key", 50, 3_600)
)


@pytest.fixture
async def operator(plane: Console) -> AsyncIterator[Caller]:
    plane.rates = RequestRates(plane.redis, _RATES)
    transport = httpx.ASGITransport(app=create_console_app(plane))
    async with httpx.AsyncClient(transport=transport, base_url="http://console") as made:
        yield Caller(made, OPERATOR_KEY)


async def test_a_key_over_its_rate_beside_a_second_tenant(operator: Caller) -> None:
    loud, other = await operator.tenant("loud"), await operator.tenant("other")
    refused_before = RATE_LIMITED.labels("key")._value.get()
    answers = [await loud("GET", "me") for _ in range(7)]
    assert [one.status_code for one in answers] == [200] * 5 + [429] * 2
    assert answers[0].headers["ratelimit-policy"] == '"key";q=5;w=3600, "tenant";q=8;w=3600'
    assert answers[0].headers["ratelimit"].startswith('"key";r=4;t=')
    last = answers[-1]
    assert last.headers["content-type"] == "application/problem+json"
    assert 600 < int(last.headers["retry-after"]) <= 721, "a fifth of an hour"
    assert last.json()["detail"] == "your key or login may send 5 requests in 3600 s: slow down"
    assert last.headers["ratelimit"].startswith('"key";r=0;t=')
    assert RATE_LIMITED.labels("key")._value.get() == refused_before + 2
    assert (await other("GET", "me")).headers["ratelimit"].startswith('"key";r=4;t=')


async def test_the_keys_of_a_tenant_share_a_rate(operator: Caller) -> None:
    await operator("POST", "tenants", json={"name": "many"})
    keys = [await operator.tenant("many", role) for role in ("owner", "viewer", "owner")]
    codes = [(await key("GET", "me")).status_code for key in keys for _ in range(4)]
    assert codes == [200] * 8 + [429] * 4
    assert "your tenant may send 8 requests" in (await keys[2]("GET", "me")).json()["detail"]
    other = await operator.tenant("other")
    assert (await other("GET", "me")).status_code == 200


async def test_writes_and_wrong_ones_count_too(operator: Caller) -> None:
    tenant = await operator.tenant("acme")
    codes = [(await tenant("POST", "instances", json={"nonsense": 1})).status_code for _ in range(6)]
    assert codes == [422] * 5 + [429]


async def test_strangers_have_no_bucket(operator: Caller, client: httpx.AsyncClient) -> None:
    answers = [await client.get("/v1/me", headers={"Authorization": "Bearer nobody"}) for _ in range(9)]
    assert {one.status_code for one in answers} == {401}
    assert "ratelimit" not in answers[0].headers

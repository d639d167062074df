"""Another tenant's instance looks exactly like one that does not exist, on every route that names one."""

import json
import re
from pathlib import Path

import httpx
import pytest

from tenants.rules.permissions import OPEN
from tests.unit.gateway.tokens import elliptic, key_set

from . import metered
from .conftest import ORDER, Caller
from .delta_tables import write

JWKS = json.loads(key_set(elliptic()))
_BODIES = {
    ("PATCH", "/v1/instances/{instance}"): {"capacity_bytes": 10**9},
    ("PUT", "/v1/instances/{instance}/whitelist"): {"cidrs": []},
    ("PATCH", "/v1/instances/{instance}/whitelist"): {"allow_all": True},
    ("PUT", "/v1/instances/{instance}/topics/{topic}/whitelist"): {"cidrs": []},
    ("PUT", "/v1/instances/{instance}/alarms/{kind}/rule"): {
        "threshold": 1,
        "window_minutes": 1,
        "raise_after": 1,
        "clear_after": 1,
    },
    ("PUT", "/v1/instances/{instance}/alarms/{kind}/silence"): {"until": "2100-01-01T00:00:00Z"},
    ("POST", "/v1/instances/{instance}/topics"): {"name": "orders"},
    ("PATCH", "/v1/instances/{instance}/topics/{topic}"): {"partitions": 2},
    ("POST", "/v1/instances/{instance}/topics/{topic}/delete-records"): {},
    ("PATCH", "/v1/instances/{instance}/users/{user}"): {"superuser": True},
    ("PUT", "/v1/instances/{instance}/oauth"): {"issuer": "i", "audience": "a", "jwks": JWKS},
    ("PUT", "/v1/instances/{instance}/schema-registry"): {"url": "https://registry.example.com"},
    ("PUT", "/v1/instances/{instance}/topics/{topic}/decoding"): {"masked_fields": ["email"]},
    ("PATCH", "/v1/instances/{instance}/acls"): {"enforced": True},
    ("POST", "/v1/absent-instances/{instance}/adopt"): {"tenant": "other"},
}
_OPERATORS = {
    "/v1/deleted-instances/{instance}/purge",
    "/v1/absent-instances/{instance}/adopt",
    "/v1/absent-instances/{instance}/discard",
    "/v1/instances/{instance}/move",
    "/v1/instances/{instance}/move/old-copy",
}
"""Forbidden to all others, whatever they name."""


async def _routes(client: httpx.AsyncClient) -> list[tuple[str, str]]:
    document = (await client.get("/v1/openapi.json")).json()
    return [
        (method.upper(), path)
        for path, operations in document["paths"].items()
        for method in operations
        if "{instance}" in path
    ]


def _filled(path: str, instance: str) -> str:
    named = path.replace("{instance}", instance).replace("{month}", metered.MONTH).replace("{kind}", "full")
    return re.sub(r"\{\w+\}", "x", named).removeprefix("/v1/")


def _said(answer: httpx.Response, name: str) -> str:
    """Without what was asked for and the request's own id."""
    return answer.text.replace(answer.headers["x-request-id"], "").replace(name, "?")


@pytest.mark.parametrize("by", ["id", "name"])
async def test_not_yours_is_not_there(
    client: httpx.AsyncClient, operator: Caller, tables: Path, by: str
) -> None:
    owner, stranger = await operator.tenant("acme"), await operator.tenant("other")
    made = await owner.order()
    theirs = str(made[by])
    write(tables, "bill", [metered.bill(str(made["id"]))], by="month")
    absent = {"id": "izzzzzzzzzzz", "name": "nowhere"}[by]
    routes = await _routes(client)
    assert len(routes) > 20
    for method, path in routes:
        body = _BODIES.get((method, path))
        if method in ("PUT", "PATCH"):
            assert body is not None, f"{method} {path} needs a body in this test"
        foreign = await stranger(method, _filled(path, theirs), json=body)
        missing = await stranger(method, _filled(path, absent), json=body)
        status = 403 if path in _OPERATORS else 404
        assert foreign.status_code == missing.status_code == status, f"{method} {path}: {foreign.text}"
        assert _said(foreign, theirs) == _said(missing, absent), path
        same_headers = {"content-length", "content-type", "cache-control"}
        assert {name for name in foreign.headers if name in same_headers} == same_headers
    unchanged = (await owner("GET", f"instances/{theirs}")).json()
    assert unchanged["revision"] == (await owner("GET", "instances")).json()["items"][0]["revision"]
    assert unchanged["state"] == "creating"


async def test_listings_show_only_ones_own(operator: Caller, tables: Path) -> None:
    owner, stranger = await operator.tenant("acme"), await operator.tenant("other")
    theirs = await owner.order("secret-project")
    gone = await owner.order("secret-project-of-before")
    await owner("DELETE", f"instances/{gone['id']}")
    write(tables, "bill", [metered.bill(str(theirs["id"]))], by="month")
    for path in ("instances", "deleted-instances", "keys", "me", "bills", f"bills?month={metered.MONTH}"):
        text = json.dumps((await stranger("GET", path)).json())
        assert str(theirs["id"]) not in text
        assert "secret-project" not in text
        assert "acme" not in text


async def test_a_foreign_key_cannot_be_revoked(operator: Caller) -> None:
    owner, stranger = await operator.tenant("acme"), await operator.tenant("other")
    [key] = (await owner("GET", "keys")).json()["items"]
    foreign = await stranger("DELETE", f"keys/{key['id']}")
    missing = await stranger("DELETE", "keys/k000")
    assert foreign.status_code == missing.status_code == 404
    assert _said(foreign, key["id"]) == _said(missing, "k000")
    assert (await owner("GET", "me")).status_code == 200
    tenant_key = await operator.tenant("default")
    assert (await tenant_key("DELETE", "keys/local")).status_code == 404


async def test_equal_names_never_meet(operator: Caller) -> None:
    one, two = await operator.tenant("one"), await operator.tenant("two")
    first, second = await one.order(), await two.order()
    await one("PUT", "instances/shop/whitelist", json={"allow_all": True})
    assert (await two("GET", "instances/shop/whitelist")).json()["allow_all"] is False
    await two("DELETE", "instances/shop")
    assert (await one("GET", "instances/shop")).json()["id"] == first["id"]
    assert first["bootstrap_servers"] != second["bootstrap_servers"]
    assert (await one("POST", "instances?tenant=two", json=ORDER)).status_code == 403


async def test_without_credentials_nothing_is_told(client: httpx.AsyncClient) -> None:
    document = (await client.get("/v1/openapi.json")).json()
    open_routes = {tuple(one.split(" ")) for one in OPEN}
    for path, operations in document["paths"].items():
        for method in operations:
            if (method.upper(), path) not in open_routes:
                answer = await client.request(method.upper(), _url(path))
                assert answer.status_code == 401, f"{method} {path}"


def _url(path: str) -> str:
    return re.sub(r"\{\w+\}", "x", path)

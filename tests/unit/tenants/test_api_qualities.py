"""Request ids, ETags, compression: what every answer of the API has."""

import asyncio
import gzip
import json
from typing import Any

import httpx
import pytest

from tenants.app import create_console_app
from tenants.console import Console

from .conftest import OPERATOR_KEY, Caller

KEY = {"Authorization": f"Bearer {OPERATOR_KEY}"}


async def test_a_request_keeps_the_id_that_it_came_with(client: httpx.AsyncClient) -> None:
    mine = await client.get("/v1/health", headers={"X-Request-Id": "trace-7.a:b_c"})
    assert mine.headers["x-request-id"] == "trace-7.a:b_c"
    refused = await client.get("/v1/me", headers={"X-Request-Id": "abc"})
    assert refused.status_code == 401
    assert refused.headers["x-request-id"] == refused.json()["request_id"] == "abc"


@pytest.mark.parametrize("wrong", ["a b", "x" * 65, "<script>", 'a"b', "\u00e9"])
async def test_an_id_that_is_none_is_not_repeated(client: httpx.AsyncClient, wrong: str) -> None:
    answer = await client.get("/v1/me", headers={"X-Request-Id": wrong.encode()})
    assert answer.headers["x-request-id"] == answer.json()["request_id"]
    assert len(answer.headers["x-request-id"]) == 16
    again = await client.get("/v1/me", headers={"X-Request-Id": wrong.encode()})
    assert again.headers["x-request-id"] != answer.headers["x-request-id"]


async def test_what_fails_here_is_found_in_the_log_by_its_id(
    plane: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(plane.accounts, "tenants", broken)
    transport = httpx.ASGITransport(app=create_console_app(plane), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://c") as client:
        answer = await client.get("/v1/tenants", headers={**KEY, "X-Request-Id": "find-me"})
    assert answer.status_code == 500
    assert answer.headers["x-request-id"] == answer.json()["request_id"] == "find-me"


async def test_two_at_once_have_their_own_ids(client: httpx.AsyncClient) -> None:
    answers = await asyncio.gather(
        *(client.get("/v1/me", headers={"X-Request-Id": f"id-{number}"}) for number in range(20))
    )
    assert [one.json()["request_id"] for one in answers] == [f"id-{number}" for number in range(20)]


# --- ETag and If-Match --------------------------------------------------------------------------------


async def _if(
    operator: Caller, client: httpx.AsyncClient, tag: str, method: str, path: str, **more: Any
) -> Any:
    return await client.request(method, f"/v1/{path}", headers={**KEY, "If-Match": tag}, **more)


async def test_nobody_undoes_what_he_has_not_seen(operator: Caller, client: httpx.AsyncClient) -> None:
    made = await operator.order()
    path = f"instances/{made['id']}"
    first = (await operator("GET", path)).headers["etag"]
    changed = await _if(operator, client, first, "PATCH", path, json={"capacity_bytes": 2_000_000_000})
    assert changed.status_code == 200
    second = changed.headers["etag"]
    assert second != first
    for method, target, body in (
        ("PATCH", path, {"capacity_bytes": 3_000_000_000}),
        ("PUT", f"{path}/whitelist", {"cidrs": ["10.1.0.0/16"]}),
        ("PATCH", f"{path}/whitelist", {"add": ["10.2.0.0/16"]}),
        ("PUT", f"{path}/topics/t/whitelist", {"cidrs": []}),
        ("DELETE", f"{path}/topics/t/whitelist", None),
        ("POST", f"{path}/suspend", None),
        ("DELETE", path, None),
    ):
        stale = await _if(operator, client, first, method, target, json=body)
        assert stale.status_code == 412, (method, target)
        assert stale.json()["type"] == "urn:portico:problem:precondition-failed"
    now = await operator("GET", path)
    assert now.headers["etag"] == second
    assert now.json()["capacity_bytes"] == 2_000_000_000
    listed = await _if(operator, client, second, "PUT", f"{path}/whitelist", json={"cidrs": ["10.1.0.0/16"]})
    assert listed.status_code == 200
    assert listed.headers["etag"] == (await operator("GET", f"{path}/whitelist")).headers["etag"] != second
    any_state = await _if(operator, client, "*", "POST", f"{path}/suspend")
    assert any_state.status_code == 200


@pytest.mark.parametrize("tag", ["", "r1", 'W/"r1"', '"r-1"', '"r' + "9" * 30 + '"', '"r1", "r2"'])
async def test_what_is_not_a_tag_matches_nothing(
    operator: Caller, client: httpx.AsyncClient, tag: str
) -> None:
    made = await operator.order()
    answer = await _if(operator, client, tag, "DELETE", f"instances/{made['id']}")
    assert answer.status_code == 412
    assert (await operator("GET", f"instances/{made['id']}")).status_code == 200


async def test_of_many_at_once_one_wins(operator: Caller, client: httpx.AsyncClient) -> None:
    made = await operator.order()
    path = f"instances/{made['id']}"
    tag = (await operator("GET", path)).headers["etag"]
    answers = await asyncio.gather(
        *(
            _if(operator, client, tag, "PATCH", path, json={"capacity_bytes": 2_000_000_000 + number})
            for number in range(8)
        )
    )
    assert sorted(one.status_code for one in answers) == [200] + [412] * 7


async def test_a_strangers_tag_says_nothing_of_what_is_there(
    operator: Caller, client: httpx.AsyncClient
) -> None:
    made = await operator.order()
    other = await operator.tenant("other")
    answer = await other("PATCH", f"instances/{made['id']}", json={"name": "mine"})
    assert answer.status_code == 404 and "etag" not in answer.headers


# --- compression --------------------------------------------------------------------------------------


async def test_large_answers_are_compressed_for_who_takes_that(client: httpx.AsyncClient) -> None:
    plain = await client.get("/v1/openapi.json", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    async with client.stream("GET", "/v1/openapi.json", headers={"Accept-Encoding": "gzip"}) as answer:
        raw = b"".join([chunk async for chunk in answer.aiter_raw()])
        assert answer.headers["content-encoding"] == "gzip"
        assert "accept-encoding" in answer.headers["vary"].lower()
    assert json.loads(gzip.decompress(raw)) == plain.json()
    assert len(raw) * 4 < len(plain.content)


async def test_a_secret_is_in_no_compressed_answer(operator: Caller) -> None:
    made = await operator("POST", "keys", json={"name": "k"})
    assert made.status_code == 201 and "content-encoding" not in made.headers


async def test_ceilings_are_not_set_over_what_was_not_seen(
    operator: Caller, client: httpx.AsyncClient
) -> None:
    await operator.tenant("acme")
    path = "tenants/acme/ceilings"
    first = (await operator("GET", path)).headers["etag"]
    changed = await _if(operator, client, first, "PATCH", path, json={"instances": 3})
    assert changed.status_code == 200 and changed.headers["etag"] != first
    stale = await _if(operator, client, first, "PATCH", path, json={"instances": 9})
    assert stale.status_code == 412
    now = await operator("GET", path)
    assert now.json()["ceilings"]["instances"] == 3 and now.headers["etag"] == changed.headers["etag"]
    cluster = await operator("PATCH", "clusters/builtin-1/ceilings", json={"instances": 30})
    again = ("PATCH", "clusters/builtin-1/ceilings")
    seen = cluster.headers["etag"]
    assert (await _if(operator, client, seen, *again, json={"instances": 40})).status_code == 200
    assert (await _if(operator, client, seen, *again, json={"instances": 50})).status_code == 412


# --- If-None-Match ------------------------------------------------------------------------------------


async def test_what_the_caller_has_is_not_sent_again(operator: Caller, client: httpx.AsyncClient) -> None:
    made = await operator.order()
    path = f"/v1/instances/{made['id']}"
    tag = (await client.get(path, headers=KEY)).headers["etag"]
    for asked in (tag, f'"other", W/{tag}', "*"):
        same = await client.get(path, headers={**KEY, "If-None-Match": asked})
        assert (same.status_code, same.content) == (304, b"")
        assert same.headers["etag"] == tag and "content-length" not in same.headers
    await operator("PATCH", f"instances/{made['id']}", json={"capacity_bytes": 2_000_000_000})
    other = await client.get(path, headers={**KEY, "If-None-Match": tag})
    assert other.status_code == 200 and other.json()["capacity_bytes"] == 2_000_000_000
    absent = await client.get("/v1/instances/absent", headers={**KEY, "If-None-Match": "*"})
    assert absent.status_code == 404
    untagged = await client.get("/v1/me", headers={**KEY, "If-None-Match": "*"})
    assert untagged.status_code == 200

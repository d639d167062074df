"""Instances over REST."""

import asyncio
import json
from collections.abc import AsyncIterator

import httpx
import pytest

from tenants.rules.vports import Endpoint

from .conftest import OPERATOR_KEY, ORDER, Caller, MasterServer


async def test_a_new_instance(operator: Caller) -> None:
    answer = await operator("POST", "instances", json={**ORDER, "limits": {"partitions_max": 7}})
    assert answer.status_code == 201
    made = answer.json()
    assert answer.headers["location"] == f"/v1/instances/{made['id']}"
    assert made["state"] == "creating"
    assert made["bootstrap_servers"] == "127.0.0.1:21000"
    assert made["limits"]["partitions_max"] == 7
    assert made["limits"]["connections_max"] == 5000
    assert (made["allow_all"], made["whitelist"]) == (False, ["10.0.0.0/8"])
    assert made["created_at"].endswith("Z")
    assert (await operator("GET", f"instances/{made['id']}")).json() == made
    assert (await operator("GET", "instances/shop")).json() == made


async def test_every_fault_is_told_at_once(operator: Caller) -> None:
    body = {
        "name": "iabcdefghijk",
        "produce_rate_bytes_per_s": 99_999,
        "consume_rate_bytes_per_s": 100_000,
        "capacity_bytes": 1,
        "whitelist": ["10.0.0.0/8", "nonsense"],
        "limits": {"message_bytes_max": 12_000_001, "retention_ms_max": 30 * 24 * 3600 * 1000 + 1},
    }
    answer = await operator("POST", "instances", json=body)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert {one["field"] for one in answer.json()["errors"]} == {
        "name",
        "produce_rate_bytes_per_s",
        "capacity_bytes",
        "whitelist.1",
        "limits.message_bytes_max",
        "limits.retention_ms_max",
    }


async def test_who_may_connect_must_be_said(operator: Caller) -> None:
    body = {name: value for name, value in ORDER.items() if name != "whitelist"}
    answer = await operator("POST", "instances", json={**body, "allow_all": False})
    assert answer.status_code == 422
    answer = await operator("POST", "instances", json=body)
    assert answer.status_code == 422
    assert "--whitelist" in answer.json()["detail"]
    assert "--allow-all" in answer.json()["detail"]
    assert (await operator("POST", "instances", json={**body, "whitelist": []})).status_code == 201


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({**ORDER, "surprise": 1}, "surprise"),
        ({**ORDER, "limits": {"surprise": 1}}, "limits.surprise"),
        ({**ORDER, "capacity_bytes": "10GB"}, "capacity_bytes"),
        ({**ORDER, "capacity_bytes": 1.5}, "capacity_bytes"),
        ({**ORDER, "capacity_bytes": 2**63}, "capacity_bytes"),
        ({**ORDER, "allow_all": "yes"}, "allow_all"),
        ({**ORDER, "name": None}, "name"),
        ({**ORDER, "full_behaviour": "explode"}, "full_behaviour"),
        ({**ORDER, "whitelist": "10.0.0.0/8"}, "whitelist"),
        ([], ""),
    ],
)
async def test_malformed_orders_name_the_field(operator: Caller, body: object, field: str) -> None:
    answer = await operator("POST", "instances", json=body)
    assert answer.status_code == 422
    assert [one["field"] for one in answer.json()["errors"]] == [field]


async def test_a_body_that_is_not_json(operator: Caller, client: httpx.AsyncClient) -> None:
    for malformed in (b"{", b"", b"\xff\xfe", b"[" * 100_000):
        sent = {"Content-Type": "application/json", "Authorization": f"Bearer {OPERATOR_KEY}"}
        answer = await client.post("/v1/instances", content=malformed, headers=sent)
        assert answer.status_code == (400 if malformed else 422), answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["request_id"] == answer.headers["x-request-id"]
    form = {"Content-Type": "application/x-www-form-urlencoded", "Authorization": f"Bearer {OPERATOR_KEY}"}
    answer = await client.post("/v1/instances", content=json.dumps(ORDER), headers=form)
    assert (answer.status_code, answer.headers["accept"]) == (415, "application/json")
    assert "Content-Type: application/json" in answer.json()["detail"]

    async def unannounced() -> AsyncIterator[bytes]:
        for _ in range(30):
            yield b"[" * 100_000

    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {OPERATOR_KEY}"}
    for content in (b"[" * 2_000_000, unannounced()):
        huge = await client.post("/v1/instances", content=content, headers=headers)
        assert huge.status_code == 413
        assert huge.headers["content-type"] == "application/problem+json"


async def test_names_are_unique_within_a_tenant(operator: Caller) -> None:
    owner = await operator.tenant("acme")
    await operator.order()
    await owner.order()
    answer = await owner("POST", "instances", json=ORDER)
    assert answer.status_code == 409
    other = await owner.order("other")
    assert (await owner("PATCH", f"instances/{other['id']}", json={"name": "shop"})).status_code == 409
    assert (await owner("PATCH", "instances/other", json={"name": "third"})).json()["name"] == "third"


async def test_resize_up_and_down(operator: Caller, master: MasterServer) -> None:
    made = await operator.order()
    master.knows(str(made["id"]), stored_bytes=500_000_000)
    path = "instances/shop"
    grown = await operator(
        "PATCH", path, json={"capacity_bytes": 2 * 10**9, "produce_rate_bytes_per_s": 10**7}
    )
    assert (grown.json()["capacity_bytes"], grown.json()["produce_rate_bytes_per_s"]) == (2 * 10**9, 10**7)
    assert grown.json()["revision"] > int(str(made["revision"]))
    assert (await operator("PATCH", path, json={"capacity_bytes": 500_000_000})).status_code == 200
    refused = await operator("PATCH", path, json={"capacity_bytes": 499_999_999})
    assert refused.status_code == 409
    assert "a little more than 500 MB is stored" in refused.json()["detail"]
    assert (await operator("PATCH", path, json={"produce_rate_bytes_per_s": 1})).status_code == 422


async def test_a_change_of_nothing_is_no_revision(operator: Caller) -> None:
    made = await operator.order()
    same = await operator("PATCH", "instances/shop", json={"capacity_bytes": made["capacity_bytes"]})
    assert same.json()["revision"] == made["revision"]
    assert (await operator("PATCH", "instances/shop", json={})).json()["revision"] == made["revision"]


async def test_stored_bytes_are_the_masters_and_null_without_it(
    operator: Caller, master: MasterServer
) -> None:
    made = await operator.order()
    assert (made["stored_bytes"], made["blocked"], made["partitions"]) == (None, None, None)
    master.knows(str(made["id"]), stored_bytes=77, blocked=True)
    asked = master.questions
    for _ in range(100):
        view = (await operator("GET", "instances/shop")).json()
        if view["stored_bytes"] is not None:
            break
        await asyncio.sleep(0.05)
    assert (view["stored_bytes"], view["blocked"], view["partitions"]) == (77, True, 0)
    assert master.questions - asked < 10, "one question serves a second's readers"


async def test_pages(operator: Caller) -> None:
    for number in range(5):
        await operator.order(f"n{number}")
    seen, cursor = [], ""
    while cursor is not None:
        page = (await operator("GET", f"instances?limit=2{cursor}")).json()
        seen += [one["name"] for one in page["items"]]
        cursor = page["next_cursor"] and f"&cursor={page['next_cursor']}"
    assert seen == ["n0", "n1", "n2", "n3", "n4"]


async def test_a_search_is_for_a_part_of_a_name_an_id_or_a_tenant(operator: Caller) -> None:
    made = [await operator.order(name) for name in ("shop-eu", "Shop-us", "ship_1", "shipx1")]

    async def found(search: str) -> list[str]:
        answer = await operator("GET", "instances", params={"tenant": "*", "search": search})
        assert answer.status_code == 200
        return [one["name"] for one in answer.json()["items"]]

    assert await found("SHOP") == ["Shop-us", "shop-eu"]
    assert await found("p_1") == ["ship_1"], "no letter of a search stands for another"
    assert await found("%") == []
    assert await found("' or 1=1 --") == []
    assert await found(made[3]["id"][2:]) == ["shipx1"]
    assert len(await found("default")) == 4
    answer = await operator("GET", "instances", params={"tenant": "*", "search": "sh", "limit": 3})
    more = {"tenant": "*", "search": "sh", "cursor": answer.json()["next_cursor"]}
    rest = await operator("GET", "instances", params=more)
    assert len(answer.json()["items"]) + len(rest.json()["items"]) == 4
    assert (await operator("GET", "instances?search=%00")).status_code == 422


async def test_a_search_finds_nothing_of_another_tenant(operator: Caller) -> None:
    await operator.order("shop")
    acme = await operator.tenant("acme")
    await acme.order("their-shop")
    mine = await operator("GET", "instances", params={"tenant": "acme", "search": "shop"})
    assert [one["name"] for one in mine.json()["items"]] == ["their-shop"]
    for search in ("shop", "default", "%", "_", "\\", "店", "i-"):
        answer = await acme("GET", "instances", params={"search": search})
        assert all(one["tenant"] == "acme" for one in answer.json()["items"])


@pytest.mark.parametrize("place", ["", "/{id}/topics", "/{id}/groups"])
@pytest.mark.parametrize("search", ["%00", "a%00b", "x" * 101, "x" * 10_000])
async def test_a_search_that_nothing_can_be_called_is_refused(
    operator: Caller, place: str, search: str
) -> None:
    made = await operator.order("shop")
    answer = await operator("GET", f"instances{place.format(id=made['id'])}?search={search}")
    assert answer.status_code == 422


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "limit=x", "cursor=!", "cursor="])
async def test_bad_pages(operator: Caller, query: str) -> None:
    assert (await operator("GET", f"instances?{query}")).status_code == 422


@pytest.mark.parametrize("cursor", ["e30", "WzFd", "W", "WzFd" + "A" * 4_000, "W1tb"])
async def test_a_cursor_that_no_page_has_told_does_not_fit(operator: Caller, cursor: str) -> None:
    answer = await operator("GET", f"instances?cursor={cursor}")
    assert (answer.status_code, answer.json()["type"]) == (409, "urn:portico:problem:does-not-fit")
    assert [one["field"] for one in answer.json()["errors"]] == ["cursor"]


async def test_no_free_port_is_said(operator: Caller, taken: set[Endpoint]) -> None:
    taken.update(Endpoint("127.0.0.1", port) for port in range(21000, 21020))
    answer = await operator("POST", "instances", json=ORDER)
    assert answer.status_code == 409
    assert "--vports" in answer.json()["detail"]
    assert (await operator("GET", "instances")).json()["items"] == []


async def test_the_system_instance_can_be_seen_by_operators_and_not_be_changed(operator: Caller) -> None:
    [system] = (await operator("GET", "instances?tenant=system")).json()["items"]
    assert system["id"] == "i00000000000"
    for method, path in (("DELETE", ""), ("POST", "/suspend")):
        assert (await operator(method, f"instances/{system['id']}{path}")).status_code == 409
    assert (await operator("POST", "instances?tenant=system", json=ORDER)).status_code == 409


async def test_whitelist(operator: Caller) -> None:
    await operator.order()
    path = "instances/shop/whitelist"
    assert (await operator("GET", path)).json() == {"allow_all": False, "cidrs": ["10.0.0.0/8"]}
    changed = await operator("PATCH", path, json={"add": ["::1", "::ffff:9.9.9.9"], "remove": ["10.1.2.3/8"]})
    assert changed.json() == {"allow_all": False, "cidrs": ["::1/128", "9.9.9.9/32"]}
    missing = await operator("PATCH", path, json={"remove": ["8.8.8.8"]})
    assert missing.status_code == 409
    assert "8.8.8.8/32 is not in the whitelist" in missing.json()["detail"]
    assert (await operator("PATCH", path, json={"allow_all": True})).json()["allow_all"] is True
    assert (await operator("PUT", path, json={"cidrs": []})).json() == {"allow_all": False, "cidrs": []}
    assert (await operator("PUT", path, json={"cidrs": ["x"] * 513})).status_code == 422
    full = [f"10.0.{n // 256}.{n % 256}" for n in range(512)]
    assert (await operator("PUT", path, json={"cidrs": full})).status_code == 200
    assert (await operator("PATCH", path, json={"add": ["8.8.8.8"]})).status_code == 409


async def test_topic_whitelist(operator: Caller) -> None:
    await operator.order()
    path = "instances/shop/topics/orders/whitelist"
    assert (await operator("GET", path)).json() == {"topic": "orders", "inherits": True, "cidrs": []}
    put = await operator("PUT", path, json={"cidrs": ["1.2.3.4"]})
    assert put.json() == {"topic": "orders", "inherits": False, "cidrs": ["1.2.3.4/32"]}
    nobody = await operator("PUT", path, json={"cidrs": []})
    assert nobody.json() == {"topic": "orders", "inherits": False, "cidrs": []}
    assert (await operator("DELETE", path)).json()["inherits"] is True
    bad = await operator("PUT", "instances/shop/topics/not%20a%20topic/whitelist", json={"cidrs": []})
    assert bad.status_code == 404


async def test_without_brokers_topics_say_what_to_do(operator: Caller) -> None:
    await operator.order()
    answer = await operator("GET", "instances/shop/topics")
    assert answer.status_code == 503
    assert "Try again" in answer.json()["detail"]
    assert answer.headers["retry-after"] == "2"
    bad = await operator("POST", "instances/shop/topics", json={"name": "a b", "configs": {"x": "1"}})
    assert [one["field"] for one in bad.json()["errors"]] == ["name", "configs.x"]


async def test_what_is_not_there(operator: Caller, client: httpx.AsyncClient) -> None:
    for answer in (await operator("GET", "nothing"), await operator("PUT", "instances", json={})):
        assert answer.headers["content-type"] == "application/problem+json"
    assert (await operator("GET", "nothing")).status_code == 404
    assert (await operator("PUT", "instances", json={})).status_code == 405
    page = await client.get("/")
    assert page.status_code == 200


async def test_health_tells_strangers_only_its_status(client: httpx.AsyncClient, operator: Caller) -> None:
    stranger = (await client.get("/v1/health")).json()
    assert stranger.pop("status") == "degraded"
    assert set(stranger.values()) == {None}
    told = (await operator("GET", "health")).json()
    assert (told["brokers_live"], told["gateways"], told["quota_master"]) == (0, [], True)


async def test_the_api_document_is_complete(client: httpx.AsyncClient) -> None:
    document = (await client.get("/v1/openapi.json")).json()
    references = {
        part.split('"')[0] for part in str(document).replace("'", '"').split("#/components/schemas/")[1:]
    }
    assert references <= document["components"]["schemas"].keys()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert operation["summary"]
            assert operation["description"], f"{method} {path}"
            assert "application/problem+json" in operation["responses"]["422"]["content"]
            if "{" in path:
                assert "404" in operation["responses"]


async def test_request_time_goes_with_the_rates_until_another_figure_is_set(operator: Caller) -> None:
    rates = {"produce_rate_bytes_per_s": 10_000_000, "consume_rate_bytes_per_s": 10_000_000}
    made = (await operator("POST", "instances", json={**ORDER, **rates})).json()
    assert (made["request_percent"], made["request_percent_derived"]) == (96, True)
    path = f"instances/{made['id']}"
    grown = (await operator("PATCH", path, json={"produce_rate_bytes_per_s": 30_000_000})).json()
    assert (grown["request_percent"], grown["request_percent_derived"]) == (192, True)
    fixed = (await operator("PATCH", path, json={"request_percent": 75})).json()
    assert (fixed["request_percent"], fixed["request_percent_derived"]) == (75, False)
    renamed = (await operator("PATCH", path, json={"name": "other"})).json()
    assert renamed["request_percent"] == 75, "left out: as it is"
    again = (await operator("PATCH", path, json={"request_percent": 0})).json()
    assert (again["request_percent"], again["request_percent_derived"]) == (192, True)
    ordered = (await operator("POST", "instances", json={**ORDER, "name": "b", "request_percent": 5})).json()
    assert (ordered["request_percent"], ordered["request_percent_derived"]) == (5, False)


async def test_more_request_time_than_goes_with_the_rates_is_the_operators_to_give(operator: Caller) -> None:
    owner = await operator.tenant("acme")
    rates = {"produce_rate_bytes_per_s": 10_000_000, "consume_rate_bytes_per_s": 10_000_000}
    refused = await owner("POST", "instances", json={**ORDER, **rates, "request_percent": 97})
    assert refused.status_code == 409
    assert [one["field"] for one in refused.json()["errors"]] == ["request_percent"]
    made = (await owner("POST", "instances", json={**ORDER, **rates, "request_percent": 96})).json()
    path = f"instances/{made['id']}"
    assert (await owner("PATCH", path, json={"request_percent": 100_000})).status_code == 409
    given = await operator("PATCH", path, json={"request_percent": 100_000})
    assert given.json()["request_percent"] == 100_000
    assert (await owner("PATCH", path, json={"name": "mine"})).json()["request_percent"] == 100_000


@pytest.mark.parametrize("percent", [4, 100_001, -1, 1.5, "50"])
async def test_request_time_out_of_bounds_is_refused(operator: Caller, percent: object) -> None:
    answer = await operator("POST", "instances", json={**ORDER, "request_percent": percent})
    assert answer.status_code == 422
    assert [one["field"] for one in answer.json()["errors"]] == ["request_percent"]

"""What has become of an operation, for every state of its instance; and what the API tells of it."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import httpx
import pytest

from contracts.specs import ConsumerKind, FeedRequest
from runtime.internal_http import InternalClient
from tenants.console import Console
from tenants.rules.acknowledgement import SILENT_AFTER_MS, Consumer
from tenants.rules.lifecycle import State
from tenants.rules.model import Instance
from tenants.rules.operations import Followed, Operation, Verdict, followed, judge
from tenants.store import operations as rows

from .conftest import OPERATOR_KEY, ORDER, Caller

INSTANCE = Instance(
    id="iabcdefghijk",
    tenant="acme",
    name="shop",
    state=State.RUNNING,
    cluster_id="c",
    produce_rate_bytes_per_s=1,
    consume_rate_bytes_per_s=1,
    capacity_bytes=1,
    created_at_ms=0,
    updated_at_ms=0,
)
ALL, SOME, NOBODY = Followed(3, 3, 1), Followed(2, 3, 1), Followed(0, 0, 0)


def verdict(kind: str, state: State, reached: Followed) -> Verdict:
    operation = Operation("op1", "acme", kind, INSTANCE.id, 7, 0)
    return judge(operation, replace(INSTANCE, state=state, state_reason="why"), reached)


@pytest.mark.parametrize(
    "kind", ["instance.create", "instance.resume", "instance.undelete", "instance.adopt"]
)
def test_what_shall_serve_is_over_when_it_runs(kind: str) -> None:
    assert verdict(kind, State.CREATING, ALL) == Verdict(False)
    assert verdict(kind, State.RUNNING, NOBODY) == Verdict(True)
    assert verdict(kind, State.FAILED, ALL) == Verdict(True, "why")
    for gone in (State.DELETED, State.PURGING, State.PURGED):
        assert verdict(kind, gone, ALL).error == "the instance was deleted meanwhile"


def test_what_was_undeleted_suspended_is_over_when_all_know() -> None:
    assert verdict("instance.undelete", State.SUSPENDED, SOME) == Verdict(False)
    assert verdict("instance.undelete", State.SUSPENDED, ALL) == Verdict(True)


@pytest.mark.parametrize("kind", ["instance.change", "instance.suspend"])
def test_a_change_is_over_when_gateways_and_brokers_follow(kind: str) -> None:
    assert verdict(kind, State.RUNNING, SOME) == Verdict(False)
    assert verdict(kind, State.RUNNING, NOBODY) == Verdict(False)
    assert verdict(kind, State.RUNNING, Followed(2, 2, 0)) == Verdict(False)
    assert verdict(kind, State.RUNNING, ALL) == Verdict(True)


def test_a_deletion_is_over_when_nobody_serves_it_and_a_purge_when_nothing_is_left() -> None:
    assert verdict("instance.delete", State.DELETED, SOME) == Verdict(False)
    assert verdict("instance.delete", State.DELETED, ALL) == Verdict(True)
    assert verdict("instance.purge", State.PURGING, ALL) == Verdict(False)
    assert verdict("instance.purge", State.PURGED, NOBODY) == Verdict(True)


def test_who_is_silent_is_not_waited_for() -> None:
    seen = [
        Consumer(ConsumerKind.GATEWAY, applied_revision=7, seen_ms=100_000),
        Consumer(ConsumerKind.BROKER, applied_revision=6, seen_ms=100_000),
        Consumer(ConsumerKind.BROKER, applied_revision=6, seen_ms=100_000 - SILENT_AFTER_MS - 1),
        Consumer(ConsumerKind.MASTER, applied_revision=1, seen_ms=100_000),
    ]
    assert followed(7, seen, 100_000) == Followed(done=1, total=2, gateways=1)


# --- the API ------------------------------------------------------------------------------------------


async def begin(client: httpx.AsyncClient, method: str, path: str, body: Any = None) -> httpx.Response:
    headers = {"Authorization": f"Bearer {OPERATOR_KEY}", "Prefer": "respond-async"}
    return await client.request(method, f"/v1/{path}", json=body, headers=headers)


@pytest.fixture
def gateway_follows(internal: InternalClient, plane: Console) -> Callable[[], Awaitable[None]]:
    """A gateway that has applied what there is now."""

    async def follow() -> None:
        request = FeedRequest(
            consumer="gw", kind=ConsumerKind.GATEWAY, feed_id="", applied_revision=0, wait_ms=0
        )
        first = await plane.feed.poll(request)
        applied = FeedRequest(
            consumer="gw",
            kind=ConsumerKind.GATEWAY,
            feed_id=first.feed_id,
            applied_revision=first.revision,
            mark=first.mark,
            wait_ms=0,
        )
        await plane.feed.poll(applied)

    return follow


async def until_ended(operator: Caller, place: str) -> dict[str, Any]:
    for _ in range(200):
        told = await operator("GET", place.removeprefix("/v1/"))
        assert told.status_code == 200
        found: dict[str, Any] = told.json()
        if found["state"] != "running":
            assert "retry-after" not in told.headers
            return found
        assert told.headers["retry-after"] == "1"
        await asyncio.sleep(0.05)
    raise AssertionError(f"it runs on: {found}")


async def test_an_order_is_an_operation_until_gateways_serve_it(
    client: httpx.AsyncClient, operator: Caller, gateway_follows: Callable[[], Awaitable[None]]
) -> None:
    answer = await begin(client, "POST", "instances", ORDER)
    assert answer.status_code == 202 and answer.headers["preference-applied"] == "respond-async"
    begun = answer.json()
    assert answer.headers["location"] == begun["links"]["self"] == f"/v1/operations/{begun['id']}"
    assert begun["state"] == "running" and begun["ended_at"] is None
    assert begun["progress"] == {"done": 0, "total": 0}
    await gateway_follows()
    ended = await until_ended(operator, answer.headers["location"])
    assert ended["state"] == "succeeded" and ended["ended_at"] >= ended["started_at"]
    assert (await operator("GET", ended["links"]["instance"].removeprefix("/v1/"))).json()[
        "state"
    ] == "running"


async def test_changes_without_the_preference_are_answered_as_ever(operator: Caller) -> None:
    made = await operator("POST", "instances", json=ORDER)
    assert made.status_code == 201 and made.headers["operation-location"].startswith("/v1/operations/")
    path = f"instances/{made.json()['id']}"
    resized = await operator("PATCH", path, json={"capacity_bytes": 2_000_000_000})
    assert resized.status_code == 200 and resized.json()["capacity_bytes"] == 2_000_000_000
    same = await operator("PATCH", path, json={"capacity_bytes": 2_000_000_000})
    assert same.headers["operation-location"] == resized.headers["operation-location"]
    deleted = await operator("DELETE", path)
    assert deleted.status_code == 202 and deleted.json()["state"] == "deleted"
    assert deleted.headers["location"] == deleted.headers["operation-location"]
    kinds = [one["kind"] for one in (await operator("GET", "operations")).json()["items"]]
    assert kinds == ["instance.delete", "instance.change", "instance.create"]
    page = (await operator("GET", "operations?limit=2")).json()
    rest = (await operator("GET", f"operations?limit=2&cursor={page['next_cursor']}")).json()
    assert [one["kind"] for one in (*page["items"], *rest["items"])] == kinds


async def test_what_fails_and_what_is_overtaken_says_so(
    client: httpx.AsyncClient, operator: Caller, gateway_follows: Callable[[], Awaitable[None]]
) -> None:
    ordered = (await begin(client, "POST", "instances", ORDER)).json()
    deleted = await begin(client, "DELETE", f"instances/{ordered['instance_id']}")
    overtaken = await until_ended(operator, ordered["links"]["self"])
    assert overtaken["state"] == "failed" and "deleted" in overtaken["error"]
    await gateway_follows()
    assert (await until_ended(operator, deleted.headers["location"]))["state"] == "succeeded"


async def test_operations_are_their_tenants_own(operator: Caller, client: httpx.AsyncClient) -> None:
    ordered = (await begin(client, "POST", "instances", ORDER)).json()
    other = await operator.tenant("other")
    assert (await other("GET", f"operations/{ordered['id']}")).status_code == 404
    assert (await other("GET", "operations")).json()["items"] == []
    assert (await other("GET", "operations?tenant=*")).status_code == 403
    assert (await other("GET", f"operations?instance={ordered['instance_id']}")).json()["items"] == []
    assert len((await operator("GET", "operations?tenant=*")).json()["items"]) == 1
    assert (await operator("GET", "operations/..%2fkeys")).status_code == 404


async def test_a_tenant_fills_no_disk_with_operations(
    operator: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "OPERATIONS_MAX_PER_TENANT", 3)
    made = await operator.order()
    for number in range(8):
        await operator("PATCH", f"instances/{made['id']}", json={"capacity_bytes": 2_000_000_000 + number})
    assert len((await operator("GET", "operations")).json()["items"]) <= 3


async def test_an_instance_that_no_database_can_store_has_no_operations(operator: Caller) -> None:
    answer = await operator("GET", "operations", params={"instance": "i\0"})
    assert (answer.status_code, answer.json()["items"]) == (200, [])

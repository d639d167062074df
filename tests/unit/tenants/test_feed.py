"""The feed as its followers use it: the real follower over the real internal routes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette

from contracts.specs import (
    BrokerAddress,
    ConsumerKind,
    DamagedLog,
    FeedRequest,
    FeedResponse,
    GatewayInstanceReport,
    GatewayReport,
    RefusedAddress,
)
from ctl.commands.doctor import damaged_log_findings
from runtime.clock import monotonic_ms
from runtime.feed import FeedFollower
from runtime.internal_http import InternalClient, InternalError
from tenants.app import create_internal_routes
from tenants.console import Console

from .conftest import OPERATOR_KEY, Caller


@asynccontextmanager
async def _following(
    internal: InternalClient,
    name: str,
    kind: ConsumerKind = ConsumerKind.GATEWAY,
    cache: Path | None = None,
    **more: object,
) -> AsyncIterator[FeedFollower]:
    follower = FeedFollower(internal, name, kind, cache, **more)  # type: ignore[arg-type]
    task = asyncio.create_task(follower.run())
    try:
        yield follower
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _until(condition: Callable[[], object], within_s: float = 30.0) -> None:
    deadline_ms = monotonic_ms() + within_s * 1000
    while not condition():
        assert monotonic_ms() < deadline_ms, "did not happen"
        await asyncio.sleep(0.01)


async def _until_state(operator: Caller, instance: object, state: str) -> dict[str, object]:
    for _ in range(400):
        view = (await operator("GET", f"instances/{instance}")).json()
        if view["state"] == state:
            return view  # type: ignore[no-any-return]
        await asyncio.sleep(0.01)
    raise AssertionError(view)


async def test_an_instance_runs_once_every_gateway_has_applied_it(
    internal: InternalClient, operator: Caller
) -> None:
    created = await operator.order()
    assert (created["state"], created["applied"]) == ("creating", False)
    async with _following(internal, "gateway-0"), _following(internal, "gateway-1"):
        view = await _until_state(operator, created["id"], "running")
        assert view["applied"] is True


async def test_a_waiting_poll_wakes_at_once(internal: InternalClient, operator: Caller) -> None:
    async with _following(internal, "gateway-0") as follower:
        await _until(lambda: follower.connected)
        await asyncio.sleep(0.1)
        created = await operator.order()
        started_ms = monotonic_ms()
        await _until(lambda: created["id"] in follower.instances)
        await _until_state(operator, created["id"], "running")
        assert monotonic_ms() - started_ms < 8_000, "a poll that nobody wakes lasts 10 s"


async def test_a_whitelist_change_reaches_gateways_and_is_seen_applied(
    internal: InternalClient, operator: Caller
) -> None:
    async with _following(internal, "gateway-0") as follower:
        created = await operator.order()
        await _until_state(operator, created["id"], "running")
        await operator("PUT", f"instances/{created['id']}/whitelist", json={"cidrs": []})
        await _until(lambda: follower.instances[str(created["id"])].whitelist == ())
        view = (await operator("GET", f"instances/{created['id']}")).json()
        assert view["state"] == "running"
        for _ in range(100):
            if (await operator("GET", f"instances/{created['id']}")).json()["applied"]:
                return
            await asyncio.sleep(0.01)
        raise AssertionError("never applied")


async def test_a_gateway_that_cannot_serve_fails_the_instance_and_its_recovery_heals_it(
    internal: InternalClient, operator: Caller
) -> None:
    created = await operator.order()
    other = await operator.order("other")
    instance_id = str(created["id"])
    async with _following(internal, "gateway-0") as follower:
        follower.failures[instance_id] = "port in use"
        view = await _until_state(operator, instance_id, "failed")
        assert view["state_reason"] == "port in use"
        await _until_state(operator, other["id"], "running")
        follower.failures.clear()
        await operator("PATCH", "instances/other", json={"auto_create_topics": True})
        view = await _until_state(operator, instance_id, "running")
        assert view["state_reason"] is None


async def test_old_clients_are_a_switch_of_the_instance(internal: InternalClient, operator: Caller) -> None:
    created = await operator.order()
    assert created["legacy_clients"] is False
    async with _following(internal, "gateway-0") as follower:
        await _until_state(operator, created["id"], "running")
        assert not follower.instances[str(created["id"])].legacy_clients
        await operator("PATCH", "instances/shop", json={"legacy_clients": True})
        await _until(lambda: follower.instances[str(created["id"])].legacy_clients)


async def test_a_running_instance_fails_when_a_gateway_says_so_later(
    internal: InternalClient, operator: Caller
) -> None:
    created = await operator.order()
    async with _following(internal, "gateway-0") as follower:
        await _until_state(operator, created["id"], "running")
        follower.failures[str(created["id"])] = "no descriptors left"
        await operator("PATCH", "instances/shop", json={"auto_create_topics": True})
        await _until_state(operator, created["id"], "failed")


async def test_suspend_and_resume(internal: InternalClient, operator: Caller) -> None:
    created = await operator.order()
    async with _following(internal, "gateway-0") as follower:
        await _until_state(operator, created["id"], "running")
        assert (await operator("POST", "instances/shop/suspend")).json()["state"] == "suspended"
        await _until(lambda: follower.instances[str(created["id"])].state == "suspended")
        assert (await operator("POST", "instances/shop/suspend")).status_code == 409
        assert (await operator("POST", "instances/shop/resume")).json()["state"] == "creating"
        await _until_state(operator, created["id"], "running")


async def test_deletion_reaches_gateways_and_the_name_is_free(
    internal: InternalClient, operator: Caller
) -> None:
    created = await operator.order()
    async with _following(internal, "gateway-0") as follower:
        await _until_state(operator, created["id"], "running")
        assert (await operator("DELETE", "instances/shop")).json()["state"] == "deleted"
        assert (await operator("GET", f"instances/{created['id']}")).status_code == 404
        again = await operator.order()
        assert again["id"] != created["id"]
        assert again["bootstrap_servers"] != created["bootstrap_servers"]
        await _until(lambda: again["id"] in follower.instances)
        told = follower.instances[str(created["id"])]
        assert (told.state, told.listeners) == ("deleted", ())
        assert told.deletion is not None
        assert told.deletion.purge_after_ms - told.deletion.deleted_at_ms == 7 * 24 * 3600 * 1000


async def test_a_broker_registers_and_every_instance_gets_a_listener_for_it(
    internal: InternalClient, operator: Caller
) -> None:
    await operator.order()
    address = BrokerAddress(node_id=1, host="127.0.0.1", port=9999)
    broker = _following(internal, "broker-1", ConsumerKind.BROKER, broker=address, cluster_id="builtin-1")
    async with _following(internal, "gateway-0") as follower, broker:
        await _until(lambda: follower.clusters and follower.clusters["builtin-1"].brokers == (address,))
        shop = next(spec for spec in follower.instances.values() if spec.name == "shop")
        assert [(one.node_id, one.port) for one in shop.listeners] == [(None, 21000), (1, 21001)]
        later = await operator.order("later")
        await _until(lambda: later["id"] in follower.instances)
        assert len(follower.instances[str(later["id"])].listeners) == 2
        listed = (await operator("GET", "brokers")).json()["items"]
        assert [(one["node_id"], one["port"], one["live"]) for one in listed] == [(1, 9999, True)]


async def test_what_a_broker_tells_of_damaged_logs_is_a_finding_of_console_and_doctor(
    internal: InternalClient, operator: Caller
) -> None:
    address = BrokerAddress(node_id=1, host="127.0.0.1", port=9999)
    damaged = [
        DamagedLog(topic=topic, partition=3, first_offset=100, next_offset=120, kind=kind, replicas=replicas)
        for topic, kind, replicas in (
            ("iaaaaaaaaaaa.orders", "short", 1),
            ("own", "content", 3),
            ("own", "end", 1),
        )
    ]
    told: list[DamagedLog] = []
    broker = _following(
        internal,
        "broker-1",
        ConsumerKind.BROKER,
        broker=address,
        cluster_id="builtin-1",
        damaged_logs=lambda: tuple(told),
    )
    async with broker as follower:
        await _until(lambda: follower.connected)
        (item,) = (await operator("GET", "brokers")).json()["items"]
        assert item["damaged_logs"] == []
        told += damaged
        await operator.order()  # the next poll begins
        await _until_true(lambda: _damaged(operator))
        (item,) = (await operator("GET", "brokers")).json()["items"]
    shown = item["damaged_logs"]
    assert [(each["instance_id"], each["topic"], each["kind"]) for each in shown] == [
        ("iaaaaaaaaaaa", "orders", "short"),
        (None, "own", "content"),
        (None, "own", "end"),
    ]
    alone, replicated, end = damaged_log_findings(item)
    assert {finding.level for finding in (alone, replicated, end)} == {"bad"}
    assert "orders-3 of instance iaaaaaaaaaaa: offsets 100 to 119 are lost or damaged" in alone.found
    assert "no other replica" in alone.advice and "fetched anew" in replicated.advice
    assert "had lost its end" in end.found


async def _damaged(operator: Caller) -> bool:
    (item,) = (await operator("GET", "brokers")).json()["items"]
    return bool(item["damaged_logs"])


async def _until_true(ask: Callable[[], Awaitable[bool]]) -> None:
    for _ in range(1_000):
        if await ask():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it did not come to hold")


async def test_after_a_restart_followers_go_on_and_running_stays_running(
    make_console: Callable[[], Console], tmp_path: Path
) -> None:
    first = make_console()
    first.bootstrap(OPERATOR_KEY)
    app = Starlette(routes=create_internal_routes(first))
    internal = InternalClient("http://i", "x", transport=httpx.ASGITransport(app=app))
    cache = tmp_path / "feed.json"
    async with _following(internal, "gateway-0", cache=cache) as follower:
        # Told with the poll after it, so it is on the disk; revision 0 is applied by whoever has nothing.
        await _until(lambda: follower.position[1] > 0 and first.feed.applied_everywhere(follower.position[1]))
    first.close()

    second = make_console()
    second.bootstrap(OPERATOR_KEY)
    second.feed.start()
    app = Starlette(routes=create_internal_routes(second))
    internal = InternalClient("http://i", "x", transport=httpx.ASGITransport(app=app))
    follower = FeedFollower(internal, "gateway-0", ConsumerKind.GATEWAY, cache)
    assert follower.load_cache()
    answer = await internal.post(
        "/internal/v1/feed",
        FeedRequest(
            consumer="gateway-0",
            kind=ConsumerKind.GATEWAY,
            applied_revision=follower.position[1],
            feed_id=follower.position[0],
            mark=follower.position[2],
        ),
        FeedResponse,
    )
    assert not answer.full
    assert answer.instances == ()
    assert second.feed.applied_everywhere(answer.revision)
    second.close()


async def test_a_follower_that_hangs_up_is_no_longer_waited_for(
    plane: Console, internal: InternalClient
) -> None:
    request = FeedRequest(consumer="gateway-9", kind=ConsumerKind.GATEWAY, applied_revision=0, wait_ms=20_000)
    answer = await internal.post("/internal/v1/feed", request, FeedResponse)
    waiting = FeedRequest(
        consumer="gateway-9",
        kind=ConsumerKind.GATEWAY,
        applied_revision=answer.revision,
        feed_id=answer.feed_id,
        mark=answer.mark,
        wait_ms=20_000,
    )
    poll = asyncio.create_task(plane.feed.poll(waiting))
    await _until(lambda: plane.feed.applied_everywhere(answer.revision))
    assert plane.feed.consumers["gateway-9"].polls_open == 1
    poll.cancel()
    await asyncio.gather(poll, return_exceptions=True)
    assert plane.feed.consumers["gateway-9"].polls_open == 0
    plane.feed.consumers["gateway-9"].seen_ms -= 6_000
    assert not plane.feed.applied_everywhere(answer.revision)


@pytest.mark.parametrize("path", ["feed", "gateway-reports"])
@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"consumer":"x"}', b"\xff\xfe", b'{"unknown":1}'])
async def test_messages_that_are_none_are_refused(plane: Console, path: str, body: bytes) -> None:
    app = Starlette(routes=create_internal_routes(plane))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://i") as client:
        answer = await client.post(f"/internal/v1/{path}", content=body)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"


async def test_an_unknown_version_is_refused(internal: InternalClient) -> None:
    request = FeedRequest(consumer="g", kind=ConsumerKind.GATEWAY, applied_revision=0, version=99)
    with pytest.raises(InternalError, match="version 99"):
        await internal.post("/internal/v1/feed", request, FeedResponse)


async def test_gateway_reports_are_shown(internal: InternalClient, operator: Caller) -> None:
    created = await operator.order()
    report = GatewayReport(
        consumer="gateway-0",
        boot_id="b",
        sent_at_ms=1,
        instances=(
            GatewayInstanceReport(
                instance_id=str(created["id"]),
                connections=7,
                closed={"whitelist": 2},
                refused=(RefusedAddress(address="203.0.113.9", at_ms=1_700_000_000_000),),
            ),
        ),
    )
    await internal.post("/internal/v1/gateway-reports", report, dict)
    assert (await operator("GET", "instances/shop")).json()["connections"] == 7
    refusals = (await operator("GET", "instances/shop/refusals")).json()
    assert refusals["closed"] == {"whitelist": 2}
    assert refusals["items"] == [
        {"address": "203.0.113.9", "at": "2023-11-14T22:13:20Z", "gateway": "gateway-0"}
    ]


async def test_metrics_are_prometheus_text(plane: Console) -> None:
    app = Starlette(routes=create_internal_routes(plane))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://i") as client:
        answer = await client.get("/metrics")
    assert answer.status_code == 200
    assert "portico_console_requests_total" in answer.text
    assert 'portico_instances{state="running"} 1.0' in answer.text

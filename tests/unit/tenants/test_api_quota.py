"""Quota views and live streams."""

import asyncio
import contextlib
import json
from typing import Any

import httpx
import pytest

from tenants.api import quota
from tenants.console import Console
from tenants.rules import callers
from tenants.rules.errors import TooMany
from tenants.rules.model import Caller as Asker
from tenants.rules.permissions import Role

from .conftest import Caller, MasterServer


async def test_an_instances_quota_with_its_name(operator: Caller, master: MasterServer) -> None:
    made = await operator.order()
    master.knows(str(made["id"]), 42)
    view = (await operator("GET", "instances/shop/quota?seconds=60")).json()
    assert (view["instance_id"], view["name"], view["tenant"]) == (made["id"], "shop", "default")
    assert (view["stored_bytes"], view["produce"]["rule"]) == (42, "below_gate")
    assert (await operator("GET", "instances/shop/quota?seconds=3601")).status_code == 422


async def test_all_instances_for_operators(operator: Caller, master: MasterServer) -> None:
    owner = await operator.tenant("acme")
    made = await owner.order()
    for instance_id in (str(made["id"]), "i00000000000", "igone2222222"):
        master.knows(instance_id)
    overview = (await operator("GET", "quota")).json()
    assert [(one["tenant"], one["name"]) for one in overview["instances"]] == [("acme", "shop")]


async def test_without_the_master(operator: Caller, master: MasterServer) -> None:
    await operator.order()
    master.is_down = True
    for path in ("quota", "instances/shop/quota"):
        answer = await operator("GET", path)
        assert answer.status_code == 503
        assert "try again" in answer.json()["detail"]
    view = (await operator("GET", "instances/shop")).json()
    assert view["stored_bytes"] is None


async def test_an_instance_that_the_master_has_not_met(operator: Caller) -> None:
    await operator.order()
    answer = await operator("GET", "instances/shop/quota")
    assert answer.status_code == 409
    assert "does not know the instance yet" in answer.json()["detail"]


@pytest.fixture(autouse=True)
def always_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every reader asks the master: the cache of a second is not what is tested here."""
    monkeypatch.setattr("tenants.quota._FRESH_MS", 0)


@pytest.fixture
def short_period(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quota, "_PERIOD_MS", 20)
    monkeypatch.setattr("tenants.fleet.PERIOD_MS", 20)
    monkeypatch.setattr(quota, "_RECHECK_EVERY", 2)


async def _opened(plane: Console, streams: int = 1) -> None:
    """Until so many live views are open: each is asked for by a request that Postgres may answer late."""
    async with asyncio.timeout(60):
        while len(plane.streams) < streams:
            await asyncio.sleep(0.005)


async def _events(plane: Console, master: MasterServer, answer: "asyncio.Task[httpx.Response]") -> list[str]:
    """Some of a stream's events. httpx's ASGI transport answers when the stream has ended."""
    await _opened(plane)
    enough = master.asked + 5
    async with asyncio.timeout(60):
        while master.asked < enough:
            await asyncio.sleep(0.01)
    plane.closing.set()
    response = await answer
    assert response.headers["content-type"].startswith("text/event-stream")
    assert len(plane.streams) == 0
    return [part for part in response.text.split("\n\n") if part]


@pytest.mark.usefixtures("short_period")
async def test_a_live_stream(plane: Console, operator: Caller, master: MasterServer) -> None:
    made = await operator.order()
    master.knows(str(made["id"]), 42)
    stream = asyncio.create_task(operator("GET", "instances/shop/quota/stream"))
    retry, *events = await _events(plane, master, stream)
    assert retry == "retry: 2000"
    assert len(events) > 2
    assert json.loads(events[0].removeprefix("data: "))["stored_bytes"] == 42


@pytest.mark.usefixtures("short_period")
async def test_a_stream_tells_that_the_master_is_gone_and_goes_on(
    plane: Console, operator: Caller, master: MasterServer
) -> None:
    master.is_down = True
    _retry, *events = await _events(plane, master, asyncio.create_task(operator("GET", "fleet/stream")))
    assert events[0].startswith("event: problem\ndata: ")


@pytest.mark.usefixtures("short_period")
async def test_a_stream_ends_when_its_key_is_revoked_or_its_instance_deleted(
    plane: Console, operator: Caller
) -> None:
    owner = await operator.tenant("acme")
    await owner.order()
    stream = asyncio.create_task(owner("GET", "instances/shop/quota/stream"))
    await _opened(plane)
    await owner("DELETE", "instances/shop")
    await asyncio.wait_for(stream, 10)

    await owner.order("next")
    stream = asyncio.create_task(owner("GET", "instances/next/quota/stream"))
    await _opened(plane)
    [key] = (await owner("GET", "keys")).json()["items"]
    await operator("DELETE", f"keys/{key['id']}")
    await asyncio.wait_for(stream, 10)


async def test_streams_are_bounded(plane: Console, operator: Caller) -> None:
    with contextlib.ExitStack() as held:
        for number in range(callers.STREAMS_MAX):
            looker = Asker("key", str(number), f"tenant-{number % 10}", Role.VIEWER, None)
            held.enter_context(plane.streams.one(looker))
        assert (await operator("GET", "fleet/stream")).status_code == 503
    assert len(plane.streams) == 0


@pytest.mark.usefixtures("short_period")
async def test_one_viewers_key_takes_no_stream_from_another_tenant(
    plane: Console, operator: Caller, master: MasterServer
) -> None:
    greedy, polite = await operator.tenant("greedy"), await operator.tenant("polite")
    for one in (greedy, polite):
        master.knows(str((await one.order())["id"]))
    viewer = await operator.tenant("greedy", "viewer")
    path = "instances/shop/quota/stream"
    streams = [asyncio.create_task(viewer("GET", path)) for _ in range(464)]
    async with asyncio.timeout(120):
        while sum(one.done() for one in streams) < 464 - callers.STREAMS_MAX_PER_CALLER:
            await asyncio.sleep(0.01)
    assert len(plane.streams) == callers.STREAMS_MAX_PER_CALLER
    other = asyncio.create_task(polite("GET", path))
    async with asyncio.timeout(120):
        while len(plane.streams) == callers.STREAMS_MAX_PER_CALLER:
            await asyncio.sleep(0.01)
    plane.closing.set()
    assert (await other).status_code == 200
    answers = [(await one).status_code for one in streams]
    assert answers.count(200) == callers.STREAMS_MAX_PER_CALLER
    assert answers.count(429) == 464 - callers.STREAMS_MAX_PER_CALLER
    assert len(plane.streams) == 0


async def test_keys_of_one_tenant_share_its_streams(plane: Console) -> None:
    with contextlib.ExitStack() as held:
        for number in range(callers.STREAMS_MAX_PER_TENANT):
            held.enter_context(plane.streams.one(Asker("key", str(number % 7), "acme", Role.VIEWER, None)))
        with pytest.raises(TooMany, match="of your tenant"):
            held.enter_context(plane.streams.one(Asker("key", "new", "acme", Role.VIEWER, None)))
        held.enter_context(plane.streams.one(Asker("key", "new", "other", Role.VIEWER, None)))


async def test_one_tenants_requests_at_once_are_bounded(
    plane: Console, operator: Caller, master: MasterServer
) -> None:
    """All of them wait for the quota master; a neighbour's request is taken all the same."""
    greedy, polite = await operator.tenant("greedy"), await operator.tenant("polite")
    for one in (greedy, polite):
        master.knows(str((await one.order())["id"]))
    go_on = master.hold()
    asked = [asyncio.create_task(greedy("GET", "instances/shop/quota")) for _ in range(200)]
    async with asyncio.timeout(20):
        while sum(one.done() for one in asked) < 200 - callers.REQUESTS_MAX_PER_TENANT:
            await asyncio.sleep(0.01)
    assert (await polite("GET", "me")).status_code == 200
    go_on.set()
    answers = [(await one).status_code for one in asked]
    assert answers.count(200) == callers.REQUESTS_MAX_PER_TENANT
    assert answers.count(429) == 200 - callers.REQUESTS_MAX_PER_TENANT
    assert (await greedy("GET", "instances/shop/quota")).status_code == 200


# --- the dashboard ---------------------------------------------------------------------------------------


def _frames(text: str) -> list[dict[str, Any]]:
    return [json.loads(part[6:]) for part in text.split("\n\n") if part.startswith("data: ")]


@pytest.mark.usefixtures("short_period")
async def test_a_dashboard_is_told_everything_once_and_then_what_changed(
    plane: Console, operator: Caller, master: MasterServer
) -> None:
    one, other = [str((await operator.order(name))["id"]) for name in ("shop", "till")]
    for key in (one, other, "i00000000000"):
        master.knows(key)
    stream = asyncio.create_task(operator("GET", "fleet/stream"))
    await _asked(plane, master, 3)
    master.knows(other, 8, blocked=True)
    await _asked(plane, master, 3)
    del master.views[one]
    await _asked(plane, master, 3)
    plane.closing.set()
    first, *rest = _frames((await stream).text)
    assert first["whole"] and first["totals"]["instances"] == 2
    assert first["rows"][one]["name"] == "shop"
    assert first["walls"]["pressure"] == [one, other], "calm ones are in order of their names"
    rows, pressure = first["rows"], first["walls"]["pressure"]
    for frame in rest:  # one that was missed, because the machine is busy, is followed by everything
        kept = {} if frame["whole"] else {key: row for key, row in rows.items() if key not in frame["gone"]}
        rows = kept | {key: kept.get(key, {}) | row for key, row in frame["rows"].items()}
        pressure = frame["walls"].get("pressure", pressure)
    assert (list(rows), pressure) == ([other], [other])
    assert (rows[other]["stored_bytes"], rows[other]["blocked"]) == (8, True)


@pytest.mark.usefixtures("short_period")
async def test_viewers_share_one_question_and_nobody_asks_without_one(
    plane: Console, operator: Caller, master: MasterServer
) -> None:
    streams = [asyncio.create_task(operator("GET", "fleet/stream")) for _ in range(10)]
    await _opened(plane, len(streams))
    await _asked(plane, master, 4)
    asked = master.questions
    plane.closing.set()
    frames = [_frames((await stream).text) for stream in streams]
    assert all(frames) and sum(map(len, frames)) > asked
    asked = master.questions
    await asyncio.sleep(0.1)
    assert master.questions == asked


@pytest.mark.usefixtures("short_period")
async def test_who_looks_while_the_master_is_gone_sees_the_last_numbers_and_their_age(
    plane: Console, operator: Caller, master: MasterServer
) -> None:
    made = await operator.order()
    master.knows(str(made["id"]), 7)
    stream = asyncio.create_task(operator("GET", "fleet/stream"))
    await _asked(plane, master, 2)
    master.is_down = True
    await _asked(plane, master, 2)
    late = asyncio.create_task(operator("GET", "fleet/stream"))
    await _opened(plane, 2)
    await _asked(plane, master, 3)
    plane.closing.set()
    await stream
    text = (await late).text
    frames = _frames(text)
    assert frames[0]["totals"]["stored_bytes"] == 7
    assert frames[0]["at_ms"] == 1, "as old as it is"
    assert "event: problem" in text


async def _asked(plane: Console, master: MasterServer, times: int) -> None:
    await _opened(plane)
    enough = master.questions + times
    async with asyncio.timeout(60):
        while master.questions < enough:
            await asyncio.sleep(0.005)

"""Series by the API where a Prometheus is named: which of the two answers, and whatever Prometheus does."""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from contracts.names import SYSTEM_INSTANCE_ID
from runtime.tasks import Supervised
from tenants.console import Console
from tenants.rules.series import COARSE_STEP_MS, SPAN_MS_MAX, STEP_MS
from tenants.rules.series_prometheus import ANSWER_BYTES_MAX, UNDER_WAY_MAX_PER_TENANT
from tests.unit.tenants.conftest import Caller, MasterServer
from tests.unit.tenants.stand_in_prometheus import StandIn, ok, points, stand_in
from tests.unit.tenants.test_api_series import Clock, by_hand, clock, known, rate, told

__all__ = ["by_hand", "clock"]
_DAY_MS = 86_400_000
_HEAD = b"HTTP/1.1 200 OK\r\n"


@pytest.fixture
async def prometheus() -> AsyncIterator[StandIn]:
    async with stand_in() as one:
        yield one


@pytest.fixture
async def plane(make_console: Callable[..., Console], prometheus: StandIn) -> AsyncIterator[Console]:
    console = make_console(series_prometheus=prometheus.url)
    tasks = Supervised()
    console.start_feed(tasks)
    console.start(tasks)
    yield console
    await tasks.aclose()
    console.close()


def time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat()


def since(clock: Clock, days: int, **more: Any) -> dict[str, Any]:
    return {"from": time(clock.now_ms - days * _DAY_MS), **more}


async def shop(operator: Caller, master: MasterServer, clock: Clock) -> str:
    """An instance of which a step of 5 bytes a second is recorded."""
    made = await operator.order()
    rate(master, str(made["id"]), 5)
    await clock.steps(1)
    return str(made["id"])


async def test_what_begins_before_what_is_recorded_is_prometheus(
    operator: Caller, master: MasterServer, clock: Clock, prometheus: StandIn
) -> None:
    key = await shop(operator, master, clock)
    prometheus.answer = lambda form: points(form, {"produce_bytes_per_s": 70, "connections": 3})
    view = await told(operator, "instances/shop/series", **since(clock, 90))
    assert (view["source"], view["note"], view["step_ms"]) == ("prometheus", None, 7_200_000)
    assert view["longest_ms"] == 366 * _DAY_MS
    assert set(known(view, "produce_bytes_per_s")) == {70} and set(known(view, "connections")) == {3}
    assert known(view, "stored_bytes") == [], "nothing is mixed in"
    assert len(view["metrics"]["stored_bytes"]) == len(known(view, "connections")) == 90 * 12 + 1
    [(head, form)] = prometheus.asked
    assert head.startswith("POST /prefix/api/v1/query_range HTTP/1.1\r\n")
    assert "Basic b3BzOmh1bnRlcjI=" in head
    assert form["query"].count(f'instance="{key}"') == 12 and form["timeout"] == "5000ms"


async def test_what_is_recorded_is_not_asked_for(
    operator: Caller, master: MasterServer, clock: Clock, prometheus: StandIn
) -> None:
    await shop(operator, master, clock)
    for days in (0.01, 1, 7, 30):
        view = await told(operator, "instances/shop/series", **since(clock, days))  # type: ignore[arg-type]
        assert (view["source"], view["note"]) == ("recorded", None)
        assert known(view, "produce_bytes_per_s") == [5]
    await told(operator, "instances/shop/series/names", **since(clock, 90, kind="topic"))
    await told(operator, "instances/shop/marks", **since(clock, 90))
    await told(operator, "marks", **since(clock, 90))
    assert prometheus.asked == []


async def test_an_older_hour_is_told_as_fine_as_prometheus_has_it(
    operator: Caller, master: MasterServer, clock: Clock, prometheus: StandIn
) -> None:
    await shop(operator, master, clock)
    to_ms = clock.now_ms - 3 * _DAY_MS
    span = {"from": time(to_ms - 3_600_000), "to": time(to_ms)}
    prometheus.answer = lambda form: points(form, {"produce_bytes_per_s": 70})
    view = await told(operator, "instances/shop/series", **span)
    assert (view["source"], view["step_ms"]) == ("prometheus", STEP_MS)
    prometheus.answer = lambda form: points(form, {})
    view = await told(operator, "instances/shop/series", **span)
    assert (view["source"], view["step_ms"]) == ("recorded", COARSE_STEP_MS)
    assert view["note"] == "prometheus_knows_less"


async def test_whoever_knows_more_of_the_time_answers(
    operator: Caller, master: MasterServer, clock: Clock, prometheus: StandIn
) -> None:
    made = await operator.order()
    rate(master, str(made["id"]), 5)
    for _ in range(8):
        await clock.steps(1)
        clock.now_ms += 8 * 3_600_000
    # Prometheus was started a moment ago.
    late_s = clock.now_ms / 1000 - 3_600
    prometheus.answer = lambda form: points(form, {"produce_bytes_per_s": 70}, late_s)
    view = await told(operator, "instances/shop/series", **since(clock, 90))
    assert (view["source"], view["note"]) == ("recorded", "prometheus_knows_less")
    assert known(view, "produce_bytes_per_s") == [5] * 8
    prometheus.answer = lambda form: points(form, {"produce_bytes_per_s": 70}, late_s - 70 * 3_600)
    assert (await told(operator, "instances/shop/series", **since(clock, 90)))["source"] == "prometheus"


async def test_what_prometheus_does_not_have_is_said(
    operator: Caller, master: MasterServer, clock: Clock, prometheus: StandIn
) -> None:
    await shop(operator, master, clock)
    for path, asked in (
        ("instances/shop/series", {"kind": "topic", "name": "orders"}),
        ("instances/shop/series", {"kind": "client", "name": "billing"}),
        ("instances/shop/series", {"kind": "group", "name": ""}),
        (f"instances/{SYSTEM_INSTANCE_ID}/series", {}),
        ("series", {}),
        ("series", {"kind": "broker", "name": "1"}),
    ):
        view = await told(operator, path, **since(clock, 90, **asked))
        assert (view["source"], view["note"]) == ("recorded", "prometheus_lacks"), (path, asked)
    assert prometheus.asked == []
    prometheus.answer = lambda form: points(form, {"lag_records": 4})
    view = await told(operator, "instances/shop/series", **since(clock, 90, kind="group", name='it"s'))
    assert set(known(view, "lag_records")) == {4} and known(view, "lag_ms") == []
    assert r'group="it\"s"' in prometheus.asked[-1][1]["query"]


def of_another(form: dict[str, str]) -> bytes:
    return ok(
        b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"instance":"iother",'
        b'"portico_measure":"produce_bytes_per_s"},"values":[]}]}}'
    )


@pytest.mark.parametrize(
    "answer",
    [
        lambda form: b"",
        lambda form: b"no HTTP at all\r\n\r\n",
        lambda form: b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
        lambda form: b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n",
        lambda form: b"HTTP/1.1 503 Away\r\nContent-Length: 4\r\n\r\naway",
        lambda form: ok(b"<html>"),
        lambda form: ok(b'{"status":"error","errorType":"timeout","error":"x"}'),
        lambda form: ok(b'{"status":"success","data":' + b" " * ANSWER_BYTES_MAX + b"{}}"),
        lambda form: _HEAD + b"X: " + b"x" * 100_000 + b"\r\n\r\n",
        lambda form: _HEAD + b"Content-Length: 100\r\n\r\nshort",
        of_another,
    ],
)
async def test_whatever_it_answers_what_is_recorded_is_told(
    operator: Caller, master: MasterServer, clock: Clock, prometheus: StandIn, answer: Callable[..., bytes]
) -> None:
    await shop(operator, master, clock)
    prometheus.answer = answer
    view = await told(operator, "instances/shop/series", **since(clock, 90))
    assert (view["source"], view["note"]) == ("recorded", "prometheus_away")
    assert known(view, "produce_bytes_per_s") == [5]
    # The next question is asked, whoever asks it.
    prometheus.answer = lambda form: points(form, {"blocked": 0}, warnings=("a store is away",))
    view = await told(operator, "instances/shop/series", **since(clock, 90))
    assert (view["source"], view["note"]) == ("prometheus", "prometheus_incomplete")


async def test_one_that_says_nothing_is_not_waited_for_and_others_are_not_held_up(
    operator: Caller,
    master: MasterServer,
    clock: Clock,
    prometheus: StandIn,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await shop(operator, master, clock)
    acme = await operator.tenant("acme")
    own = await acme.order("own")
    rate(master, str(own["id"]), 1)
    await clock.steps(1)
    monkeypatch.setattr("tenants.prometheus.ANSWER_MS_MAX", 1_000)
    prometheus.waits.clear()
    asked = [
        asyncio.create_task(told(operator, "instances/shop/series", **since(clock, 90)))
        for _ in range(UNDER_WAY_MAX_PER_TENANT)
    ]
    while len(prometheus.asked) < UNDER_WAY_MAX_PER_TENANT:
        await asyncio.sleep(0.01)
    busy = await told(operator, "instances/shop/series", **since(clock, 90))
    assert (busy["source"], busy["note"]) == ("recorded", "prometheus_busy")
    assert not any(one.done() for one in asked), "it did not wait for them"
    theirs = await told(acme, "instances/own/series", **since(clock, 90))
    assert theirs["note"] == "prometheus_away", "another tenant is asked for"
    assert len(prometheus.asked) == UNDER_WAY_MAX_PER_TENANT + 1
    assert {(await one)["note"] for one in asked} == {"prometheus_away"}


async def test_one_that_is_not_there(
    operator: Caller, master: MasterServer, clock: Clock, prometheus: StandIn
) -> None:
    await shop(operator, master, clock)
    prometheus.url = type(prometheus.url)("http://127.0.0.1:1")
    clock.plane.series_reader._prometheus._url = prometheus.url  # type: ignore[union-attr]
    view = await told(operator, "instances/shop/series", **since(clock, 90))
    assert (view["source"], view["note"]) == ("recorded", "prometheus_away")


async def test_longer_times_are_refused_without_one(
    make_console: Callable[..., Console], operator: Caller, clock: Clock
) -> None:
    await operator.order()
    alone = make_console()
    assert alone.series_reader.longest_ms == SPAN_MS_MAX
    alone.close()
    refused = await operator("GET", "instances/shop/series", params=since(clock, 367))
    assert refused.status_code == 409 and "at most 366 days" in refused.text

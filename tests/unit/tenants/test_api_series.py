"""Series by the API: recorded a step at a time on a clock of the test, over restarts and two processes."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from contracts.connected import ClientIdSum, Connected
from contracts.quota_view import QuotaView
from contracts.specs import GatewayInstanceReport, GatewayReport
from runtime.clock import monotonic_ms
from tenants.console import Console
from tenants.rules import series
from tenants.rules.alarm_figures import GroupLag, LagSeen
from tenants.rules.series import BLOCK_MS, COARSE_BLOCK_MS, COARSE_STEP_MS, STEP_MS, Kind, Span
from tenants.rules.series_figures import TopicFigure
from tenants.series_recorder import PENDING_MAX
from tenants.store import series as rows
from tenants.store.engine import StoreFault
from tenants.store.shared_session import SoleOffice
from tests.unit.tenants.conftest import Caller, MasterServer

_BEGIN_MS = COARSE_BLOCK_MS * 83_000  # 2026-10-20


class Clock:
    """What the API and the recorder of one plane take for now; steps are recorded by hand."""

    def __init__(self, plane: Console, monkeypatch: pytest.MonkeyPatch) -> None:
        self.plane = plane
        self.now_ms = _BEGIN_MS
        self._boots: Counter[str] = Counter()
        plane.series_recorder._office = SoleOffice()  # not the one of a busy machine, which comes and goes
        monkeypatch.setattr("tenants.api.series.epoch_ms", lambda: self.now_ms + 1_000)
        monkeypatch.setattr("tenants.quota._FRESH_MS", 0)

    async def steps(self, count: int) -> None:
        for _ in range(count):
            self.now_ms += STEP_MS
            await self.plane.series_recorder.record(self.now_ms)

    def counts(self, instance_id: str, *ids: ClientIdSum, gateway: str = "gateway-0") -> None:
        """A gateway worker tells what clients did within as long as a step."""
        connected = Connected(seconds=15, count=len(ids), by_client_id=ids)
        one = GatewayInstanceReport(instance_id=instance_id, connections=1, connected=connected)
        self._reports(gateway, one)

    def boots(self, gateway: str, instance_id: str) -> None:
        """A worker was started anew, and has connections again."""
        self._boots[gateway] += 1
        self._reports(gateway, GatewayInstanceReport(instance_id=instance_id, connections=1))

    def _reports(self, gateway: str, one: GatewayInstanceReport) -> None:
        report = GatewayReport(
            consumer=gateway, boot_id=f"b{self._boots[gateway]}", sent_at_ms=0, instances=(one,)
        )
        self.plane.gateways.receive(report, monotonic_ms())


class Nobody(SoleOffice):
    """Another process runs the jobs."""

    since_ms = None

    def holds(self, connection: object) -> bool:
        return False


@pytest.fixture(autouse=True)
def by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    async def idle(_self: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr("tenants.series_recorder.SeriesRecorder.run", idle)
    monkeypatch.setattr("tenants.topic_figures.TopicFigures.run", idle)
    monkeypatch.setattr("tenants.alarm_runner.AlarmRunner.run", idle)
    monkeypatch.setattr("tenants.usecases.series._PAUSE_S", 0)


@pytest.fixture
def clock(plane: Console, monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(plane, monkeypatch)


@pytest.fixture
async def restarted(make_console: Callable[..., Console]) -> AsyncIterator[Console]:
    """Another process on the same database, or the same after a restart."""
    console = make_console()
    yield console
    console.close()


def client(client_id: str, connections: int = 1, **carried: int) -> ClientIdSum:
    return ClientIdSum(client_id=client_id, connections=connections, **carried)


def rate(master: MasterServer, instance_id: str, bytes_per_s: int) -> QuotaView:
    master.knows(instance_id, 7)
    view = master.views[instance_id]
    produce = msgspec.structs.replace(view.produce, rate_per_s=bytes_per_s)
    master.views[instance_id] = msgspec.structs.replace(view, produce=produce)
    return master.views[instance_id]


async def told(caller: Caller, path: str, **params: Any) -> dict[str, Any]:
    answer = await caller("GET", path, params=params)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def known(view: dict[str, Any], metric: str) -> list[int]:
    return [value for value in view["metrics"][metric] if value is not None]


async def test_what_was_recorded_is_told_and_is_there_after_a_restart(
    operator: Caller, master: MasterServer, clock: Clock, restarted: Console
) -> None:
    made = await operator.order()
    for number in range(5):
        rate(master, str(made["id"]), 100 + number)
        await clock.steps(1)
    view = await told(operator, "instances/shop/series")
    assert view["step_ms"] == STEP_MS
    assert known(view, "produce_bytes_per_s") == [100, 101, 102, 103, 104]
    assert view["newest_at_ms"] == clock.now_ms
    # The whole hour that was asked for, holes included; its first and its last step are cut.
    assert len(view["metrics"]["stored_bytes"]) == 3_600_000 // STEP_MS + 1
    span = Span(_BEGIN_MS, clock.now_ms + 1, STEP_MS)
    after = restarted.series.read(str(made["id"]), Kind.INSTANCE, "", span)
    assert [point[0] for point in after.columns.values()] == [100, 101, 102, 103, 104]


async def test_steps_become_blocks_and_blocks_become_coarse_and_all_tell_the_same(
    operator: Caller, master: MasterServer, clock: Clock, restarted: Console
) -> None:
    made = await operator.order()
    key = str(made["id"])
    rate(master, key, 300)
    await clock.steps(BLOCK_MS // STEP_MS + 4)
    fine = restarted.series.read(key, Kind.INSTANCE, "", Span(_BEGIN_MS, clock.now_ms + 1, STEP_MS))
    assert len(fine.columns) == BLOCK_MS // STEP_MS + 4, "those in a block, and those behind it"
    clock.now_ms = _BEGIN_MS + COARSE_BLOCK_MS - 2 * STEP_MS
    rate(master, key, 500)
    await clock.steps(8)
    coarse = restarted.series.read(key, Kind.INSTANCE, "", Span(_BEGIN_MS, clock.now_ms + 1, COARSE_STEP_MS))
    assert [point[0] for point in coarse.columns.values()] == [300, 300, 300, 300, 500, 500]
    # The fine ones go a day later, and the coarse ones stay.
    clock.now_ms += series.FINE_KEPT_MS + BLOCK_MS
    await clock.steps(3)
    fine = restarted.series.read(key, Kind.INSTANCE, "", Span(_BEGIN_MS, _BEGIN_MS + BLOCK_MS, STEP_MS))
    assert fine.columns == {}
    first = datetime.fromtimestamp(_BEGIN_MS / 1000, UTC).isoformat()
    view = await told(operator, "instances/shop/series", **{"from": first})
    assert known(view, "produce_bytes_per_s")[:4] == [300, 300, 300, 300]
    clock.now_ms += series.COARSE_KEPT_MS
    for _ in range(3):
        await clock.steps(1)
    span = Span(_BEGIN_MS, _BEGIN_MS + COARSE_BLOCK_MS, COARSE_STEP_MS)
    assert restarted.series.read(key, Kind.INSTANCE, "", span).columns == {}


async def test_who_does_not_hold_the_office_writes_nothing(
    operator: Caller, master: MasterServer, clock: Clock, restarted: Console
) -> None:
    made = await operator.order()
    rate(master, str(made["id"]), 1)
    await clock.steps(1)
    packed = series.pack_step({str(made["id"]): {Kind.INSTANCE: {"": (9,)}}})
    assert not restarted.series.keep(Nobody(), clock.now_ms + STEP_MS, packed)
    # Two that both believe they hold it write a point once: the first one's stays.
    assert restarted.series.keep(SoleOffice(), clock.now_ms, packed)
    view = await told(operator, "instances/shop/series")
    assert known(view, "produce_bytes_per_s") == [1]


async def test_topics_and_groups_and_brokers_have_series(
    operator: Caller, master: MasterServer, clock: Clock
) -> None:
    made = await operator.order()
    key = str(made["id"])
    rate(master, key, 1)
    seen = clock.plane.series_recorder.topics._seen
    seen.clear()
    topics = {f"t{number:02}": TopicFigure(number, 100) for number in range(30)}
    order = sorted(topics, reverse=True)
    clock.plane.series_recorder.topics.of = lambda _id, _now: (topics, order)  # type: ignore[method-assign]
    lags = LagSeen()
    lags.take([GroupLag("readers", 12)], frozenset(), clock.now_ms + STEP_MS)
    clock.plane.alarm_lags.seen[key] = lags
    await clock.steps(1)
    names = (await told(operator, "instances/shop/series/names", kind="topic"))["items"]
    assert names == ["", *sorted(order[:20])]
    rest = await told(operator, "instances/shop/series", kind="topic", name="")
    assert known(rest, "records_per_s") == [sum(range(10))]
    group = await told(operator, "instances/shop/series", kind="group", name="readers")
    assert (known(group, "lag_records"), known(group, "lag_ms")) == ([12], [])
    nobody = await told(operator, "instances/shop/series", kind="group", name="\u0000 it's \U0001f600")
    assert nobody["newest_at_ms"] is None


async def test_clients_have_series_of_what_gateways_count(
    operator: Caller, master: MasterServer, clock: Clock, restarted: Console
) -> None:
    made = await operator.order()
    key = str(made["id"])
    rate(master, key, 1)
    flood = [client(f"random-{number:02}", in_bytes=300 - number) for number in range(25)]
    for _ in range(2):
        clock.counts(key, client("billing", in_bytes=15_000, requests=150, throttled_ms=1_500), *flood)
        clock.counts(
            key,
            client("billing", in_bytes=3_000),
            client("search", out_bytes=12_000),
            client("", in_bytes=15),
            gateway="gateway-1",
        )
        await clock.steps(1)
    names = (await told(operator, "instances/shop/series/names", kind="client"))["items"]
    assert names == ["", "billing", *(f"random-{number:02}" for number in range(18)), "search"]
    billing = await told(operator, "instances/shop/series", kind="client", name="billing")
    # The first step has the time before anybody was counted in it, too.
    assert {metric: known(billing, metric) for metric in billing["metrics"]} == {
        "in_bytes_per_s": [560, 1_200],
        "out_bytes_per_s": [0, 0],
        "requests_per_s": [5, 10],
        "connections": [2, 2],
        "throttled_ms_per_s": [47, 100],
    }
    rest = await told(operator, "instances/shop/series", kind="client", name="")
    assert known(rest, "connections") == [8, 8], "seven of the flood, and those that have given no name"
    # A worker that was started anew has connections that it has not counted: there is a hole, and no zero.
    clock.boots("gateway-1", key)
    await clock.steps(1)
    for _ in range(2):
        clock.counts(key, client("billing", in_bytes=1_500))
        clock.counts(key, client("billing", in_bytes=1_500), gateway="gateway-1")
    await clock.steps(2)
    view = await told(operator, "instances/shop/series", kind="client", name="billing")
    assert view["metrics"]["in_bytes_per_s"][-5:] == [560, 1_200, None, 200, 200]
    span = Span(_BEGIN_MS, clock.now_ms + 1, STEP_MS)
    assert restarted.series.names(key, Kind.CLIENT, span) == names, "they are in the database"


async def test_a_flood_of_client_ids_costs_a_database_no_more_than_a_few(
    operator: Caller, master: MasterServer, clock: Clock, restarted: Console
) -> None:
    made = await operator.order()
    key = str(made["id"])
    rate(master, key, 1)
    for step in range(BLOCK_MS // STEP_MS + 4):
        flood = [client(f"{step:03}-{number:03}-{'x' * 120}", in_bytes=1_500) for number in range(20)]
        clock.counts(key, client("billing", in_bytes=3_000), *flood)
        await clock.steps(1)
    with clock.plane.store.read() as connection:
        [block] = rows.blocks(connection, [key], STEP_MS, _BEGIN_MS, _BEGIN_MS + BLOCK_MS)
    assert len(block.data) < 20_000
    span = Span(_BEGIN_MS, _BEGIN_MS + BLOCK_MS, STEP_MS)
    names = restarted.series.names(key, Kind.CLIENT, span)
    assert len(names) <= series.BLOCK_NAMES_MAX + 1 and "billing" in names
    found = restarted.series.read(key, Kind.CLIENT, "billing", span)
    assert {point[0] for point in found.columns.values()} == {93, 200} and len(found.columns) >= 59
    sums = [0] * 60
    for name in names:
        for at_ms, point in restarted.series.read(key, Kind.CLIENT, name, span).columns.items():
            sums[(at_ms - _BEGIN_MS) // STEP_MS] += point[0] or 0
    assert set(sums[2:]) == {20 * 100 + 200}, "whatever has no series of its own is in the one without a name"


async def test_no_tenant_sees_anothers_and_only_operators_all(
    operator: Caller, master: MasterServer, clock: Clock
) -> None:
    made = await operator.order()
    acme = await operator.tenant("acme")
    own = await acme.order("own")
    for one in (made, own):
        rate(master, str(one["id"]), 5)
    clock.counts(str(made["id"]), client("theirs", in_bytes=500))
    clock.counts(str(own["id"]), client("ours", in_bytes=500))
    await clock.steps(1)
    for path in ("series", "series/names", "marks", "series?kind=client&name=theirs"):
        refused = await acme("GET", f"instances/{made['id']}/{path}")
        absent = await acme("GET", f"instances/iaaaaaaaaaaa/{path}")
        assert refused.status_code == absent.status_code == 404
        assert refused.json()["detail"].replace(str(made["id"]), "X") == absent.json()["detail"].replace(
            "iaaaaaaaaaaa", "X"
        )
        assert (await acme("GET", path)).status_code == 403
    assert known(await told(acme, "instances/own/series"), "produce_bytes_per_s") == [5]
    assert (await told(acme, "instances/own/series/names", kind="client"))["items"] == ["ours"]
    theirs = await told(acme, "instances/own/series", kind="client", name="theirs")
    assert theirs["newest_at_ms"] is None
    fleet = await told(operator, "series")
    assert (known(fleet, "produce_bytes_per_s"), known(fleet, "instances")) == ([10], [2])


async def test_what_is_refused(operator: Caller) -> None:
    await operator.order()
    for query in (
        "from=2026-11-02T00:00:00Z&to=2026-11-01T00:00:00Z",
        "from=1999-01-01T00:00:00Z",
        "from=0001-01-01T00:00:00Z",
        "to=9999-12-31T23:59:59Z",
    ):
        assert (await operator("GET", f"instances/shop/series?{query}")).status_code == 409, query
    for query in (
        "from=x",
        "from=2026-11-01",
        "from=2026-11-01T00:00:00",
        "to=0.5",
        "from=1793491200",
        "points=9",
        "points=1501",
        "kind=fleet",
        "kind=x",
        f"name={'n' * 301}",
    ):
        assert (await operator("GET", f"instances/shop/series?{query}")).status_code == 422, query
    for kind in ("topic", "client"):
        assert (await operator("GET", f"series?kind={kind}")).status_code == 422


async def test_a_database_that_does_not_work_loses_history_and_nothing_else(
    operator: Caller, master: MasterServer, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await operator.order()
    rate(master, str(made["id"]), 5)

    def full(*_arguments: object) -> bool:
        raise StoreFault("database or disk is full")

    with monkeypatch.context() as broken:
        broken.setattr(clock.plane.series, "keep", full)
        await clock.steps(PENDING_MAX + 5)
    await clock.steps(1)
    counts = clock.plane.series_recorder.counts
    assert (counts["lost"], counts["kept"]) == (6, PENDING_MAX)
    view = await told(operator, "instances/shop/series")
    assert len(known(view, "produce_bytes_per_s")) == PENDING_MAX


async def test_a_silent_master_leaves_a_hole(operator: Caller, master: MasterServer, clock: Clock) -> None:
    made = await operator.order()
    rate(master, str(made["id"]), 5)
    await clock.steps(1)
    master.is_down = True
    await clock.steps(2)
    master.is_down = False
    await clock.steps(1)
    view = await told(operator, "instances/shop/series")
    assert view["metrics"]["produce_bytes_per_s"][-5:] == [None, 5, None, None, 5][-5:]


async def test_marks_tell_what_happened_and_not_who_did_it(
    operator: Caller, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenants.usecases.instances.epoch_ms", lambda: _BEGIN_MS + 5)
    await operator.order()
    await operator("PATCH", "instances/shop", json={"capacity_bytes": 2_000_000_000})
    clock.now_ms += 60_000
    items = (await told(operator, "instances/shop/marks"))["items"]
    assert [one["kind"] for one in items] == ["instance.create", "instance.change"]
    assert "capacity_bytes: 1000000000 -> 2000000000" in items[1]["says"]
    assert set(items[1]) == {"at", "kind", "says"}
    everything = (await told(operator, "marks"))["items"]
    assert [one["kind"] for one in everything] == ["instance.create", "instance.change"]

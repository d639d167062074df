"""Alarms by the API, with figures that sources tell: raised, seen, silenced, ruled; by whom, and of whom."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from contracts.specs import GatewayInstanceReport, GatewayReport, RefusedAddress
from runtime.clock import epoch_ms, monotonic_ms
from tenants.alarm_runner import AlarmRunner
from tenants.console import Console
from tenants.metrics import ConsoleCollector
from tenants.rules import alarm_figures
from tenants.rules.alarm_figures import GroupLag, LagSeen
from tenants.rules.alarms import HISTORY_MAX, LOOK_EVERY_MS, AlarmEvent, AlarmKind
from tenants.rules.record_time import oldest
from tenants.store import alarms
from tenants.store.alarms import Entry
from tenants.store.shared_session import SoleOffice
from tests.unit.tenants.conftest import Caller, MasterServer

AT_ONCE = {"threshold": 50, "window_minutes": 1, "raise_after": 1, "clear_after": 1}
RUN = AlarmRunner.run


@pytest.fixture
def looks(plane: Console, monkeypatch: pytest.MonkeyPatch) -> "Looks":
    return Looks(plane, monkeypatch)


class Looks:
    """Looks at figures by hand, on a clock that a test winds on; the runner itself does not start before."""

    def __init__(self, plane: Console, monkeypatch: pytest.MonkeyPatch) -> None:
        self.plane = plane
        self.now_ms = epoch_ms()
        monkeypatch.setattr("tenants.api.alarms.epoch_ms", lambda: self.now_ms)
        monkeypatch.setattr("tenants.usecases.alarms.epoch_ms", lambda: self.now_ms)
        # The questions to the master are not older than a second by the clock of the test.
        monkeypatch.setattr("tenants.quota._FRESH_MS", 0)

    async def __call__(self, times: int = 1) -> None:
        for _ in range(times):
            self.now_ms += LOOK_EVERY_MS
            await self.plane.alarm_runner.look(self.now_ms)


@pytest.fixture(autouse=True)
def by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """The task of the console does not look while a test does."""

    async def idle(_self: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr("tenants.alarm_runner.AlarmRunner.run", idle)


def throttle(master: MasterServer, instance_id: str, ms_per_s: int) -> None:
    master.knows(instance_id)
    told = master.views[instance_id]
    held = msgspec.structs.replace(told.produce, throttled_ms_per_s=ms_per_s)
    master.views[instance_id] = msgspec.structs.replace(told, produce=held)


async def one(caller: Caller, instance: object, kind: str) -> dict[str, Any]:
    items = (await caller("GET", f"instances/{instance}/alarms")).json()["items"]
    return next(each for each in items if each["kind"] == kind)


async def raised(caller: Caller, looks: Looks, master: MasterServer, name: str = "shop") -> str:
    """An instance whose producers are throttled, and are known to be."""
    made = await caller.order(name)
    throttle(master, str(made["id"]), 970)
    await caller("PUT", f"instances/{made['id']}/alarms/throttled_produce/rule", json=AT_ONCE)
    await looks(8)
    return str(made["id"])


async def test_an_alarm_from_its_raising_to_its_end(
    operator: Caller, looks: Looks, master: MasterServer
) -> None:
    owner = await operator.tenant("acme")
    before = await owner.order("quiet")
    assert (await one(owner, before["id"], "full"))["state"] == "unknown", "nobody has looked yet"
    instance = await raised(owner, looks, master)
    told = await one(owner, instance, "throttled_produce")
    assert (told["state"], told["value"]) == ("raised", 97.0)
    assert told["says"].startswith("throttled 97 % of the last 1 min") and "resize" in told["remedy"]
    [listed] = (await owner("GET", "alarms")).json()["items"]
    assert (listed["instance_name"], listed["raised_at"]) == ("shop", told["raised_at"])
    path = f"instances/{instance}/alarms/throttled_produce"
    acked = (await owner("POST", f"{path}/acknowledge")).json()
    assert acked["acknowledged_by"] == "key:owner-key"
    throttle(master, instance, 0)
    await looks(8)
    over = await one(owner, instance, "throttled_produce")
    assert (over["state"], over["raised_at"], over["acknowledged_by"]) == ("ok", None, None)
    events = (await owner("GET", f"instances/{instance}/alarms/history")).json()["items"]
    assert [each["event"] for each in events] == ["cleared", "acknowledged", "raised"]
    assert (await owner("POST", f"{path}/acknowledge")).status_code == 409
    audited = [each["action"] for each in (await owner("GET", "audit")).json()["items"]]
    assert audited.count("alarm.acknowledged") == 1 and audited.count("alarm.rule") == 1


async def test_a_master_that_is_down_neither_raises_nor_clears(
    operator: Caller, looks: Looks, master: MasterServer
) -> None:
    instance = await raised(operator, looks, master)
    master.is_down = True
    await looks(20)
    told = await one(operator, instance, "throttled_produce")
    assert (told["state"], told["raised_at"] is not None) == ("unknown", True)
    assert told["known_at"] < told["since"]
    master.is_down = False
    await looks(8)
    assert (await one(operator, instance, "throttled_produce"))["state"] == "raised"


async def test_when_nobody_looks_nothing_is_known(
    operator: Caller, looks: Looks, master: MasterServer
) -> None:
    instance = await raised(operator, looks, master)
    looks.now_ms += 120_000
    found = (await operator("GET", f"instances/{instance}/alarms")).json()
    assert {each["state"] for each in found["items"]} == {"unknown"}


async def test_unknown_addresses_and_wrong_passwords_are_counted_at_gateways(
    operator: Caller, looks: Looks, master: MasterServer
) -> None:
    made = await operator.order()
    instance = str(made["id"])
    plane = looks.plane

    def report(closed: dict[str, int]) -> None:
        refused = (RefusedAddress(at_ms=looks.now_ms, address="192.0.2.9"),)
        of_one = GatewayInstanceReport(instance_id=instance, connections=0, closed=closed, refused=refused)
        told = GatewayReport(consumer="gateway-0", boot_id="b", sent_at_ms=0, instances=(of_one,))
        plane.gateways.receive(told, monotonic_ms())

    await looks()
    assert (await one(operator, instance, "unknown_address"))["state"] == "unknown"
    report({"not_whitelisted": 1_000})
    await looks()
    report({"not_whitelisted": 1_726, "authentication_failed": 9})
    await looks()
    knocks = await one(operator, instance, "unknown_address")
    assert (knocks["state"], knocks["value"]) == ("raised", 726)
    assert "192.0.2.9" in knocks["says"]
    assert (await one(operator, instance, "wrong_passwords"))["state"] == "unknown"


async def test_silence_is_heard_by_nobody_and_ends(
    operator: Caller, looks: Looks, master: MasterServer
) -> None:
    instance = await raised(operator, looks, master)
    path = f"instances/{instance}/alarms/throttled_produce/silence"
    until = datetime.fromtimestamp(looks.now_ms / 1000, UTC) + timedelta(hours=4)
    silenced = (await operator("PUT", path, json={"until": until.isoformat()})).json()
    assert silenced["silenced_by"] == "operator:key:local operator key"
    assert silenced["state"] == "raised", "it is looked at all the same"
    looks.now_ms += 5 * 3_600_000
    assert (await one(operator, instance, "throttled_produce"))["silenced_until"] is None
    over = (await operator("DELETE", path)).json()
    assert over["silenced_until"] is None
    for wrong in ("2001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"):
        refused = await operator("PUT", path, json={"until": wrong})
        assert [each["field"] for each in refused.json()["errors"]] == ["until"]


async def test_a_viewer_sees_and_a_developer_acknowledges_and_an_owner_rules(
    operator: Caller, looks: Looks, master: MasterServer
) -> None:
    owner = await operator.tenant("acme")
    instance = await raised(owner, looks, master)
    path = f"instances/{instance}/alarms/throttled_produce"
    viewer, developer = await operator.tenant("acme", "viewer"), await operator.tenant("acme", "developer")
    assert (await viewer("GET", "alarms")).json()["items"]
    assert (await viewer("POST", f"{path}/acknowledge")).status_code == 403
    assert (await developer("POST", f"{path}/acknowledge")).status_code == 200
    assert (await developer("PUT", f"{path}/rule", json=AT_ONCE)).status_code == 403
    assert (await owner("GET", "alarms/deployment")).status_code == 403
    assert (await owner("PUT", "alarms/full/rule", json=AT_ONCE)).status_code == 403


async def test_nobody_sees_anothers(operator: Caller, looks: Looks, master: MasterServer) -> None:
    owner, stranger = await operator.tenant("acme"), await operator.tenant("other")
    instance = await raised(owner, looks, master, "secret-project")
    listed = (await stranger("GET", "alarms")).json()
    assert listed["items"] == [] and "secret" not in str(listed)
    for method, path in (("GET", "alarms"), ("GET", "alarms/history"), ("POST", "alarms/full/acknowledge")):
        assert (await stranger(method, f"instances/{instance}/{path}")).status_code == 404
    assert (await stranger("GET", "alarms?tenant=acme")).status_code == 403
    assert (await stranger("GET", "alarms/history")).json()["items"] == []
    assert (await stranger("GET", "alarms/history?tenant=acme")).status_code == 403
    [line] = (await owner("GET", "alarms/history")).json()["items"]
    assert (line["instance_name"], line["event"]) == ("secret-project", "raised")
    told = (await operator("GET", "alarms/history?tenant=*")).json()["items"]
    assert line["instance_id"] in [each["instance_id"] for each in told]
    everybody = (await operator("GET", "alarms?tenant=*")).json()["items"]
    assert [each["instance_name"] for each in everybody if each["instance_id"]] == ["secret-project"]


async def test_rules_of_an_instance_of_all_and_the_built_in(operator: Caller) -> None:
    made = await operator.order()
    path = f"instances/{made['id']}/alarms/throttled_produce/rule"
    for_all = {**AT_ONCE, "threshold": 70, "enabled": True}
    assert (await operator("PUT", "alarms/throttled_produce/rule", json=for_all)).json()["threshold"] == 70
    assert (await one(operator, made["id"], "throttled_produce"))["rule"]["threshold"] == 70
    assert (await operator("PUT", path, json=AT_ONCE)).json()["threshold"] == 50
    assert (await operator("DELETE", path)).json()["threshold"] == 70
    rules = (await operator("GET", "alarms/rules")).json()["items"]
    assert [each["rule"]["kind"] for each in rules if each["changed"]] == ["throttled_produce"]
    assert (await operator("DELETE", "alarms/throttled_produce/rule")).json()["threshold"] == 50
    wrong = await operator("PUT", path, json={**AT_ONCE, "threshold": 101, "window_minutes": 0})
    assert {each["field"] for each in wrong.json()["errors"]} == {"threshold", "window_minutes"}
    missing = await operator("PUT", f"instances/{made['id']}/alarms/gateway_silent/rule", json=AT_ONCE)
    assert missing.status_code == 404, "an instance has no such alarm"


async def test_pages_of_what_is_raised(operator: Caller, looks: Looks, master: MasterServer) -> None:
    for name in ("a", "b", "c"):
        await raised(operator, looks, master, name)
    first = (await operator("GET", "alarms?limit=2")).json()
    rest = (await operator("GET", f"alarms?limit=2&cursor={first['next_cursor']}")).json()
    names = [each["instance_name"] for each in (*first["items"], *rest["items"])]
    assert sorted(names) == ["a", "b", "c"] and rest["next_cursor"] is None


async def test_history_is_bounded_for_each_instance(plane: Console, operator: Caller) -> None:
    one_of, other = await operator.order("one"), await operator.order("other")
    with plane.store.write() as connection:
        for number in range(HISTORY_MAX + 50):
            entry = Entry(number, str(one_of["id"]), AlarmKind.FULL, "", AlarmEvent.RAISED, f"{number}", None)
            alarms.record(connection, [entry])
        alarms.record(
            connection, [Entry(1, str(other["id"]), AlarmKind.FULL, "", AlarmEvent.RAISED, "kept", None)]
        )
    kept = (await operator("GET", f"instances/{one_of['id']}/alarms/history")).json()["items"]
    assert (len(kept), kept[0]["says"], kept[-1]["says"]) == (HISTORY_MAX, str(HISTORY_MAX + 49), "50")
    assert len((await operator("GET", f"instances/{other['id']}/alarms/history")).json()["items"]) == 1


async def test_what_was_raised_is_raised_after_a_restart(
    operator: Caller, looks: Looks, master: MasterServer, make_console: Any
) -> None:
    instance = await raised(operator, looks, master)
    again = make_console()
    runner = again.alarm_runner_of(SoleOffice())  # on Postgres the first one is still there
    try:
        await runner.look(looks.now_ms + LOOK_EVERY_MS)
    finally:
        again.close()
    told = await one(operator, instance, "throttled_produce")
    assert told["raised_at"] is not None
    assert told["state"] == "unknown", "its window was not looked at yet by the new process"


async def test_who_does_not_hold_the_office_writes_nothing(
    operator: Caller, looks: Looks, master: MasterServer
) -> None:
    class Nobody:
        since_ms = 0  # the office is lost between the look and its writing down

        def holds(self, _connection: object) -> bool:
            return False

    made = await operator.order()
    throttle(master, str(made["id"]), 970)
    runner = looks.plane.alarm_runner_of(Nobody())
    for _ in range(10):
        looks.now_ms += LOOK_EVERY_MS
        await runner.look(looks.now_ms)
    assert (await operator("GET", f"instances/{made['id']}/alarms")).json()["looked_at"] is None


async def test_a_deleted_instance_has_no_alarm(operator: Caller, looks: Looks, master: MasterServer) -> None:
    instance = await raised(operator, looks, master)
    await operator("DELETE", f"instances/{instance}")
    assert (await operator("GET", "alarms")).json()["items"] == []
    await looks()
    with looks.plane.store.read() as connection:
        assert alarms.of_instance(connection, instance) == []
    assert looks.plane.alarms.raised_by_kind() == {}


@pytest.fixture
def evil_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every instance has a group that falls behind, whose name no database takes as it is."""
    real = alarm_figures.lag_growing

    def growing(_seen: LagSeen | None, now_ms: int) -> object:
        group = GroupLag("evil\0\ud800\u202e", 10**6)
        return real(LagSeen({group.group: group}, now_ms, True, group), now_ms)

    monkeypatch.setattr("tenants.rules.alarm_figures.lag_growing", growing)


@pytest.mark.usefixtures("evil_group")
async def test_a_groups_name_is_no_obstacle(operator: Caller, looks: Looks, master: MasterServer) -> None:
    instance = await raised(operator, looks, master)
    await operator(
        "PUT", f"instances/{instance}/alarms/lag_growing/rule", json={**AT_ONCE, "window_minutes": 0}
    )
    await looks(2)
    told = await one(operator, instance, "lag_growing")
    assert told["state"] == "raised"
    assert "group evil\\x00\\ud800\\u202e is 1000000 records behind" in told["says"]


async def test_an_instance_that_cannot_be_written_stops_no_other(
    operator: Caller, looks: Looks, master: MasterServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    evil = await operator.order("evil")
    real = alarm_figures.silent_brokers
    lines = iter(["broker \ud800", *["broker \udfff"] * 100])

    def silent(told: Any) -> Any:
        found = real(told)
        return found if told is None or told.instance_id != evil["id"] else replace(found, says=next(lines))

    master.knows(str(evil["id"]))
    monkeypatch.setattr("tenants.rules.alarm_figures.silent_brokers", silent)
    with monkeypatch.context() as unescaped:
        unescaped.setattr("tenants.rules.alarms.printable", lambda text: text)
        other = await raised(operator, looks, master)
        assert (await one(operator, other, "throttled_produce"))["state"] == "raised"
        assert (await one(operator, evil["id"], "broker_silent"))["says"] == "not looked at yet"
        assert (await operator("GET", "alarms")).json()["looked_at"] is not None
    await looks()
    assert (await one(operator, evil["id"], "broker_silent"))["says"] == "broker \\udfff", "it is tried again"


async def test_a_look_that_fails_is_not_the_last(plane: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    looked, again = [], asyncio.Event()

    async def look(_now_ms: int) -> None:
        looked.append(None)
        if len(looked) == 1:
            raise ValueError("what nobody thought of")
        again.set()

    monkeypatch.setattr("tenants.alarm_runner.LOOK_EVERY_MS", 1)
    monkeypatch.setattr(plane.alarm_runner, "look", look)
    task = asyncio.create_task(RUN(plane.alarm_runner))
    async with asyncio.timeout(30):
        await again.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_how_late_groups_are_is_one_figure_of_an_instance(plane: Console) -> None:
    while plane.office.since_ms is None:
        await asyncio.sleep(0.05)
    for instance, ages in (("iaaaaaaaaaaa", {"a": 61.0, "b": 5.0, "c": None}), ("ibbbbbbbbbbb", {"a": None})):
        seen = plane.alarm_lags.seen[instance] = LagSeen()
        seen.take([GroupLag(name, 5) for name in ages], frozenset(), epoch_ms())
        seen.take_ages({name: oldest([age]) for name, age in ages.items()}, frozenset(), epoch_ms())
    plane.alarm_lags.seen["icccccccccccc"] = LagSeen(at_ms=epoch_ms())
    [family] = [
        each for each in ConsoleCollector(plane).collect() if each.name == "portico_group_lag_seconds"
    ]
    told = [(sample.labels, sample.value) for sample in family.samples]
    assert told == [({"instance": "iaaaaaaaaaaa"}, 61.0)], "what is not known is not told"

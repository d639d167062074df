"""What clients tell of themselves, at the control plane: kept in bounds, told on, and shown to its tenant."""

from typing import Any

import msgspec

from contracts.access_orders import AccessAnswer, AccessOrder
from contracts.client_metrics import SUBSCRIPTIONS_MAX, ClientReport, LostClient, MetricsSubscription
from contracts.specs import GatewayInstanceReport, GatewayReport
from runtime.clock import monotonic_ms
from tenants.console import Console
from tenants.rules.client_reports import CLIENTS_KEPT, CLIENTS_KEPT_IN_ALL, KEPT_MS, ClientReports
from tenants.rules.model import Caller as Asker
from tenants.rules.model import spec_of
from tenants.rules.permissions import Role

from .conftest import Caller

OPERATOR = Asker("key", "test", "default", Role.OPERATOR, None)
A, B = "iaaaaaaaaaaa", "ibbbbbbbbbbb"
LATENCY = "org.apache.kafka.producer.request.latency.avg"


def report(name: str, **changes: Any) -> ClientReport:
    known: dict[str, Any] = {"client_instance_id": name, "age_ms": 0, "address": "10.0.0.1"}
    return ClientReport(**known | {"push_interval_ms": 1000} | changes)


def names(reports: ClientReports, instance_id: str, now_ms: int) -> list[str]:
    return [seen.report.client_instance_id for seen in reports.clients(instance_id, now_ms)]


def test_the_last_push_of_each_client_is_kept_the_newest_first() -> None:
    reports = ClientReports()
    reports.receive(A, [report("one"), report("two")], (), 1_000)
    reports.receive(A, [report("one", values={LATENCY: 2.0}, age_ms=500)], (), 3_000)
    reports.receive(A, [report("one", values={LATENCY: 1.0}, age_ms=1_900)], (), 3_000)  # came late
    newest = reports.clients(A, 3_000)[0]
    assert (newest.seen_ms, newest.report.values) == (2_500, {LATENCY: 2.0})
    assert names(reports, A, 3_000) == ["one", "two"] and not names(reports, B, 3_000)


def test_a_silent_client_is_forgotten() -> None:
    reports = ClientReports()
    reports.receive(A, [report("one")], (), 1_000)
    assert not names(reports, A, 1_000 + KEPT_MS)
    assert reports.count == 1
    reports.receive(B, [report("two")], (), 1_000 + KEPT_MS)
    assert reports.count == 1 and names(reports, B, 1_000 + KEPT_MS) == ["two"]


def test_an_instance_with_very_many_clients_forgets_its_own() -> None:
    reports = ClientReports()
    reports.receive(B, [report("mine")], (), 0)
    reports.receive(A, [report(str(number)) for number in range(CLIENTS_KEPT + 5)], (), 1)
    assert len(names(reports, A, 1)) == CLIENTS_KEPT and reports.forgotten == 5
    assert names(reports, B, 1) == ["mine"]


def test_many_instances_with_many_clients_make_room_for_one_with_few() -> None:
    reports = ClientReports()
    for number in range(CLIENTS_KEPT_IN_ALL // CLIENTS_KEPT):
        reports.receive(f"i{number}", [report(str(each)) for each in range(CLIENTS_KEPT)], (), 1)
    reports.receive(B, [report("mine"), report("another")], (), 2)
    assert reports.count == CLIENTS_KEPT_IN_ALL
    assert names(reports, B, 2) == ["another", "mine"]


def test_another_control_process_hears_of_it_whatever_one_instance_tells() -> None:
    here, there = ClientReports(), ClientReports()
    here.receive(B, [report("mine")], (), 900)
    here.receive(A, [report(str(number)) for number in range(400)], (), 1_000)
    told = here.told_lately(1_200)
    assert len(told) < 40
    there.hear(told, 50_000)
    (mine,) = there.clients(B, 50_000)
    assert mine.seen_ms == 49_700
    assert not there.told_lately(50_000), "nobody lives on in rumours"
    assert not here.told_lately(60_000)


def lost(name: str, age_ms: int) -> LostClient:
    return LostClient(client_instance_id=name, age_ms=age_ms)


def test_a_client_whose_connection_ended_is_lost_until_it_tells_again() -> None:
    reports, there = ClientReports(), ClientReports()
    reports.receive(A, [report("one", values={LATENCY: 2.0}), report("two")], (), 1_000)
    reports.receive(A, [], [lost("one", 1_000), lost("never told", 0)], 2_000)
    assert reports.clients(B, 2_000) == []
    two, one = reports.clients(A, 2_000)
    assert one.is_lost and (one.seen_ms, one.report.values) == (1_000, {LATENCY: 2.0}) and not two.is_lost
    there.hear(reports.told_lately(2_000), 50_000)
    assert {each.report.client_instance_id: each.is_lost for each in there.clients(A, 50_000)} == {
        "one": True,
        "two": False,
    }
    reports.receive(A, [report("one")], (), 9_000)
    assert not reports.clients(A, 9_000)[0].is_lost


def test_who_tells_by_another_connection_is_not_lost_with_an_older_one() -> None:
    reports = ClientReports()
    reports.receive(A, [report("one")], (), 60_000)
    reports.receive(A, [], [lost("one", 40_000)], 61_000)
    assert not reports.clients(A, 61_000)[0].is_lost


def test_the_last_push_counts_though_the_one_before_took_longer_to_come() -> None:
    reports = ClientReports()
    reports.receive(A, [report("one")], (), 5_400)  # 400 ms under way
    reports.receive(A, [report("one", is_last=True, age_ms=300)], (), 5_500)
    assert reports.clients(A, 5_500)[0].report.is_last


def told(plane: Console, instance_id: str, *clients: ClientReport, lost: tuple[LostClient, ...] = ()) -> None:
    """A gateway worker reports, by the words that go over the wire."""
    one = GatewayInstanceReport(instance_id=instance_id, connections=1, clients=clients, lost=lost)
    whole = GatewayReport(consumer="gateway-0", boot_id="b", sent_at_ms=0, instances=(one,))
    heard = msgspec.json.decode(msgspec.json.encode(whole), type=GatewayReport)
    plane.client_reports.receive(heard, monotonic_ms())


async def test_a_tenant_sees_its_own_clients_with_their_age(plane: Console, operator: Caller) -> None:
    owner, stranger = await operator.tenant("acme"), await operator.tenant("umbrella")
    instance, theirs = str((await owner.order())["id"]), str((await stranger.order())["id"])
    empty = (await owner("GET", f"instances/{instance}/clients")).json()
    assert empty == {"enabled": True, "subscriptions": [], "known": 0, "items": []}
    told(plane, instance, report("one", client_id="app", age_ms=9_000, values={LATENCY: 2.5}))
    told(plane, instance, report("four"), report("two", is_last=True), report("three"))
    told(plane, instance, lost=(lost("two", 10), lost("four", 10)))
    listed = (await owner("GET", f"instances/{instance}/clients", params={"limit": 4})).json()
    assert listed["known"] == 4
    assert [(one["client_instance_id"], one["state"]) for one in listed["items"]] == [
        ("three", "live"),
        ("two", "ended"),
        ("four", "disconnected"),
        ("one", "silent"),
    ]
    app = listed["items"][-1]
    assert app["client_id"] == "app" and app["age_ms"] >= 9_000 and app["metrics"] == {LATENCY: 2.5}
    assert app["shown"]["request_latency_avg_ms"] == 2.5 and app["shown"]["retries"] is None
    told(plane, theirs, report("theirs"))
    assert (await owner("GET", f"instances/{instance}/clients")).json()["known"] == 4
    foreign = await owner("GET", f"instances/{theirs}/clients")
    nobodys = await owner("GET", "instances/izzzzzzzzzzz/clients")
    assert foreign.status_code == nobodys.status_code == 404


async def test_metrics_are_on_until_they_are_switched_off(plane: Console, operator: Caller) -> None:
    instance = str((await operator.order())["id"])
    assert (await operator("GET", f"instances/{instance}")).json()["client_metrics"] is True
    changed = await operator("PATCH", f"instances/{instance}", json={"client_metrics": False})
    assert changed.status_code in (200, 202)
    assert not spec_of(plane.instances.get(OPERATOR, instance)).client_metrics
    assert not (await operator("GET", f"instances/{instance}/clients")).json()["enabled"]


async def test_subscriptions_come_from_gateways_in_bounds(plane: Console, operator: Caller) -> None:
    instance = str((await operator.order())["id"])

    def order(*wanted: MetricsSubscription) -> AccessAnswer:
        who = {"instance_id": instance, "principal": "User:app", "address": "192.0.2.7"}
        return plane.user_orders.carry_out(AccessOrder(**who, subscriptions=wanted))

    def kept() -> list[str]:
        return [one.name for one in spec_of(plane.instances.get(OPERATOR, instance)).metric_subscriptions]

    made = order(
        MetricsSubscription(name="b", metrics=("m.",)), MetricsSubscription(name="a", interval_ms=500)
    )
    assert not made.refusal and made.revision and kept() == ["a", "b"]
    listed = (await operator("GET", f"instances/{instance}/clients")).json()
    assert listed["subscriptions"] == ["a", "b"]
    assert not order(MetricsSubscription(name="b"), MetricsSubscription(name="unmade")).refusal
    assert kept() == ["a"]
    for wrong in ({"interval_ms": 1}, {"match": ("host=x",)}, {"match": ("client_id=(",)}):
        assert order(MetricsSubscription(name="c", **wrong)).refusal  # type: ignore[arg-type]
    many = [MetricsSubscription(name=f"m{number}", metrics=("x",)) for number in range(SUBSCRIPTIONS_MAX)]
    assert str(SUBSCRIPTIONS_MAX) in order(*many).refusal and kept() == ["a"]
    audit = (await operator("GET", "audit")).json()["items"]
    assert "client_metrics.subscribe" in {one["action"] for one in audit}

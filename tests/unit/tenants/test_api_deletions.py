"""Deleted and absent instances over REST: what is kept, who may take it back, what a purge waits for."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from contracts.holdings import Holding, HoldingsAnswer, HoldingsReport
from contracts.specs import BrokerAddress, ConsumerKind, FeedRequest, FeedResponse, InstanceSpec, PurgeRefusal
from runtime.internal_http import InternalClient
from tenants.console import Console
from tenants.purge_rule import LEARN_MS
from tenants.rules.lifecycle import State
from tenants.rules.vports import Endpoint
from tenants.store import instances
from tests.servers.databases import Databases

from .conftest import Caller

BROKER = BrokerAddress(node_id=1, host="127.0.0.1", port=9)


class Follower:
    """A process that polls, by hand."""

    def __init__(self, internal: InternalClient, consumer: str, kind: ConsumerKind) -> None:
        self._internal, self._consumer, self._kind = internal, consumer, kind
        self.answer = FeedResponse(feed_id="", revision=0, full=True)
        self.specs: dict[str, InstanceSpec] = {}

    async def poll(self, **more: Any) -> FeedResponse:
        is_broker = self._kind is ConsumerKind.BROKER
        request = FeedRequest(
            consumer=self._consumer,
            kind=self._kind,
            applied_revision=self.answer.revision,
            feed_id=self.answer.feed_id,
            mark=self.answer.mark,
            broker=BROKER if is_broker else None,
            cluster_id="builtin-1" if is_broker else None,
            **more,
        )
        self.answer = await self._internal.post("/internal/v1/feed", request, FeedResponse)
        self.specs |= {one.instance_id: one for one in self.answer.instances}
        return self.answer

    async def follow(self, **more: Any) -> None:
        """Until there is nothing new, which it has then acknowledged."""
        while True:
            answer = await self.poll(**more)
            if not (answer.full or answer.instances or answer.clusters):
                return


def _gateway(internal: InternalClient, number: int = 0) -> Follower:
    return Follower(internal, f"gateway-{number}", ConsumerKind.GATEWAY)


def _broker(internal: InternalClient) -> Follower:
    return Follower(internal, "broker-1", ConsumerKind.BROKER)


def _state(console: Console, instance_id: object) -> State:
    with console.store.read() as connection:
        found = instances.by_id(connection, str(instance_id))
    assert found is not None
    return found.state


def _is_due(console: Console, instance_id: object) -> None:
    """Let its grace be over."""
    with console.store.write() as connection:
        found = instances.by_id(connection, str(instance_id))
        assert found is not None and found.deletion is not None
        over = msgspec.structs.replace(found.deletion, purge_after_ms=1)
        instances.save(connection, found.with_(deletion=over), 1)


def _listens_for_long(console: Console) -> None:
    console.purge._started_at_ms -= LEARN_MS  # a test does not wait


async def _report(internal: InternalClient, *holdings: Holding, consumer: str = "broker-1") -> HoldingsAnswer:
    report = HoldingsReport(
        consumer=consumer, kind=ConsumerKind.BROKER, cluster_id="builtin-1", holdings=holdings
    )
    return await internal.post("/internal/v1/holdings", report, HoldingsAnswer)


async def test_a_deleted_instance_comes_back_as_it_was(
    plane: Console, operator: Caller, internal: InternalClient
) -> None:
    made = await operator.order()
    await _gateway(internal).follow()
    await plane.feed.settle()
    gone = (await operator("DELETE", "instances/shop")).json()
    assert gone["state"] == "deleted"
    [listed] = (await operator("GET", "deleted-instances")).json()["items"]
    assert (listed["id"], listed["name"], listed["purge_after"]) == (
        made["id"],
        "shop",
        gone["deletion"]["purge_after"],
    )
    await _report(internal, Holding(instance_id=str(made["id"]), stored_bytes=77, partitions=2))
    [listed] = (await operator("GET", "deleted-instances")).json()["items"]
    assert (listed["stored_bytes"], listed["waits_for"]) == (77, None)
    other = await operator.order("other")
    assert other["bootstrap_servers"] != made["bootstrap_servers"], "its vport stays its own"
    back = await operator("POST", f"deleted-instances/{made['id']}/undelete")
    assert back.json()["id"] == made["id"]
    assert back.json()["bootstrap_servers"] == made["bootstrap_servers"]
    assert back.json()["state"] == "creating"
    assert (await operator("GET", "deleted-instances")).json()["items"] == []


async def test_whose_name_is_taken_comes_back_under_another(operator: Caller) -> None:
    first = await operator.order()
    await operator("DELETE", "instances/shop")
    second = await operator.order()
    await operator("DELETE", "instances/shop")
    ambiguous = await operator("POST", "deleted-instances/shop/undelete")
    assert ambiguous.status_code == 409 and str(second["id"]) in ambiguous.text
    third = await operator.order()
    taken = await operator("POST", f"deleted-instances/{first['id']}/undelete")
    assert taken.status_code == 409 and "--name" in taken.json()["detail"]
    path = f"deleted-instances/{first['id']}/undelete"
    back = await operator("POST", path, json={"name": "shop-again"})
    assert (back.status_code, back.json()["name"]) == (200, "shop-again")
    assert (await operator("POST", path)).status_code == 404, "it is not deleted any more"
    assert (await operator("POST", f"deleted-instances/{third['id']}/undelete")).status_code == 404


async def test_who_was_suspended_comes_back_suspended(operator: Caller) -> None:
    made = await operator.order()
    await operator("POST", "instances/shop/suspend")
    await operator("DELETE", "instances/shop")
    back = await operator("POST", f"deleted-instances/{made['id']}/undelete")
    assert back.json()["state"] == "suspended"


async def test_a_purge_waits_for_its_grace_and_for_everybody_who_may_know_more(
    plane: Console, operator: Caller, internal: InternalClient
) -> None:
    made = await operator.order()
    gateway, broker = _gateway(internal), _broker(internal)
    await broker.follow()
    await gateway.follow()
    await operator("DELETE", "instances/shop")
    _listens_for_long(plane)
    await broker.follow()
    await gateway.follow()
    await plane.feed.settle()
    assert plane.purge._begin() == []
    assert _state(plane, made["id"]) is State.DELETED, "its grace is not over"
    _is_due(plane, made["id"])
    await plane.feed.settle()
    plane.purge._begin()
    assert "must hear of it first" in plane.purge.waiting[str(made["id"])]
    objection = PurgeRefusal(instance_id=str(made["id"]), reason="known elsewhere")
    await broker.follow(purge_refusals=(objection,))
    await gateway.follow()
    await plane.feed.settle()
    plane.purge._begin()
    [listed] = (await operator("GET", "deleted-instances")).json()["items"]
    assert listed["waits_for"] == "broker-1 objects: known elsewhere"
    await broker.follow()
    await plane.feed.settle()
    assert plane.purge._begin() == []
    assert _state(plane, made["id"]) is State.PURGING
    assert (await operator("POST", f"deleted-instances/{made['id']}/undelete")).status_code == 409
    assert plane.purge._begin() == [], "the order must be heard of"
    await broker.follow()
    await gateway.follow()
    assert broker.specs[str(made["id"])].state == "purged"
    await plane.feed.settle()
    assert [one.id for one in plane.purge._begin()] == [made["id"]]


async def test_a_second_control_plane_waits_for_gateways_that_only_the_first_hears(
    plane: Console, operator: Caller, internal: InternalClient, make_console: Callable[..., Console]
) -> None:
    made = await operator.order()
    gateway = _gateway(internal)
    await gateway.follow()
    await plane.feed.settle()
    second = make_console()
    _listens_for_long(second)
    _listens_for_long(plane)
    await operator("DELETE", "instances/shop")
    _is_due(plane, made["id"])
    assert second.feed.consumers == {}
    assert second.purge._begin() == []
    assert _state(second, made["id"]) is State.DELETED, "the gateway still serves it"
    assert second.purge.waiting[str(made["id"])] == "gateway-0 must hear of it first"
    await gateway.follow()
    await plane.feed.settle()
    second.purge._begin()
    if second.store.is_shared:  # it does not hold the office: it knows why, and orders nothing
        while plane.office.since_ms is None:
            await asyncio.sleep(0.05)
        assert second.office.since_ms is None
        await asyncio.to_thread(plane.purge._begin)
    assert _state(second, made["id"]) is State.PURGING
    second.close()


async def test_operators_purge_at_once_and_nobody_else_does(
    plane: Console, operator: Caller, internal: InternalClient
) -> None:
    owner = await operator.tenant("acme")
    made = await owner.order()
    path = f"deleted-instances/{made['id']}/purge"
    assert (await operator("POST", path)).status_code == 409, "delete it first"
    await owner("DELETE", "instances/shop")
    assert (await owner("POST", path)).status_code == 403
    assert (await operator("POST", path)).json()["state"] == "purging"
    told = _gateway(internal)
    await told.follow()
    order = told.specs[str(made["id"])]
    assert order.state == "purged" and order.deletion is not None and order.deletion.confirmed


async def test_a_restored_database_begins_a_lineage_and_holds_what_was_deleted_before(
    plane: Console,
    operator: Caller,
    internal: InternalClient,
    databases: Databases,
    store_url: str,
) -> None:
    made = await operator.order()
    await operator("DELETE", "instances/shop")
    _is_due(plane, made["id"])
    copy = databases.copy(store_url)
    broker, other = _broker(internal), _gateway(internal)
    await other.follow()
    at_copy = (other.answer.feed_id, other.answer.revision, other.answer.mark)
    await operator("POST", f"deleted-instances/{made['id']}/undelete")
    await broker.follow()
    before = broker.answer.feed_id
    databases.replace(store_url, copy)  # while it runs
    await operator.order("new")  # the same revisions are drawn again
    await operator.order("newer")
    await operator.order("newest")
    answer = await broker.poll()
    assert answer.full and not answer.continues
    assert answer.feed_id != before
    assert answer.parent is not None and answer.parent.feed_id == before
    assert broker.specs[str(made["id"])].state == "deleted"
    answer = await other.poll()
    assert answer.continues == (at_copy[1] <= answer.parent.revision) and not answer.full  # type: ignore[union-attr]
    await broker.follow()
    await other.follow()
    await plane.feed.settle()
    _listens_for_long(plane)
    assert plane.purge._begin() == []
    assert _state(plane, made["id"]) is State.DELETED
    [listed] = (await operator("GET", "deleted-instances")).json()["items"]
    assert "restored" in listed["waits_for"]
    back = await operator("POST", f"deleted-instances/{made['id']}/undelete", json={"name": "back"})
    assert back.json()["id"] == made["id"]


@pytest.fixture
async def absent(operator: Caller, internal: InternalClient, plane: Console) -> InstanceSpec:
    """An instance that only a broker knows: its row is not in this database."""
    made = await operator.order(allow_all=True, limits={"partitions_max": 7})
    broker = _broker(internal)
    await broker.follow()
    with plane.store.write() as connection:
        for table in ("ports", "outbox", "instances"):
            column = {"ports": "instance_id", "outbox": "subject_id", "instances": "id"}[table]
            connection.exec_driver_sql(f"DELETE FROM {table} WHERE {column} = '{made['id']}'")
    spec = broker.specs[str(made["id"])]
    holding = Holding(
        instance_id=spec.instance_id, absent_since_ms=5, stored_bytes=123, partitions=4, has_spec=True
    )
    answer = await _report(internal, holding)
    assert answer.wanted == (spec.instance_id,)
    answer = await _report(internal, msgspec.structs.replace(holding, spec=spec))
    assert answer.wanted == ()
    return spec


async def test_an_absent_instance_is_shown_and_its_address_given_to_nobody(
    plane: Console, operator: Caller, absent: InstanceSpec
) -> None:
    [listed] = (await operator("GET", "absent-instances")).json()["items"]
    assert (listed["id"], listed["name"], listed["stored_bytes"], listed["partitions"]) == (
        absent.instance_id,
        "shop",
        123,
        4,
    )
    assert listed["holders"] == ["broker-1"]
    health = (await operator("GET", "health")).json()
    assert (health["status"], health["absent_instances"]) == ("degraded", 1)
    other = await operator.order("other")
    ports = {f"{one.advertised_host}:{one.port}" for one in absent.listeners}
    assert other["bootstrap_servers"] not in ports


async def test_an_absent_instance_is_adopted_as_it_was_served_last(
    plane: Console, operator: Caller, absent: InstanceSpec, internal: InternalClient
) -> None:
    owner = await operator.tenant("acme")
    adopted = await operator("POST", f"absent-instances/{absent.instance_id}/adopt", json={"tenant": "acme"})
    assert adopted.status_code == 201, adopted.text
    view = (await owner("GET", f"instances/{absent.instance_id}")).json()
    assert (view["name"], view["allow_all"], view["limits"]["partitions_max"]) == ("shop", True, 7)
    gateway = _gateway(internal)
    await gateway.follow()
    assert gateway.specs[absent.instance_id].listeners == absent.listeners, "the same vports"
    assert (await operator("GET", "absent-instances")).json()["items"] == []
    again = await operator("POST", f"absent-instances/{absent.instance_id}/adopt", json={"tenant": "acme"})
    assert again.status_code == 409


async def test_a_port_that_somebody_else_has_by_now_is_replaced(
    operator: Caller, absent: InstanceSpec, internal: InternalClient, taken: set[Endpoint]
) -> None:
    lost = absent.listeners[0]
    taken.add(Endpoint(lost.bind_host, lost.port))
    path = f"absent-instances/{absent.instance_id}/adopt"
    await operator("POST", path, json={"tenant": "default"})
    gateway = _gateway(internal)
    await gateway.follow()
    now = gateway.specs[absent.instance_id].listeners
    assert len(now) == len(absent.listeners)
    assert lost not in now


async def test_an_absent_instance_is_discarded_with_a_grace_that_brokers_obey(
    operator: Caller, absent: InstanceSpec, internal: InternalClient
) -> None:
    gone = await operator("POST", f"absent-instances/{absent.instance_id}/discard")
    assert (gone.status_code, gone.json()["state"]) == (202, "deleted")
    [listed] = (await operator("GET", "deleted-instances")).json()["items"]
    assert (listed["id"], listed["stored_bytes"]) == (absent.instance_id, 123)
    gateway = _gateway(internal)
    await gateway.follow()
    deletion = gateway.specs[absent.instance_id].deletion
    assert deletion is not None and deletion.confirmed
    back = await operator("POST", f"deleted-instances/{absent.instance_id}/undelete")
    assert back.status_code == 200


async def test_what_nobody_knows_any_more_must_be_said(operator: Caller, internal: InternalClient) -> None:
    await _broker(internal).follow()
    await _report(
        internal, Holding(instance_id="izzzzzzzzzzz", absent_since_ms=5, stored_bytes=9, partitions=1)
    )
    path = "absent-instances/izzzzzzzzzzz/adopt"
    refused = await operator("POST", path, json={"tenant": "default"})
    assert refused.status_code == 409
    assert {one["field"] for one in refused.json()["errors"]} == {
        "name",
        "produce_rate_bytes_per_s",
        "consume_rate_bytes_per_s",
        "capacity_bytes",
    }
    said = {
        "tenant": "default",
        "name": "rescued",
        "produce_rate_bytes_per_s": 10**6,
        "consume_rate_bytes_per_s": 10**6,
        "capacity_bytes": 10**9,
    }
    assert (await operator("POST", path, json={**said, "tenant": "nobody"})).status_code == 404
    adopted = await operator("POST", path, json=said)
    assert (adopted.status_code, adopted.json()["whitelist"]) == (201, []), "nobody is admitted until told"


async def test_only_operators_see_what_is_absent(operator: Caller, absent: InstanceSpec) -> None:
    owner = await operator.tenant("acme")
    assert (await owner("GET", "absent-instances")).status_code == 403
    assert (await owner("GET", "health")).json() == {
        **(await owner("GET", "health")).json(),
        "absent_instances": None,
    }


async def test_metrics_tell_of_what_is_kept(plane: Console, absent: InstanceSpec) -> None:
    from tenants.metrics import ConsoleCollector

    told = {
        sample.name: sample.value
        for metric in ConsoleCollector(plane).collect()
        for sample in metric.samples
        if "absent" in sample.name or "deleted_stored" in sample.name
    }
    assert told == {
        "portico_absent_instances": 1,
        "portico_absent_stored_bytes": 123,
        "portico_deleted_stored_bytes": 0,
    }

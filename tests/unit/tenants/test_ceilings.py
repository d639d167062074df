"""What a tenant may have and a cluster may sell: orders beyond it are refused, to nobody else's harm."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from contracts.specs import BrokerAddress
from runtime.clock import epoch_ms
from tenants.console import Console
from tenants.rules.ceilings import BROKER_DEFAULT, TENANT_DEFAULT, Amounts, Room, cluster_default
from tenants.rules.errors import Conflict, LimitReached
from tenants.rules.model import Caller as Asker
from tenants.rules.permissions import Role
from tenants.store import instances
from tenants.usecases.instances import Change, NewInstance, Usage

from .conftest import ORDER, Caller

_GB = 10**9


def _order(name: str, capacity_bytes: int = _GB) -> NewInstance:
    return NewInstance(
        name=name,
        produce_rate_bytes_per_s=10**6,
        consume_rate_bytes_per_s=10**6,
        capacity_bytes=capacity_bytes,
        allow_all=True,
    )


def _owner(tenant: str) -> Asker:
    return Asker("key", "k", tenant, Role.OWNER, None)


def _operator() -> Asker:
    return Asker("key", "o", "default", Role.OPERATOR, None)


def _served(plane: Console, instance_id: str) -> None:
    with plane.store.write() as connection:
        instances.mark_served(connection, instance_id, epoch_ms())


# --- the rule --------------------------------------------------------------------------------------


def test_an_order_that_fits_exactly_fits() -> None:
    room = Room(Amounts(instances=2, capacity_bytes=10), Amounts(instances=1, capacity_bytes=4))
    assert room.left == Amounts(instances=1, capacity_bytes=6)
    assert room.excesses(Amounts(instances=1, capacity_bytes=6)) == []
    [excess] = room.excesses(Amounts(instances=1, capacity_bytes=7))
    assert (excess.what, excess.ceiling, excess.sold, excess.asked) == ("capacity_bytes", 10, 4, 7)
    assert (
        excess.sentence("tenant 't'") == "tenant 't' may have 10 B of capacity in all: 4 B taken, 7 B asked"
    )


def test_who_is_beyond_a_lowered_ceiling_keeps_what_he_has_and_may_shrink() -> None:
    has = Amounts(instances=1, capacity_bytes=8, partitions=300)
    room = Room(Amounts(capacity_bytes=5), has)
    assert room.left == Amounts()
    for capacity in (8, 7, 1):
        assert room.excesses(Amounts(instances=1, capacity_bytes=capacity, partitions=300), has) == []
    grown = Amounts(instances=1, capacity_bytes=9, partitions=300)
    assert [one.what for one in room.excesses(grown, has)] == ["capacity_bytes"]


def test_clusters_sell_per_broker_but_one_disk_is_one_disk() -> None:
    three = cluster_default(3, 7 * _GB)
    assert three.produce_rate_bytes_per_s == 3 * BROKER_DEFAULT.produce_rate_bytes_per_s
    assert three.capacity_bytes == 7 * _GB
    assert cluster_default(0, None) == cluster_default(1, None) == BROKER_DEFAULT


# --- orders ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"produce_rate_bytes_per_s": 10**12}, "produce_rate_bytes_per_s"),
        ({"consume_rate_bytes_per_s": 10**12}, "consume_rate_bytes_per_s"),
        ({"capacity_bytes": 10**15}, "capacity_bytes"),
        ({"limits": {"partitions_max": 100_000}}, "limits.partitions_max"),
        ({"limits": {"connections_max": 1_000_000}}, "limits.connections_max"),
    ],
)
async def test_an_owner_cannot_order_the_world(
    operator: Caller, changes: dict[str, object], field: str
) -> None:
    """Nor grow into it; a neighbour orders as before."""
    greedy, polite = await operator.tenant("greedy"), await operator.tenant("polite")
    await greedy.order("small")
    for method, path, body in (
        ("POST", "instances", {**ORDER, "name": "world", **changes}),
        ("PATCH", "instances/small", changes),
    ):
        answer = await greedy(method, path, json=body)
        assert answer.status_code == 409, answer.text
        problem = answer.json()
        assert problem["title"] == "Limit reached"
        [error] = problem["errors"]
        assert error["field"] == field
        assert error["asked"] > error["ceiling"] - error["taken"]
        assert "ask the operator" in problem["detail"]
    await polite.order()


async def test_instances_are_counted_per_tenant(operator: Caller) -> None:
    greedy, polite = await operator.tenant("greedy"), await operator.tenant("polite")
    await operator("PATCH", "tenants/greedy/ceilings", json={"instances": 2})
    await greedy.order("a")
    await greedy.order("b")
    refused = await greedy("POST", "instances", json={**ORDER, "name": "c"})
    assert refused.status_code == 409
    assert "may have 2 instances and has 2" in refused.json()["detail"]
    await polite.order("c")
    await greedy("DELETE", "instances/a")
    await greedy.order("c")


async def test_a_tenant_sees_what_is_left_and_an_operator_sets_it(operator: Caller) -> None:
    acme = await operator.tenant("acme")
    await acme.order(capacity_bytes=30 * _GB)
    seen = (await acme("GET", "tenants/acme/ceilings")).json()
    assert seen["ceilings"]["capacity_bytes"] == TENANT_DEFAULT.capacity_bytes
    assert seen["sold"]["capacity_bytes"] == 30 * _GB
    assert seen["left"]["instances"] == TENANT_DEFAULT.instances - 1
    assert seen["own"] == []
    assert (await acme("PATCH", "tenants/acme/ceilings", json={"instances": 99})).status_code == 403
    assert (await acme("GET", "tenants/default/ceilings")).status_code == 403
    changed = await operator("PATCH", "tenants/acme/ceilings", json={"capacity_bytes": 31 * _GB})
    assert changed.json()["own"] == ["capacity_bytes"]
    answer = await acme("PATCH", "instances/shop", json={"capacity_bytes": 32 * _GB})
    assert answer.json()["errors"][0]["ceiling"] == 31 * _GB
    assert (await acme("PATCH", "instances/shop", json={"capacity_bytes": 31 * _GB})).status_code == 200
    undone = await operator("PATCH", "tenants/acme/ceilings", json={"capacity_bytes": None})
    assert undone.json()["own"] == []
    entries = (await operator("GET", "audit")).json()["items"]
    assert [one["action"] for one in entries if one["action"] == "tenant.ceilings"] == ["tenant.ceilings"] * 2


async def test_ceilings_that_are_none_are_refused(operator: Caller) -> None:
    for body in ({"instances": -1}, {"instances": 10**18 + 1}, {"moons": 1}, {"instances": "1"}):
        assert (await operator("PATCH", "tenants/default/ceilings", json=body)).status_code == 422
    assert (await operator("PATCH", "tenants/nobody/ceilings", json={"instances": 1})).status_code == 404
    assert (await operator("PATCH", "tenants/system/ceilings", json={"instances": 1})).status_code == 404
    assert (await operator("PATCH", "clusters/nowhere/ceilings", json={"instances": 1})).status_code == 404


async def test_a_cluster_sells_no_more_than_it_has_and_tells_tenants_no_numbers(operator: Caller) -> None:
    one, two = await operator.tenant("one"), await operator.tenant("two")
    await operator("PATCH", "clusters/builtin-1/ceilings", json={"capacity_bytes": 3 * _GB})
    await one.order(capacity_bytes=2 * _GB)
    refused = await two("POST", "instances", json={**ORDER, "capacity_bytes": 2 * _GB})
    assert refused.status_code == 409
    assert refused.json()["errors"] == [
        {
            "field": "capacity_bytes",
            "message": "cluster 'builtin-1' has no room for 2 GB of capacity",
            "asked": 2 * _GB,
        }
    ]
    told = await operator("POST", "instances", json={**ORDER, "capacity_bytes": 2 * _GB})
    assert told.json()["errors"][0]["taken"] == 2 * _GB
    await two.order(capacity_bytes=_GB)
    [cluster] = (await operator("GET", "clusters")).json()["items"]
    assert cluster["left"]["capacity_bytes"] == 0
    assert cluster["sold"]["instances"] == 2
    assert (await two("GET", "clusters")).status_code == 403


async def test_two_orders_at_once_are_one_after_the_other(plane: Console) -> None:
    """The last instance goes to one of eight who ask for it."""
    plane.accounts.create_tenant(_operator(), "acme")
    plane.ceilings.set_tenant(_operator(), "acme", {"instances": 3})

    def order(number: int) -> bool:
        try:
            plane.instances.create(_owner("acme"), "acme", _order(f"n{number}"))
        except LimitReached:
            return False
        return True

    def run() -> list[bool]:
        with ThreadPoolExecutor(8) as threads:
            return list(threads.map(order, range(8)))

    made = await asyncio.to_thread(run)
    assert made.count(True) == 3
    assert plane.ceilings.tenant("acme").room.sold.instances == 3


async def test_two_resizes_at_once_do_not_pass_together(plane: Console) -> None:
    plane.accounts.create_tenant(_operator(), "acme")
    plane.ceilings.set_tenant(_operator(), "acme", {"capacity_bytes": 10 * _GB})
    for name in ("a", "b"):
        plane.instances.create(_owner("acme"), "acme", _order(name))

    def grow(name: str) -> bool:
        try:
            plane.instances.change(_owner("acme"), name, Change(capacity_bytes=9 * _GB), Usage())
        except LimitReached:
            return False
        return True

    def run() -> list[bool]:
        with ThreadPoolExecutor(2) as threads:
            return list(threads.map(grow, ("a", "b")))

    assert sorted(await asyncio.to_thread(run)) == [False, True]


async def test_what_is_deleted_counts_until_its_data_is_gone(plane: Console) -> None:
    plane.accounts.create_tenant(_operator(), "acme")
    plane.ceilings.set_tenant(_operator(), "acme", {"capacity_bytes": 3 * _GB})
    served = plane.instances.create(_owner("acme"), "acme", _order("served", 2 * _GB))
    never = plane.instances.create(_owner("acme"), "acme", _order("never"))
    _served(plane, served.id)
    for one in (served, never):
        plane.instances.delete(_owner("acme"), one.id)
    sold = plane.ceilings.tenant("acme").room.sold
    assert (sold.instances, sold.capacity_bytes, sold.produce_rate_bytes_per_s) == (0, 2 * _GB, 0)
    with pytest.raises(LimitReached, match="2 GB taken"):
        plane.instances.create(_owner("acme"), "acme", _order("again", 2 * _GB))


async def test_what_is_taken_back_has_to_fit_as_an_order_does(plane: Console) -> None:
    """Else who deletes and orders by turns has twice what he may have."""
    plane.accounts.create_tenant(_operator(), "acme")
    plane.ceilings.set_tenant(_operator(), "acme", {"instances": 1})
    first = plane.instances.create(_owner("acme"), "acme", _order("first"))
    _served(plane, first.id)
    plane.instances.delete(_owner("acme"), first.id)
    second = plane.instances.create(_owner("acme"), "acme", _order("second"))
    with pytest.raises(LimitReached, match="may have 1 instance and has 1"):
        plane.deletions.undelete(_owner("acme"), "acme", first.id, None)
    plane.instances.delete(_owner("acme"), second.id)
    assert plane.deletions.undelete(_owner("acme"), "acme", first.id, None).is_visible


# --- ports -----------------------------------------------------------------------------------------


async def test_create_and_delete_uses_up_nobody_elses_ports(plane: Console) -> None:
    """A pool of twenty: the one who turns over a hundred instances leaves ports for a neighbour."""
    with plane.store.write() as connection:
        broker = BrokerAddress(node_id=1, host="127.0.0.1", port=9)
        plane.placement.register_broker(connection, "builtin-1", broker, epoch_ms())
    plane.accounts.create_tenant(_operator(), "acme")
    plane.accounts.create_tenant(_operator(), "other")
    for set_ceilings, name in (
        (plane.ceilings.set_tenant, "acme"),
        (plane.ceilings.set_cluster, "builtin-1"),
    ):
        set_ceilings(_operator(), name, {"capacity_bytes": 10**15, "partitions": 10**6})
    for number in range(100):
        made = plane.instances.create(_owner("acme"), "acme", _order(f"n{number}"))
        _served(plane, made.id)
        plane.instances.delete(_owner("acme"), made.id)
    others = [plane.instances.create(_owner("other"), "other", _order(f"o{n}")) for n in range(5)]
    assert all(len(one.listeners) == 2 for one in others)


async def test_ports_that_were_never_served_do_not_rest(plane: Console) -> None:
    made = plane.instances.create(_owner("default"), "default", _order("a"))
    plane.instances.delete(_owner("default"), made.id)
    again = plane.instances.create(_owner("default"), "default", _order("b"))
    assert again.listeners[0].port == made.listeners[0].port


async def test_ports_that_were_served_rest_from_others(plane: Console) -> None:
    plane.accounts.create_tenant(_operator(), "other")
    made = plane.instances.create(_owner("default"), "default", _order("a"))
    _served(plane, made.id)
    plane.instances.delete(_owner("default"), made.id)
    used: list[int] = []
    for number in range(18):  # the system instance has one of twenty, the deleted one another
        one = plane.instances.create(_owner("other"), "other", _order(f"o{number}"))
        used += [listener.port for listener in one.listeners]
    assert made.listeners[0].port not in used
    with pytest.raises(Conflict):
        plane.instances.create(_owner("other"), "other", _order("more"))

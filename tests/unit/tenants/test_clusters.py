"""Several clusters: registered, drained and removed by operators; where new instances go."""

from collections.abc import Callable

import pytest

from contracts.specs import BrokerAddress, ClusterSpec, InstanceSpec
from runtime.clock import epoch_ms
from tenants.console import Console
from tenants.rules.errors import Conflict
from tenants.store import changes, registry
from tenants.store.lineages import Position
from tenants.usecases.clusters import CLUSTERS_MAX

from .conftest import ORDER, Caller

FAR = {"bootstrap": "kafka-1:9093, kafka-2:9093"}
LOGIN = {"tls": True, "has_ca": True, "mechanism": "SCRAM-SHA-512", "user": "portico"}


def met(plane: Console, *names: str) -> None:
    """As the watch does it, with a broker each."""
    with plane.store.write() as connection:
        for number, name in enumerate(names, 1):
            address = BrokerAddress(node_id=1, host=f"{name}.internal", port=9000 + number)
            registry.set_kafka_cluster_id(connection, name, f"id-of-{name}")
            plane.placement.register_broker(connection, name, address, epoch_ms())


def told(plane: Console) -> tuple[dict[str, ClusterSpec], dict[str, InstanceSpec]]:
    with plane.store.read() as connection:
        answer = changes.since(connection, Position("", 0, ""))
    return {one.cluster_id: one for one in answer.clusters}, {one.name: one for one in answer.instances}


async def shown(operator: Caller) -> dict[str, dict[str, object]]:
    items = (await operator("GET", "brokers")).json()["clusters"]
    return {one["cluster_id"]: one for one in items}


async def homes(operator: Caller, plane: Console, count: int) -> list[str]:
    for number in range(count):
        made = await operator("POST", "instances", json={**ORDER, "name": f"one-{number}"})
        assert made.status_code == 201, made.text
    _, instances = told(plane)
    return [instances[f"one-{number}"].cluster_id for number in range(count)]


async def test_a_cluster_is_told_to_all_with_what_it_asks_for_and_no_secret(
    operator: Caller, plane: Console
) -> None:
    answer = await operator("PUT", "clusters/far", json={**FAR, "security": LOGIN})
    assert answer.status_code == 204, answer.text
    met(plane, "far")
    clusters, _ = told(plane)
    security = clusters["far"].security
    assert (security.tls, security.has_ca, security.has_certificate) == (True, True, False)
    assert (security.mechanism, security.user) == ("SCRAM-SHA-512", "portico")
    assert clusters["far"].kafka_cluster_id == "id-of-far"
    assert (await shown(operator))["far"]["security"] == {**LOGIN, "has_certificate": False}
    assert (await operator("PUT", "clusters/far", json=FAR)).status_code == 204
    again, _ = told(plane)
    assert again["far"].security.mechanism is None
    assert again["far"].kafka_cluster_id == "id-of-far", "other credentials make no other cluster"


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("Far", FAR),
        ("-far", FAR),
        ("f" * 41, FAR),
        ("far", {"bootstrap": "kafka-1"}),
        ("far", {"bootstrap": "kafka-1:0"}),
        ("far", {"bootstrap": ",".join(["kafka:9092"] * 17)}),
        ("far", {**FAR, "security": {**LOGIN, "user": ""}}),
        ("far", {**FAR, "security": {**LOGIN, "mechanism": "GSSAPI"}}),
        ("far", {**FAR, "security": {"has_ca": True}}),
    ],
)
async def test_what_cannot_be_a_cluster_is_refused(
    operator: Caller, name: str, body: dict[str, object]
) -> None:
    assert (await operator("PUT", f"clusters/{name}", json=body)).status_code == 422
    assert name not in await shown(operator)


async def test_tenants_neither_keep_clusters_nor_choose_one(operator: Caller, plane: Console) -> None:
    owner = await operator.tenant("acme")
    for method, body in (("PUT", FAR), ("PATCH", {"drained": True}), ("DELETE", None)):
        assert (await owner(method, "clusters/far", json=body)).status_code == 403
    await operator("PUT", "clusters/far", json=FAR)
    met(plane, "far")
    assert (await owner("POST", "instances", json={**ORDER, "cluster": "far"})).status_code == 409


async def test_there_are_so_many_clusters_at_most(operator: Caller) -> None:
    before = len(await shown(operator))
    for number in range(CLUSTERS_MAX - before):
        assert (await operator("PUT", f"clusters/far-{number}", json=FAR)).status_code == 204
    assert (await operator("PUT", "clusters/one-more", json=FAR)).status_code == 409
    assert (await operator("PUT", "clusters/far-0", json=FAR)).status_code == 204


async def test_new_instances_are_spread_and_drained_clusters_take_none(
    operator: Caller, plane: Console
) -> None:
    for name in ("far", "near"):
        await operator("PUT", f"clusters/{name}", json=FAR)
    met(plane, "far", "near")
    assert sorted(await homes(operator, plane, 4)) == ["far", "far", "near", "near"]
    assert (await operator("PATCH", "clusters/far", json={"drained": True})).status_code == 204
    assert (await shown(operator))["far"]["drained"]
    made = await operator("POST", "instances", json={**ORDER, "name": "later"})
    assert told(plane)[1][made.json()["name"]].cluster_id == "near"
    refused = await operator("POST", "instances", json={**ORDER, "name": "there", "cluster": "far"})
    assert refused.status_code == 409 and "drained" in refused.text
    await operator("PATCH", "clusters/near", json={"drained": True})
    assert (await operator("POST", "instances", json={**ORDER, "name": "nowhere"})).status_code == 409
    await operator("PATCH", "clusters/far", json={"drained": False})
    made = await operator("POST", "instances", json={**ORDER, "name": "back", "cluster": "far"})
    assert made.status_code == 201 and told(plane)[1]["back"].cluster_id == "far"


async def test_a_full_cluster_is_passed_over(operator: Caller, plane: Console) -> None:
    for name in ("far", "near"):
        await operator("PUT", f"clusters/{name}", json=FAR)
    met(plane, "far", "near")
    await operator("PATCH", "clusters/far/ceilings", json={"instances": 1})
    assert sorted(await homes(operator, plane, 5)) == ["far", *["near"] * 4]
    await operator("PATCH", "clusters/near/ceilings", json={"capacity_bytes": 1})
    full = await operator("POST", "instances", json={**ORDER, "name": "too-much"})
    assert full.status_code == 409, full.text


async def test_a_cluster_with_instances_or_their_data_is_not_removed(
    operator: Caller, plane: Console
) -> None:
    await operator("PUT", "clusters/far", json=FAR)
    met(plane, "far")
    made = await operator("POST", "instances", json={**ORDER, "cluster": "far"})
    assert (await operator("DELETE", "clusters/far")).status_code == 409
    await operator("DELETE", f"instances/{made.json()['id']}")
    refused = await operator("DELETE", "clusters/far")
    assert refused.status_code == 409 and "purged" in refused.text


async def test_a_removed_cluster_is_forgotten_and_its_name_may_mean_another_one(
    operator: Caller, plane: Console
) -> None:
    await operator("PUT", "clusters/far", json={**FAR, "security": LOGIN})
    met(plane, "far")
    with plane.store.read() as connection:
        position = changes.since(connection, Position("", 0, ""))
    assert (await operator("DELETE", "clusters/far")).status_code == 204
    assert (await operator("DELETE", "clusters/far")).status_code == 404
    assert "far" not in await shown(operator)
    assert "far" not in told(plane)[0]
    with plane.store.read() as connection:
        then = Position(position.feed_id, position.revision, position.mark)
        [gone] = changes.since(connection, then).clusters
    assert gone.cluster_id == "far" and gone.is_removed and not gone.brokers
    assert (await operator("PUT", "clusters/far", json=FAR)).status_code == 204
    clusters, _ = told(plane)
    assert clusters["far"].kafka_cluster_id is None and clusters["far"].security.mechanism is None


def test_of_two_drawn_clusters_the_emptier_one_is_chosen(plane: Console) -> None:
    drawn: list[list[str]] = []

    def first_two(names: list[str], count: int) -> list[str]:
        drawn.append(names[:count])
        return drawn[-1]

    placement = type(plane.placement)(
        plane.config.vip_pool,
        "nowhere",
        lambda _: True,
        unreachable=lambda: {"b"},
        draw=first_two,
    )
    with plane.store.write() as connection:
        for name in "abcd":
            registry.set_bootstrap(connection, name, f"{name}:9092", epoch_ms())
            address = BrokerAddress(node_id=1, host=name, port=9092)
            placement.register_broker(connection, name, address, epoch_ms())

        def chosen(fits: Callable[[str], bool]) -> str:
            return placement.choose_cluster(connection, fits)

        assert chosen(lambda _: True) == "a"
        assert drawn == [["a", "c"]], "b is not reachable"
        assert chosen(lambda name: name in "cd") == "c"
        assert chosen(lambda name: name == "b") == "a", "its refusal says what is lacking"
        for name in "abcd":
            registry.set_drained(connection, name, True)
        with pytest.raises(Conflict, match="drained"):
            chosen(lambda _: True)

"""Moves as orders of a control plane: which ports are left, and when gateways are not told to hold."""

from contracts.specs import BrokerAddress, ConsumerKind
from runtime.clock import epoch_ms, monotonic_ms
from tenants.console import Console
from tenants.rules.acknowledgement import Consumer
from tenants.rules.model import DEFAULT_TENANT, Caller, Instance
from tenants.rules.moves import Event, Phase
from tenants.rules.permissions import Role
from tenants.store import instances
from tenants.usecases.instances import NewInstance

_CALLER = Caller("key", "k", DEFAULT_TENANT, Role.OPERATOR, None)


def _running(plane: Console) -> Instance:
    """An instance on one cluster, with another beside it."""
    with plane.store.write() as connection:
        for node_id, cluster_id in ((1, "builtin-1"), (11, "builtin-2")):
            address = BrokerAddress(node_id=node_id, host="127.0.0.1", port=1)
            plane.placement.register_broker(connection, cluster_id, address, epoch_ms())
    order = NewInstance(
        name="shop",
        produce_rate_bytes_per_s=10**6,
        consume_rate_bytes_per_s=10**6,
        capacity_bytes=10**9,
        allow_all=True,
        cluster="builtin-1",
    )
    made = plane.instances.create(_CALLER, DEFAULT_TENANT, order)
    with plane.store.write() as connection:
        instances.set_state(connection, made.id, made.state.RUNNING, None)
    return made


def _nodes(instance: Instance) -> set[int | None]:
    return {one.node_id for one in instance.listeners}


def test_who_is_deleted_while_it_moves_comes_back_without_ports_of_the_other_cluster(plane: Console) -> None:
    instance = _running(plane)
    move = plane.moves.order(_CALLER, instance.id, "builtin-2")
    assert _nodes(plane.instances.get(_CALLER, instance.id)) == {None, 1, 11}
    plane.instances.delete(_CALLER, instance.id)
    (cancelled,) = plane.moves.to_work_on()
    assert cancelled.phase is Phase.CANCELLING
    plane.moves.happens(move.id, Event.REMOVED, cancelled.reason)
    back = plane.deletions.undelete(_CALLER, DEFAULT_TENANT, instance.id, None)
    assert _nodes(back) == {None, 1}
    assert plane.moves.newest(instance.id).reason == "the instance was deleted"


def test_nobody_holds_for_a_switch_that_would_be_given_up(plane: Console) -> None:
    instance = _running(plane)
    move = plane.moves.order(_CALLER, instance.id, "builtin-2")
    assert plane.moves.hindrance(move) is None
    plane.ceilings.set_cluster(_CALLER, "builtin-2", {"capacity_bytes": 10})
    assert plane.moves.hindrance(move) == "cluster 'builtin-2' has no room for it under its ceilings"
    plane.ceilings.set_cluster(_CALLER, "builtin-2", {"capacity_bytes": None})
    silent = Consumer(ConsumerKind.GATEWAY, seen_ms=monotonic_ms() - 60_000)
    plane.feed.consumers["gateway-2"] = silent
    assert plane.moves.hindrance(move) == "gateway-2 may still serve clients, and does not answer"
    silent.applied_revision = plane.instances.get(_CALLER, instance.id).revision
    assert plane.moves.hindrance(move) is None

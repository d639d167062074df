"""Ports of others, brokers that come, another vip."""

import socket
from collections.abc import Callable

import pytest

from contracts.specs import BrokerAddress
from runtime.clock import epoch_ms
from tenants.console import Console
from tenants.rules.errors import Unavailable
from tenants.rules.lifecycle import State
from tenants.rules.model import DEFAULT_TENANT, Caller, Instance
from tenants.rules.permissions import Role
from tenants.rules.vports import Endpoint
from tenants.store import changes
from tenants.store.lineages import Position
from tenants.usecases.instances import NewInstance
from tenants.usecases.placement import port_is_free

_CALLER = Caller("key", "k", DEFAULT_TENANT, Role.OWNER, None)


def _create(plane: Console, name: str = "shop") -> Instance:
    order = NewInstance(
        name=name,
        produce_rate_bytes_per_s=10**6,
        consume_rate_bytes_per_s=10**6,
        capacity_bytes=10**9,
        allow_all=True,
    )
    return plane.instances.create(_CALLER, DEFAULT_TENANT, order)


def test_a_port_that_somebody_shares_with_so_reuseport_is_not_free() -> None:
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind(("127.0.0.1", 0))
        other.listen()
        endpoint = Endpoint("127.0.0.1", other.getsockname()[1])
        assert not port_is_free(endpoint)
    assert port_is_free(endpoint)


def test_a_vip_that_is_not_of_this_machine_is_said_at_once() -> None:
    with pytest.raises(Unavailable, match="--vip of this machine"):
        port_is_free(Endpoint("192.0.2.1", 20000))


def test_new_instances_skip_ports_of_others(plane: Console, taken: set[Endpoint]) -> None:
    taken.add(Endpoint("127.0.0.1", 21000))
    assert [one.port for one in _create(plane).listeners] == [21001]


def test_ports_that_were_taken_over_fail_their_instances_until_they_are_free(
    plane: Console, taken: set[Endpoint]
) -> None:
    instance, other = _create(plane), _create(plane, "other")
    taken.add(Endpoint("127.0.0.1", instance.listeners[0].port))
    [failed] = plane.withhold_taken_ports()
    assert failed.id == instance.id
    assert failed.state is State.FAILED
    assert "port in use" in (failed.state_reason or "")
    with plane.store.read() as connection:
        told = {spec.instance_id: spec for spec in changes.since(connection, Position("", 0, "")).instances}
    assert told[instance.id].listeners == ()
    assert told[other.id].listeners == other.listeners
    with plane.store.write() as connection:
        assert plane.placement.release_freed_ports(connection, epoch_ms()) == 0
        taken.clear()
        assert plane.placement.release_freed_ports(connection, epoch_ms()) == 1
        told = {spec.instance_id: spec for spec in changes.since(connection, Position("", 0, "")).instances}
    assert told[instance.id].listeners == instance.listeners
    assert plane.instances.get(_CALLER, instance.id).state is State.CREATING


def test_an_instance_that_no_port_was_left_for_gets_one_later(plane: Console, taken: set[Endpoint]) -> None:
    """A broker came while every vport was taken."""
    instance = _create(plane)
    taken |= {Endpoint("127.0.0.1", port) for port in range(21001, 65536)}
    with plane.store.write() as connection:
        address = BrokerAddress(node_id=4, host="127.0.0.1", port=1)
        plane.placement.register_broker(connection, "builtin-1", address, epoch_ms())
    failed = plane.instances.get(_CALLER, instance.id)
    assert failed.state is State.FAILED and len(failed.listeners) == 1
    with plane.store.write() as connection:
        assert plane.placement.release_freed_ports(connection, epoch_ms()) == 0
        taken.clear()
        assert plane.placement.release_freed_ports(connection, epoch_ms()) >= 1
        assert plane.placement.release_freed_ports(connection, epoch_ms()) == 0
    after = plane.instances.get(_CALLER, instance.id)
    assert after.state is State.CREATING and after.state_reason is None
    assert [one.node_id for one in after.listeners] == [None, 4]


def test_a_suspended_instance_stays_suspended_through_a_taken_port(
    plane: Console, taken: set[Endpoint]
) -> None:
    instance = _create(plane)
    plane.instances.suspend(_CALLER, instance.id)
    taken.add(Endpoint("127.0.0.1", instance.listeners[0].port))
    plane.withhold_taken_ports()
    assert plane.instances.get(_CALLER, instance.id).listeners_withheld
    taken.clear()
    with plane.store.write() as connection:
        assert plane.placement.release_freed_ports(connection, epoch_ms()) == 1
    after = plane.instances.get(_CALLER, instance.id)
    assert (after.state, after.listeners_withheld) == (State.SUSPENDED, False)


def test_a_broker_that_moved_keeps_the_listeners(plane: Console) -> None:
    instance = _create(plane)
    for port in (1, 2):
        with plane.store.write() as connection:
            address = BrokerAddress(node_id=4, host="127.0.0.1", port=port)
            assert plane.placement.register_broker(connection, "builtin-1", address, epoch_ms())
            assert not plane.placement.register_broker(connection, "builtin-1", address, epoch_ms())
    listeners = plane.instances.get(_CALLER, instance.id).listeners
    assert [(one.node_id, one.port) for one in listeners] == [(None, 21000), (4, 21001)]


def test_a_broker_registers_even_when_ports_have_run_out(plane: Console) -> None:
    names = [f"n{number}" for number in range(19)]  # and the system instance has one
    made = [_create(plane, name) for name in names]
    with plane.store.write() as connection:
        address = BrokerAddress(node_id=1, host="127.0.0.1", port=1)
        assert plane.placement.register_broker(connection, "builtin-1", address, epoch_ms())
    after = plane.instances.get(_CALLER, made[0].id)
    assert after.state is State.FAILED
    assert "widen --vports" in (after.state_reason or "")


def test_another_vip_moves_every_listener_and_keeps_its_port(
    make_console: Callable[..., Console],
) -> None:
    first = make_console()
    first.bootstrap("key")
    before = _create(first)
    first.close()
    second = make_console(vip="127.0.0.2=kafka.example.com")
    second.bootstrap("key")
    after = second.instances.get(_CALLER, before.id)
    assert [(one.bind_host, one.advertised_host, one.port) for one in after.listeners] == [
        ("127.0.0.2", "kafka.example.com", before.listeners[0].port)
    ]
    assert after.revision > before.revision
    second.close()
    third = make_console(vip="127.0.0.2=kafka.example.com")
    third.bootstrap("key")
    assert third.instances.get(_CALLER, before.id).revision == after.revision
    third.close()


def test_a_port_that_our_gateways_have_for_all_vips_is_no_strangers(
    make_console: Callable[..., Console], taken: set[Endpoint]
) -> None:
    """Their one socket has the port at every address, so a probe would find each of them taken."""
    plane = make_console(vip="0.0.0.0=127.0.0.0/30")
    plane.bootstrap("key")
    first = _create(plane)
    [listener] = first.listeners
    taken.add(Endpoint("127.0.0.2", listener.port))
    [second] = _create(plane, "other").listeners
    assert (listener.bind_host, second.bind_host) == ("127.0.0.1", "127.0.0.2")
    assert second.port == listener.port
    assert not plane.withhold_taken_ports(), "gateways say it, and try again"
    plane.close()

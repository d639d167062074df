"""A pool of vips with one socket a port: hundreds of instances on a handful of files, each apart from the
others."""

import asyncio
import socket
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import msgspec
import pytest

from contracts.specs import InstanceSpec, Listener
from ctl.bench.instances import POOL, Feed, made_specs, serving
from ctl.stack.layout import free_port
from gateway.app import Gateway
from gateway.causes import DisconnectCause
from gateway.config import GatewayConfig
from gateway.listeners import AT_DOOR_MAX
from runtime.clock import Clock
from runtime.machine import Machine
from tests.scenarios.harness import until as held_until

INSTANCES = 300
FILES_MAX = 40
until = partial(held_until, timeout_s=60.0)


class StandingClock:
    """Debts are paid when it is moved."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000


@pytest.fixture
def clock() -> StandingClock:
    return StandingClock()


@pytest.fixture
async def gateway(clock: StandingClock) -> AsyncIterator[Gateway]:
    machine = Machine(clock=Clock(monotonic_ms=lambda: clock.now_ms))
    gateway = Gateway(GatewayConfig(name="gateway-0", wildcard_for=(POOL,)), machine)
    gateway.start()
    yield gateway
    await gateway.aclose()


def _files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def _connect(listener: Listener) -> socket.socket:
    return socket.create_connection((listener.bind_host, listener.port), timeout=30)


def _connections(gateway: Gateway, spec: InstanceSpec) -> int:
    return len(gateway.worker.served[spec.instance_id].connections)


async def test_the_address_says_whose_a_connection_is(gateway: Gateway) -> None:
    specs = made_specs(INSTANCES, free_port())
    before = _files()
    gateway.follower.apply_static(specs, [])
    assert not gateway.listeners.failures
    assert _files() - before < FILES_MAX
    first, last = specs[0], specs[-1]
    clients = [_connect(listener) for spec in (first, last) for listener in spec.listeners]
    await until(lambda: _connections(gateway, first) == _connections(gateway, last) == len(first.listeners))
    came_to = {connection.listener for connection in gateway.worker.served[last.instance_id].connections}
    assert came_to == set(last.listeners)
    assert sum(_connections(gateway, spec) for spec in specs) == len(clients)
    for client in clients:
        client.close()


async def test_an_address_that_is_nobodys_is_reset_and_counted(gateway: Gateway) -> None:
    spec, gone = made_specs(2, free_port())
    gateway.follower.apply_static([spec, gone], [])
    gateway.follower.apply_static([spec], [])
    with _connect(gone.listeners[0]) as stranger:
        await until(lambda: gateway.worker.connections_to_nobody == 1)
        with pytest.raises(ConnectionResetError):
            stranger.recv(1)
    with _connect(spec.listeners[0]):
        await until(lambda: _connections(gateway, spec) == 1)


async def test_the_last_instance_of_a_port_closes_its_socket(gateway: Gateway) -> None:
    [spec] = made_specs(1, 1)
    own = (msgspec.structs.replace(one, port=free_port()) for one in spec.listeners)
    spec = msgspec.structs.replace(spec, listeners=tuple(own))
    before = _files()
    gateway.follower.apply_static([spec], [])
    assert _files() == before + len(spec.listeners)
    fewer = msgspec.structs.replace(spec, listeners=spec.listeners[:1])
    gateway.follower.apply_static([fewer], [])
    assert _files() == before + 1
    gateway.follower.apply_static([], [])
    assert _files() == before


async def test_an_instance_in_debt_waits_at_a_socket_of_its_own_and_its_neighbour_does_not(
    gateway: Gateway, clock: StandingClock
) -> None:
    flooded, neighbour = made_specs(2, free_port())
    gateway.follower.apply_static([flooded, neighbour], [])
    served = gateway.worker.served[flooded.instance_id]
    gateway.worker.pacing.add_helper_time(served.turn, 60_000_000_000)
    clients = [_connect(flooded.listeners[0]) for _ in range(AT_DOOR_MAX + 1)]
    await until(lambda: served.at_door == AT_DOOR_MAX + 1)
    files = _files()
    clients += [_connect(flooded.listeners[0]) for _ in range(AT_DOOR_MAX)]
    with _connect(neighbour.listeners[0]):
        await until(lambda: _connections(gateway, neighbour) == 1)
    assert served.at_door == AT_DOOR_MAX + 1, "the kernel keeps the others"
    assert _files() <= files + AT_DOOR_MAX + 4, "none of them is accepted"
    clock.now_ms += 3_600_000
    gateway.worker.pacing.look_again([served.turn])

    def all_are_in() -> bool:
        """What it takes to let them in is a debt again, and longer on a busy machine: time goes on."""
        clock.now_ms += 1
        return _connections(gateway, flooded) == len(clients)

    await until(all_are_in)
    assert not served.at_door
    for client in clients:
        client.close()
    await until(lambda: not served.connections)
    assert set(served.closed) <= {DisconnectCause.CLIENT_CLOSED, DisconnectCause.CLIENT_RESET}


async def test_others_are_served_between_the_slices_of_a_change_of_hundreds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A callback that comes again in each turn of the loop runs between the slices of one answer of the
    feed."""
    monkeypatch.setattr("runtime.feed._SLICE_S", 0.0)
    feed = Feed(made_specs(INSTANCES, free_port()))
    secret = tmp_path / "secret"
    secret.write_text("s")
    turns, is_over = 0, False

    def turn() -> None:
        nonlocal turns
        turns += 1
        if not is_over:
            asyncio.get_running_loop().call_soon(turn)

    seen: dict[int, int] = {}
    with serving(feed) as url:
        gateway = Gateway(
            GatewayConfig(name="gateway-0", control_url=url, secret_file=secret, wildcard_for=(POOL,))
        )
        apply = gateway.listeners.apply

        def noted(spec: InstanceSpec) -> None:
            apply(spec)
            seen[turns] = seen.get(turns, 0) + 1

        gateway.listeners.apply = noted  # type: ignore[method-assign]
        asyncio.get_running_loop().call_soon(turn)
        gateway.start()
        try:
            await asyncio.to_thread(partial(feed.until_acknowledged, 60))
            assert sum(seen.values()) == INSTANCES
            assert max(seen.values()) == 1
        finally:
            is_over = True
            await gateway.aclose()

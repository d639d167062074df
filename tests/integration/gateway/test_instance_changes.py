"""Specs change under live connections: only what differs is touched."""

import asyncio
import contextlib
import socket
from pathlib import Path
from typing import Any

import msgspec
import pytest

from contracts.specs import BrokerAddress, ClusterSpec, InstanceState, Limits, Listener
from gateway.app import Gateway
from gateway.config import GatewayConfig
from gateway.rules.lifecycle import Phase
from tests.scenarios.fake_broker import NODE_ID, FakeBroker
from tests.scenarios.harness import (
    CLUSTER_ID,
    A,
    B,
    FrameClient,
    RunningGateway,
    free_ports,
    instance_spec,
    running_gateway,
    until,
)
from wire.api_table import ApiKey
from wire.build import build
from wire.codec import request_class


def metadata() -> Any:
    return build(request_class(ApiKey.METADATA, 1), {"topics": None})


async def serves(client: FrameClient) -> bool:
    try:
        await client.call(metadata())
    except (asyncio.IncompleteReadError, ConnectionError):
        return False
    return True


async def is_reset(port: int) -> bool:
    """Whether a new connection is turned away, which shows as a reset."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except ConnectionResetError:
        return True
    try:
        async with asyncio.timeout(2):
            await reader.read(1)
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
    finally:
        writer.close()
    return False


async def test_whitelist_change_cuts_only_who_is_no_longer_allowed(gateway: RunningGateway) -> None:
    stays, other = await gateway.client(A), await gateway.client(B)
    goes = await FrameClient.connect(gateway.port(A))
    assert await serves(stays) and await serves(other) and await serves(goes)
    (cut, *_) = (c for c in gateway.gateway.worker.served[A].connections if c.peer.endswith(_port(goes)))
    cut.address = "127.0.0.2"  # as if it had come from another address of loopback
    gateway.change(A, allow_all=False, whitelist=("127.0.0.1/32",), revision=2)
    assert await goes.ended()
    assert await serves(stays) and await serves(other)
    assert gateway.closed(A) == {"whitelist_changed": 1}


def _port(client: FrameClient) -> str:
    return f":{client.writer.get_extra_info('sockname')[1]}"


async def test_an_empty_list_admits_nobody_and_refusals_are_remembered(gateway: RunningGateway) -> None:
    gateway.change(A, allow_all=False)
    for _ in range(3):
        assert await is_reset(gateway.port(A))
    assert gateway.closed(A) == {"not_whitelisted": 3}
    assert [one.address for one in gateway.gateway.worker.served[A].refused] == ["127.0.0.1"] * 3
    gateway.change(A, allow_all=False, whitelist=("127.0.0.0/8",))
    assert await serves(await gateway.client(A))


async def test_suspension_cuts_keeps_the_port_and_ends(gateway: RunningGateway) -> None:
    mine, other = await gateway.client(A), await gateway.client(B)
    assert await serves(mine) and await serves(other)
    gateway.change(A, state=InstanceState.SUSPENDED)
    assert await mine.ended() and await is_reset(gateway.port(A))
    assert await serves(other)
    gateway.change(A, state=InstanceState.ACTIVE)
    assert await serves(await gateway.client(A))
    assert gateway.closed(A) == {"instance_suspended": 2}


async def test_deletion_removes_ports_and_connections(gateway: RunningGateway) -> None:
    mine, half_open, other = await gateway.client(A), await gateway.client(A), await gateway.client(B)
    assert await serves(mine) and await serves(other)
    served = gateway.gateway.worker.served[A]
    port = gateway.port(A)
    gateway.change(A, state=InstanceState.DELETED)
    assert await mine.ended() and await half_open.ended()
    assert served.phase is Phase.STOPPED and A not in gateway.gateway.worker.served
    with pytest.raises(ConnectionRefusedError):
        await FrameClient.connect(port)
    assert await serves(other)


async def test_other_changes_leave_connections_alone(gateway: RunningGateway) -> None:
    mine = await gateway.client(A)
    assert await serves(mine)
    listeners = gateway.specs[A].listeners
    (port,) = free_ports(1)
    added = msgspec.structs.replace(listeners[1], node_id=2, port=port)
    gateway.change(A, limits=Limits(connections_max=7), capacity_bytes=5, listeners=(*listeners, added))
    assert await serves(mine)
    second = await FrameClient.connect(port)
    assert await serves(second)  # of a broker that this cluster has not: left from where the instance was
    gateway.change(A, listeners=listeners)
    assert await second.ended() and await serves(mine)
    assert gateway.closed(A) == {"listener_removed": 1}


async def test_a_port_in_use_fails_that_instance_only_and_is_tried_again(broker: FakeBroker) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        blocked = Listener(node_id=NODE_ID, bind_host="127.0.0.1", advertised_host="127.0.0.1", port=port)
        async with running_gateway(
            broker.port, instance_spec(A, listeners=(blocked,)), instance_spec(B)
        ) as running:
            gateway = running.gateway
            assert gateway.worker.served[A].phase is Phase.FAILED
            assert gateway.follower.failures == {A: f"127.0.0.1:{port}: Address already in use"}
            assert await serves(await running.client(B))
            taken.close()
            await until(lambda: gateway.worker.served[A].phase is Phase.SERVING)
            assert gateway.follower.failures == {}
            assert await serves(await running.client(A))


async def test_connection_limits_per_instance_and_rate(gateway: RunningGateway) -> None:
    gateway.change(A, limits=Limits(connections_max=3))
    clients = [await gateway.client(A) for _ in range(3)]
    assert all([await serves(client) for client in clients])
    assert await is_reset(gateway.port(A))
    assert gateway.closed(A) == {"connections_max": 1}
    clients[0].close()
    await asyncio.sleep(0.1)
    assert await serves(await gateway.client(A))
    gateway.change(B, limits=Limits(connection_rate_max=5))
    with contextlib.ExitStack() as sockets:
        for _ in range(30):
            sockets.enter_context(knock(gateway.port(B)))
        await asyncio.sleep(0.2)
    # Thirty knocks at once fall into one second, or into two.
    assert 20 <= gateway.closed(B)["connection_rate_max"] <= 25


def knock(port: int) -> socket.socket:
    """Connect without waiting for what becomes of it."""
    sock = socket.socket()
    sock.setblocking(False)
    sock.connect_ex(("127.0.0.1", port))
    return sock


async def test_the_partition_limit_holds_against_many_requests_at_once(
    broker: FakeBroker, gateway: RunningGateway
) -> None:
    async def create(number: int) -> None:
        client = await gateway.client(A)
        topics = [{"name": f"t{number}", "num_partitions": 25, "replication_factor": -1}]
        await client.call(build(request_class(ApiKey.CREATE_TOPICS, 2), {"topics": topics}))
        client.close()

    await asyncio.gather(*(create(number) for number in range(30)))
    assert sum(broker.topics.values()) == gateway.specs[A].limits.partitions_max == 300


async def test_a_worker_starts_from_its_disk_while_the_control_plane_is_down(
    broker: FakeBroker, tmp_path: Path
) -> None:
    spec = instance_spec(A)
    cluster = ClusterSpec(
        revision=1,
        cluster_id=CLUSTER_ID,
        brokers=(BrokerAddress(node_id=NODE_ID, host="127.0.0.1", port=broker.port),),
    )
    cached = {"feed_id": "f", "revision": 3, "instances": [spec], "clusters": [cluster], "version": 1}
    (tmp_path / "gateway-0-specs.json").write_bytes(msgspec.json.encode(cached))
    (tmp_path / "key").write_text("secret")
    (dead_port,) = free_ports(1)
    config = GatewayConfig(
        name="gateway-0",
        control_url=f"http://127.0.0.1:{dead_port}",
        secret_file=tmp_path / "key",
        state_dir=tmp_path,
    )
    gateway = Gateway(config)
    gateway.start()
    try:
        client = await FrameClient.connect(spec.listeners[0].port)
        assert await serves(client)
    finally:
        await gateway.aclose()


async def test_connections_are_counted_over_all_workers(broker: FakeBroker, tmp_path: Any) -> None:
    spec = instance_spec(A, limits=Limits(connections_max=4))
    table = tmp_path / "table"
    async with (
        running_gateway(broker.port, spec, shared_table=table) as one,
        running_gateway(broker.port, spec, shared_table=table, name="gateway-1") as two,
    ):
        clients = [knock(one.port(A)) for _ in range(12)]
        await asyncio.sleep(0.2)
        assert one.connections(A) + two.connections(A) == 4
        for client in clients:
            client.close()
        await asyncio.sleep(0.2)
        assert one.connections(A) + two.connections(A) == 0

"""Load balancers before the vips: the whitelist sees the client that they name; nobody else may name one."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from gateway.causes import DisconnectCause
from gateway.passed_on import WAITING_MAX
from gateway.session.timers import Timeouts
from tests.integration.gateway.test_instance_changes import is_reset, serves
from tests.scenarios.fake_broker import FakeBroker
from tests.scenarios.harness import A, B, FrameClient, RunningGateway, instance_spec, running_gateway, until
from tests.scenarios.proxy_headers import LOCAL, header

CLIENT = "192.0.2.7"


@pytest.fixture
async def gateway(broker: FakeBroker) -> AsyncIterator[RunningGateway]:
    """The load balancer is at 127.0.0.1; A admits one client, B everybody."""
    only_client = instance_spec(A, allow_all=False, whitelist=(f"{CLIENT}/32", "2001:db8::/64"))
    specs = (only_client, instance_spec(B))
    timeouts = replace(Timeouts(), first_byte_ms=1_000)
    async with running_gateway(
        broker.port, *specs, proxy_protocol_from=("127.0.0.1",), timeouts=timeouts
    ) as running:
        yield running


async def _passed_on(gateway: RunningGateway, instance_id: str, head: bytes) -> FrameClient:
    client = await FrameClient.connect(gateway.port(instance_id))
    client.writer.write(head)
    return client


def _addresses(gateway: RunningGateway, instance_id: str) -> list[str]:
    return [one.address for one in gateway.gateway.worker.served[instance_id].connections]


@pytest.mark.parametrize("address", [CLIENT, "2001:db8::7", f"::ffff:{CLIENT}"])
async def test_the_whitelist_sees_the_named_client(gateway: RunningGateway, address: str) -> None:
    client = await _passed_on(gateway, A, header(address))
    assert await serves(client)
    assert _addresses(gateway, A) == [address.removeprefix("::ffff:")]
    gateway.change(A, allow_all=False, whitelist=("198.51.100.0/24",))
    assert await client.ended()
    assert gateway.closed(A) == {"whitelist_changed": 1}


async def test_a_named_client_is_refused_by_its_own_address(
    gateway: RunningGateway,
) -> None:
    client = await _passed_on(gateway, A, header("198.51.100.9"))
    assert await client.ended()
    assert gateway.closed(A) == {"not_whitelisted": 1}
    assert [one.address for one in gateway.gateway.worker.served[A].refused] == ["198.51.100.9"]


async def test_a_header_in_pieces_and_a_request_right_behind_it(gateway: RunningGateway) -> None:
    head = header(CLIENT, tlvs=b"\xea\0\x04vpce")
    client = await FrameClient.connect(gateway.port(A))
    for at in range(len(head)):
        client.writer.write(head[at : at + 1])
        await client.writer.drain()
        await asyncio.sleep(0)
    assert await serves(client)
    at_once = await FrameClient.connect(gateway.port(A))
    at_once.writer.write(head)
    assert await serves(at_once)


@pytest.mark.parametrize("sent", [b"\0\0\0\x2e\0\x12\0\x03", b"PROXY TCP4 1.2.3.4 1.2.3.5 1 2\r\n"])
async def test_a_balancer_that_names_nobody_is_refused(gateway: RunningGateway, sent: bytes) -> None:
    """Also where everybody is admitted: else whoever reaches the balancer had its address."""
    client = await _passed_on(gateway, B, sent)
    assert await client.ended()
    assert gateway.closed(B) == {"proxy_header_bad": 1}


async def test_a_header_that_does_not_come(gateway: RunningGateway) -> None:
    for client in [await _passed_on(gateway, B, sent) for sent in (b"", header(CLIENT)[:20])]:
        assert await client.ended()
    assert gateway.closed(B) == {"proxy_header_timeout": 2}


async def test_health_checks_of_the_balancer_show_nowhere_as_strangers(gateway: RunningGateway) -> None:
    check = await _passed_on(gateway, A, LOCAL)
    assert await check.ended()
    assert gateway.closed(A) == {"proxy_local": 1}
    assert not gateway.gateway.worker.served[A].refused
    assert await serves(await _passed_on(gateway, B, LOCAL))
    gone = await FrameClient.connect(gateway.port(A))
    gone.writer.close()
    await until(lambda: gateway.closed(A) == {"proxy_local": 1, "client_closed": 1})


async def test_connections_without_a_header_are_bounded_for_each_instance(gateway: RunningGateway) -> None:
    waiting = [await FrameClient.connect(gateway.port(A)) for _ in range(WAITING_MAX)]
    assert await is_reset(gateway.port(A))
    assert await serves(await _passed_on(gateway, B, header(CLIENT)))
    gateway.change(A, allow_all=False, listeners=())
    for client in waiting:
        assert await client.ended()
    await until(lambda: gateway.closed(A)["connections_max"] >= 1)


async def test_who_is_no_balancer_names_nobody(broker: FakeBroker) -> None:
    spec = instance_spec(A, allow_all=False, whitelist=(f"{CLIENT}/32", "127.0.0.1/32"))
    async with running_gateway(broker.port, spec, proxy_protocol_from=("127.0.0.9",)) as running:
        liar = await _passed_on(running, A, header(CLIENT))
        assert await liar.ended()
        assert running.closed(A) == {"request_too_large": 1}
        assert await serves(await FrameClient.connect(running.port(A)))


async def test_an_instance_that_goes_takes_its_waiting_connections_along(gateway: RunningGateway) -> None:
    client = await _passed_on(gateway, A, header(CLIENT)[:16])
    gateway.gateway.listeners.stop(A, DisconnectCause.INSTANCE_ABSENT)
    assert await client.ended()

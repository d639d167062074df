"""One port for all instances with TLS: who is served by which name, and what strangers get."""

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from kio.schema.find_coordinator.v2.request import FindCoordinatorRequest
from kio.schema.metadata.v5.request import MetadataRequest
from kio.static.primitive import i8

from contracts.server_names import NamedPort, host_name
from contracts.specs import InstanceState
from contracts.users import SecurityProtocol
from gateway.app import Gateway
from gateway.certificates import TlsFiles
from gateway.config import GatewayConfig
from gateway.handshakes import HANDSHAKES_MAX
from gateway.rules.client_hello import HELLO_BYTES_MAX
from gateway.session.timers import Timeouts
from tests.integration.gateway.test_user_logins import spec, user
from tests.scenarios.fake_broker import NODE_ID, FakeBroker
from tests.scenarios.harness import A, B, FrameClient, RunningGateway, free_ports, running_gateway, until
from tests.scenarios.proxy_headers import header
from wire.api_table import ApiKey
from wire.build import response

FOLDER: Final = Path(__file__).resolve().parents[2] / "certificates"
DOMAIN: Final = "kafka.test"
PLAIN, TLS, SASL_SSL = SecurityProtocol.PLAIN, SecurityProtocol.TLS, SecurityProtocol.SASL_SSL
ALERT: Final = bytes((0x15, 3, 1, 0, 2, 2, 112))
FILES: Final = TlsFiles(FOLDER / "gateway.pem", FOLDER / "gateway.key", FOLDER / "authority.pem")
NAMED_FILES: Final = TlsFiles(FOLDER / "names.pem", FOLDER / "names.key", FOLDER / "authority.pem")
TIMEOUTS: Final = Timeouts(first_byte_ms=1_500)


def named_spec(instance_id: str, *users: str, **changes: Any) -> Any:
    made = spec(instance_id, *(user(one) for one in users), protocols=(PLAIN, TLS, SASL_SSL))
    return msgspec.structs.replace(made, **changes)


@pytest.fixture
async def gateway(broker: FakeBroker) -> AsyncIterator[RunningGateway]:
    async with running(broker, named_spec(A, "app"), named_spec(B, "other")) as found:
        yield found


def running(broker: FakeBroker, *specs: Any, **settings: Any) -> Any:
    place = NamedPort(DOMAIN, free_ports(1)[0], "127.0.0.1")
    settings = {"timeouts": TIMEOUTS} | settings
    return running_gateway(
        broker.port, *specs, named_port=place, tls=FILES, named_tls=NAMED_FILES, **settings
    )


def port(gateway: RunningGateway) -> int:
    place = gateway.gateway.config.named_port
    assert place is not None
    return place.port


def context(certificate: str | None = None) -> ssl.SSLContext:
    made = ssl.create_default_context(cafile=FOLDER / "names.pem")
    if certificate is not None:
        made.load_cert_chain(FOLDER / f"{certificate}.pem", FOLDER / f"{certificate}.key")
    return made


def name_of(instance_id: str, node_id: int | None = None, protocol: SecurityProtocol = TLS) -> str:
    return host_name(instance_id, node_id, protocol, DOMAIN)


async def connected(
    gateway: RunningGateway, name: str, certificate: str | None = "app", head: bytes = b""
) -> FrameClient:
    """A client of TLS that asks for a name. `head` is what a load balancer sends first."""
    raw = socket.create_connection(("127.0.0.1", port(gateway)))
    raw.sendall(head)
    raw.setblocking(False)
    reader, writer = await asyncio.open_connection(sock=raw, ssl=context(certificate), server_hostname=name)
    return FrameClient(reader, writer)


def ended(gateway: RunningGateway) -> dict[str, int]:
    """Connections that were nobody's, by cause."""
    names = gateway.gateway.listeners.names
    assert names is not None
    return {str(cause): count for cause, count in names.ended.items()}


async def answer_to(gateway: RunningGateway, sent: bytes, *, closes: bool = False) -> bytes:
    """All that comes for these bytes, until the end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port(gateway))
    writer.write(sent)
    if closes:
        writer.write_eof()
    came = b""
    try:
        async with asyncio.timeout(10):
            while piece := await reader.read(4096):
                came += piece
    except ConnectionError:
        pass
    finally:
        writer.close()
    return came


async def test_metadata_and_coordinators_are_told_by_names(
    gateway: RunningGateway, broker: FakeBroker
) -> None:
    leads: dict[str, Any] = {
        "error_code": 0,
        "error_message": None,
        "node_id": NODE_ID,
        "host": "backend",
        "port": 1,
    }
    broker.intercept(ApiKey.FIND_COORDINATOR, lambda _: response(ApiKey.FIND_COORDINATOR, 2, **leads))
    broker_name = name_of(A, NODE_ID)
    for name in (name_of(A), broker_name):
        client = await connected(gateway, name)
        told = await client.call(MetadataRequest(topics=(), allow_auto_topic_creation=False))
        assert [(one.host, one.port) for one in told.brokers] == [(broker_name, port(gateway))]
        group = await client.call(FindCoordinatorRequest(key="g", key_type=i8(0)))
        assert (group.host, group.port) == (broker_name, port(gateway))
        client.close()
    at_vport = await gateway.client(A)
    told = await at_vport.call(MetadataRequest(topics=(), allow_auto_topic_creation=False))
    assert [(one.host, one.port) for one in told.brokers] == [("127.0.0.1", gateway.port(A))], "as before"


async def test_a_certificate_is_a_user_of_the_named_instance_alone(gateway: RunningGateway) -> None:
    """Also where a session of TLS 1.2 that stands with one instance is offered to another."""
    with pytest.raises((ConnectionError, ssl.SSLError, asyncio.IncompleteReadError)):
        await (await connected(gateway, name_of(B))).call(MetadataRequest(topics=()))
    await until(lambda: gateway.closed(B).get("certificate_refused") == 1)
    trusted = context("app")
    trusted.maximum_version = ssl.TLSVersion.TLSv1_2

    def session_at(name: str, session: ssl.SSLSession | None) -> ssl.SSLSession | None:
        with socket.create_connection(("127.0.0.1", port(gateway)), timeout=10) as raw:
            tls = trusted.wrap_socket(raw, server_hostname=name, session=session)
            tls.sendall(b"\0\0\0\x0a\0\x12\0\0\0\0\0\1\xff\xff")
            assert tls.recv(1)
            return tls.session

    session = await asyncio.to_thread(session_at, name_of(A), None)
    with pytest.raises((OSError, AssertionError)):
        await asyncio.to_thread(session_at, name_of(B), session)
    await until(lambda: gateway.closed(B).get("certificate_refused") == 2)


@pytest.mark.parametrize(
    "name", ["nobody.kafka.test", f"b9-{A}.kafka.test", f"{A}.other.test", A, "kafka.test"]
)
async def test_a_name_of_nobody_ends_with_its_cause_and_an_alert(gateway: RunningGateway, name: str) -> None:
    with pytest.raises(ssl.SSLError, match=r"(?i)unrecognized.name"):
        await connected(gateway, name)
    assert ended(gateway) == {"server_name_unknown": 1}


async def test_strangers_get_the_same_for_an_instance_that_there_is(gateway: RunningGateway) -> None:
    hello = _hello(name_of(A))
    gateway.change(A, allow_all=False, whitelist=("192.0.2.0/24",))
    assert await answer_to(gateway, hello) == ALERT == await answer_to(gateway, _hello("no.kafka.test"))
    assert gateway.closed(A) == {"not_whitelisted": 1}
    gateway.change(A, state=InstanceState.SUSPENDED)
    assert await answer_to(gateway, hello) == ALERT
    gateway.change(A, state=InstanceState.DELETED)
    assert await answer_to(gateway, hello) == ALERT
    assert ended(gateway) == {"not_whitelisted": 1, "server_name_unknown": 2, "instance_suspended": 1}


def _hello(name: str | None) -> bytes:
    came, made = ssl.MemoryBIO(), ssl.MemoryBIO()
    made_context = context()
    made_context.check_hostname = False
    client = made_context.wrap_bio(came, made, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return made.read()


async def test_hostile_hellos_end_with_their_causes_and_nobody_notices(gateway: RunningGateway) -> None:
    neighbour = await gateway.client(B)
    assert await neighbour.call(MetadataRequest(topics=()))
    hello = _hello(name_of(A))
    sent = {
        "server_name_missing": [_hello(None), _hello("127.0.0.1")],
        "not_tls": [b"\0\0\0\x2e\0\x12\0\x03", b"GET / HTTP/1.1\r\n\r\n"],
        "tls_handshake_failed": [
            b"\x16\x03\x01\xff\xff" + bytes(2_000),
            b"\x16\x03\x01\x3f\x00\x01\x00\x3e\xfc" + bytes(HELLO_BYTES_MAX),
            b"".join(b"\x16\x03\x01\0\x01" + hello[at : at + 1] for at in range(5, 20))
            + b"\x17\x03\x01\0\x01x",
        ],
        "client_closed": [hello[:100]],
    }
    for cause, pieces in sent.items():
        for each in pieces:
            came = await answer_to(gateway, each, closes=cause == "client_closed")
            assert came == (ALERT if cause.startswith("server_name") else b"")
        assert ended(gateway)[cause] == len(pieces)
    late = [await FrameClient.connect(port(gateway)) for _ in range(2)]
    late[0].writer.write(hello[:50])
    for one in late:
        assert await one.ended()
    assert ended(gateway)["tls_handshake_timeout"] == 2
    assert await neighbour.call(MetadataRequest(topics=()))
    assert len(gateway.gateway.listeners.names or ()) == 0


async def test_a_hello_in_many_records_and_packets_is_served(gateway: RunningGateway) -> None:
    """OpenSSL reads the same bytes, and agrees."""
    raw = socket.create_connection(("127.0.0.1", port(gateway)))
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    came, made = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context("app").wrap_bio(came, made, server_hostname=name_of(A))
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    message = made.read()[5:]
    for at in range(0, len(message), 50):
        piece = message[at : at + 50]
        await asyncio.to_thread(raw.sendall, b"\x16\x03\x01" + struct.pack("!H", len(piece)) + piece)
        await asyncio.sleep(0)
    raw.settimeout(10)
    while True:
        came.write(await asyncio.to_thread(raw.recv, 65_536))
        try:
            client.do_handshake()
            break
        except ssl.SSLWantReadError:
            continue
    client.write(b"\0\0\0\x0a\0\x12\0\0\0\0\0\1\xff\xff")
    raw.sendall(made.read())
    assert await asyncio.to_thread(raw.recv, 10)
    raw.close()


async def test_those_without_a_name_are_few_and_displace_each_other(broker: FakeBroker) -> None:
    """Nobody's time ends meanwhile, however long a busy machine takes to connect all."""
    patient = Timeouts(first_byte_ms=120_000)
    async with running(broker, named_spec(A, "app"), timeouts=patient) as gateway:
        flood = [await FrameClient.connect(port(gateway)) for _ in range(HANDSHAKES_MAX + 20)]
        await until(lambda: ended(gateway).get("tls_handshakes_max") == 20)
        assert await flood[0].ended()
        assert await (await connected(gateway, name_of(A))).call(MetadataRequest(topics=()))
        assert ended(gateway) == {"tls_handshakes_max": 21}
        for one in flood:
            one.close()


async def test_limits_of_the_instance_hold_behind_its_name(gateway: RunningGateway) -> None:
    limits = msgspec.structs.replace(gateway.specs[A].limits, connections_max=1)
    gateway.change(A, limits=limits)
    first = await connected(gateway, name_of(A))
    assert await first.call(MetadataRequest(topics=()))
    with pytest.raises((ConnectionError, ssl.SSLError)):
        await connected(gateway, name_of(A))
    assert gateway.closed(A) == {"connections_max": 1}
    gateway.change(
        A, listeners=tuple(one for one in gateway.specs[A].listeners if one.security_protocol is PLAIN)
    )
    assert await first.ended()
    assert gateway.closed(A)["listener_removed"] == 1
    with pytest.raises(ssl.SSLError):
        await connected(gateway, name_of(A))


async def test_behind_a_load_balancer_the_named_client_counts(broker: FakeBroker) -> None:
    only = named_spec(A, "app", allow_all=False, whitelist=("192.0.2.7/32",))
    async with running(broker, only, proxy_protocol_from=("127.0.0.1",)) as found:
        client = await connected(found, name_of(A), head=header("192.0.2.7"))
        assert await client.call(MetadataRequest(topics=()))
        assert [one.address for one in found.gateway.worker.served[A].connections] == ["192.0.2.7"]
        assert await answer_to(found, header("192.0.2.8") + _hello(name_of(A))) == ALERT
        assert await answer_to(found, _hello(name_of(A))) == b""
        assert await answer_to(found, b"", closes=False) == b""
        assert ended(found) == {"not_whitelisted": 1, "proxy_header_bad": 1, "proxy_header_timeout": 1}


async def test_names_are_served_over_ipv6(broker: FakeBroker) -> None:
    (free,) = free_ports(1)
    only = named_spec(A, "app", allow_all=False, whitelist=("::1/128",))
    place = NamedPort(DOMAIN, free, "::1")
    async with running_gateway(
        broker.port, only, named_port=place, tls=FILES, named_tls=NAMED_FILES, timeouts=TIMEOUTS
    ) as found:
        reader, writer = await asyncio.open_connection(
            "::1", free, ssl=context("app"), server_hostname=name_of(A)
        )
        client = FrameClient(reader, writer)
        told = await client.call(MetadataRequest(topics=()))
        assert [(one.host, one.port) for one in told.brokers] == [(name_of(A, NODE_ID), free)]
        assert [one.address for one in found.gateway.worker.served[A].connections] == ["::1"]
        client.close()
        found.change(A, whitelist=("2001:db8::/64",))
        with pytest.raises(ssl.SSLError):
            await asyncio.open_connection("::1", free, ssl=context("app"), server_hostname=name_of(A))
        assert found.closed(A)["not_whitelisted"] == 1


async def test_a_port_that_is_taken_fails_the_instances_that_need_it_until_it_is_free(
    broker: FakeBroker,
) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        place = NamedPort(DOMAIN, other.getsockname()[1], "127.0.0.1")
        config = GatewayConfig(name="gateway-0", named_port=place, tls=FILES, named_tls=NAMED_FILES)
        gateway = Gateway(config)
        gateway.start()
        found = RunningGateway(gateway, broker.port, {})
        found.serve(named_spec(A, "app"), spec(B))
        assert list(gateway.listeners.failures) == [A]
        assert "Address already in use" in gateway.listeners.failures[A]
    gateway.listeners.retry_failed()
    assert not gateway.listeners.failures
    assert await (await connected(found, name_of(A))).call(MetadataRequest(topics=()))
    await gateway.aclose()

"""Brokers that are not ours: what they ask of a gateway, and what becomes of its clients when that fails."""

import asyncio
import shutil
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v4.request import MetadataRequest

from contracts.specs import ClusterSpec, Engine
from contracts.upstream import ClusterTrouble, UpstreamSecurity
from contracts.users import Mechanism, credential
from gateway.reporter import Reporter
from gateway.rules.scram import ScramFault, ScramServer
from runtime.internal_http import InternalClient
from runtime.kafka_client import KafkaConnection, KafkaRefused
from runtime.upstream import Upstream
from tenants.backend.cluster import ConnectionPool
from tests.scenarios.fake_broker import GATEWAY_CLIENT_ID, NODE_ID, FakeBroker, Received
from tests.scenarios.harness import CLUSTER_ID, A, FrameClient, RunningGateway, instance_spec, running_gateway
from wire.api_table import ApiKey
from wire.build import response

CERTIFICATES = Path(__file__).resolve().parents[2] / "certificates"
TLS = UpstreamSecurity(tls=True, has_ca=True)
MUTUAL = UpstreamSecurity(tls=True, has_ca=True, has_certificate=True)


def login(mechanism: Mechanism, *, tls: bool = False) -> UpstreamSecurity:
    return UpstreamSecurity(tls=tls, has_ca=tls, mechanism=mechanism, user="portico")


class Guarded(FakeBroker):
    """A broker of Apache Kafka's that asks for a login."""

    def __init__(self, mechanism: Mechanism | None = None) -> None:
        super().__init__()
        self._mechanism = mechanism
        self._scram: ScramServer | None = None
        self.logins = 0
        for intercept in (self.intercept_own, self.intercept):
            intercept(ApiKey.SASL_HANDSHAKE, self._handshake)
            intercept(ApiKey.SASL_AUTHENTICATE, self._authenticate)

    def _handshake(self, received: Received) -> Any:
        self._scram = None
        taken = self._mechanism == received.request.mechanism
        error = ErrorCode.none if taken else ErrorCode.unsupported_sasl_mechanism
        offered = [] if self._mechanism is None else [self._mechanism.value]
        return response(received.api_key, received.api_version, error_code=error, mechanisms=offered)

    def _authenticate(self, received: Received) -> Any:
        assert self._mechanism is not None
        said = received.request.auth_bytes
        answer, good = b"", False
        if self._mechanism is Mechanism.PLAIN:
            good = said == b"\0portico\0secret"
        elif self._scram is None:
            kept = credential(self._mechanism, "secret", b"salt of some bytes")
            self._scram = ScramServer(self._mechanism, "server", lambda _: kept)
            answer, good = self._scram.first(said), True
        else:
            try:
                answer, good = self._scram.final(said), True
            except ScramFault:
                good = False
        self.logins += good and (self._mechanism is Mechanism.PLAIN or answer.startswith(b"v="))
        error = ErrorCode.none if good else ErrorCode.sasl_authentication_failed
        return response(
            received.api_key,
            received.api_version,
            error_code=error,
            error_message=None if good else "Invalid credentials",
            auth_bytes=answer,
        )


def context(name: str = "gateway", client_ca: str | None = None) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(CERTIFICATES / f"{name}.pem", CERTIFICATES / f"{name}.key")
    if client_ca is not None:
        made.load_verify_locations(CERTIFICATES / f"{client_ca}.pem")
        made.verify_mode = ssl.CERT_REQUIRED
    return made


@pytest.fixture
def credentials(tmp_path: Path) -> Path:
    folder = tmp_path / CLUSTER_ID
    folder.mkdir()
    shutil.copy(CERTIFICATES / "authority.pem", folder / "ca.pem")
    shutil.copy(CERTIFICATES / "app.pem", folder / "client.pem")
    shutil.copy(CERTIFICATES / "app.key", folder / "client.key")
    (folder / "password").write_text("secret\n")
    return tmp_path


@pytest.fixture
async def serving() -> AsyncIterator[Callable[..., Awaitable[Guarded]]]:
    started: list[Guarded] = []

    async def start(mechanism: Mechanism | None = None, tls: ssl.SSLContext | None = None) -> Guarded:
        broker = Guarded(mechanism)
        await broker.start(tls)
        started.append(broker)
        return broker

    yield start
    for broker in started:
        await broker.stop()


@asynccontextmanager
async def in_front(
    broker: Guarded, security: UpstreamSecurity, credentials: Path, met: str = "physical-cluster"
) -> AsyncIterator[RunningGateway]:
    cluster = {"engine": Engine.APACHE, "kafka_cluster_id": met, "security": security}
    async with running_gateway(
        broker.port, instance_spec(A), cluster=cluster, credentials_dir=credentials
    ) as gateway:
        yield gateway


async def described(client: FrameClient) -> set[int]:
    answer = await client.call(MetadataRequest(topics=(), allow_auto_topic_creation=False))
    return {int(one.node_id) for one in answer.brokers}


def way(security: UpstreamSecurity, credentials: Path, met: str | None) -> Upstream:
    spec = ClusterSpec(
        revision=1, cluster_id=CLUSTER_ID, engine=Engine.APACHE, kafka_cluster_id=met, security=security
    )
    return Upstream(spec, credentials)


async def entered(broker: Guarded, upstream: Upstream) -> KafkaConnection:
    """As the control plane and its like do."""
    return await KafkaConnection.open(
        "127.0.0.1", broker.port, client_id=GATEWAY_CLIENT_ID, upstream=upstream
    )


@pytest.mark.parametrize(
    ("security", "tls"),
    [
        (login(Mechanism.PLAIN), None),
        (login(Mechanism.SCRAM_SHA_256), None),
        (login(Mechanism.SCRAM_SHA_512), None),
        (TLS, context()),
        (MUTUAL, context(client_ca="authority")),
        (login(Mechanism.SCRAM_SHA_512, tls=True), context()),
    ],
    ids=["plain", "scram-256", "scram-512", "tls", "mutual", "sasl_ssl"],
)
async def test_a_gateway_does_what_brokers_ask_for(
    serving: Callable[..., Awaitable[Guarded]],
    credentials: Path,
    security: UpstreamSecurity,
    tls: ssl.SSLContext | None,
) -> None:
    """Twice: the second connection finds what the first one made."""
    broker = await serving(security.mechanism, tls)
    async with in_front(broker, security, credentials) as gateway:
        for _ in range(2):
            client = await gateway.client(A)
            assert await described(client) == {NODE_ID}
            client.close()
        assert broker.logins >= 2 * (security.mechanism is not None)
    (await entered(broker, way(security, credentials, "physical-cluster"))).close()


@pytest.mark.parametrize(
    ("security", "mechanism", "tls", "cause", "says"),
    [
        (login(Mechanism.PLAIN), Mechanism.SCRAM_SHA_256, None, "upstream_login_refused", "SCRAM-SHA-256"),
        (TLS, None, None, "upstream_tls_failed", "closed the connection"),
        (TLS, None, context("expired"), "upstream_tls_failed", "expired"),
        (TLS, None, context("ahead"), "upstream_tls_failed", "not yet valid"),
        (TLS, None, context(client_ca="authority"), "upstream_tls_failed", "certificate"),
        (MUTUAL, None, context(client_ca="others"), "upstream_tls_failed", "certificate"),
        (MUTUAL, None, context("nobody"), "upstream_tls_failed", "127.0.0.1"),
    ],
    ids=["mechanism", "no-tls", "expired", "ahead", "no-certificate", "our-certificate", "name"],
)
async def test_a_refusal_has_a_name(
    serving: Callable[..., Awaitable[Guarded]],
    credentials: Path,
    security: UpstreamSecurity,
    mechanism: Mechanism | None,
    tls: ssl.SSLContext | None,
    cause: str,
    says: str,
) -> None:
    broker = await serving(mechanism, tls)
    await _refused(broker, security, credentials, cause)
    with pytest.raises(KafkaRefused, match=says):
        await entered(broker, way(security, credentials, None))


async def test_a_wrong_password_is_a_refusal(
    serving: Callable[..., Awaitable[Guarded]], credentials: Path
) -> None:
    (credentials / CLUSTER_ID / "password").write_text("another")
    for mechanism in (Mechanism.PLAIN, Mechanism.SCRAM_SHA_256):
        broker = await serving(mechanism)
        await _refused(broker, login(mechanism), credentials, "upstream_login_refused")
        assert not broker.logins


async def test_another_cluster_at_the_address_is_a_stranger(
    serving: Callable[..., Awaitable[Guarded]], credentials: Path
) -> None:
    """Nothing of a client reaches it."""
    broker = await serving()
    await _refused(broker, UpstreamSecurity(), credentials, "upstream_stranger", met="the-one-before")
    assert not [one for one in broker.received if not one.is_own]
    with pytest.raises(KafkaRefused, match="calls itself physical-cluster, and was the-one-before"):
        await entered(broker, way(UpstreamSecurity(), credentials, "the-one-before"))


async def test_a_password_that_is_not_there_is_a_refusal(
    serving: Callable[..., Awaitable[Guarded]], credentials: Path
) -> None:
    (credentials / CLUSTER_ID / "password").unlink()
    broker = await serving(Mechanism.PLAIN)
    await _refused(broker, login(Mechanism.PLAIN), credentials, "upstream_login_refused")
    assert not broker.connections


async def _refused(
    broker: Guarded, security: UpstreamSecurity, credentials: Path, cause: str, **spec: Any
) -> None:
    async with in_front(broker, security, credentials, **spec) as gateway:
        client = await gateway.client(A)
        client.send(MetadataRequest(topics=(), allow_auto_topic_creation=False))
        with pytest.raises(asyncio.IncompleteReadError):
            await client.frame(timeout_s=30)
        client.close()
        async with asyncio.timeout(30):
            while not gateway.closed(A).get(cause):
                assert not gateway.closed(A), gateway.closed(A)
                await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("security", "mechanism", "trouble"),
    [
        (login(Mechanism.PLAIN), Mechanism.SCRAM_SHA_256, ClusterTrouble.LOGIN_REFUSED),
        (TLS, None, ClusterTrouble.TLS_FAILED),
    ],
    ids=["login", "tls"],
)
async def test_a_worker_tells_of_a_cluster_that_refuses_it_before_clients_come(
    serving: Callable[..., Awaitable[Guarded]],
    credentials: Path,
    security: UpstreamSecurity,
    mechanism: Mechanism | None,
    trouble: ClusterTrouble,
) -> None:
    broker = await serving(mechanism)
    async with in_front(broker, security, credentials) as gateway:
        assert await _told(gateway) == [trouble]
    async with in_front(broker, UpstreamSecurity(), credentials) as gateway:
        assert await _told(gateway) == []
        await broker.stop()
        assert await _told(gateway) == [ClusterTrouble.UNREACHABLE]
        await broker.start()
        assert await _told(gateway) == []
    async with in_front(broker, login(Mechanism.PLAIN), credentials.parent / "nowhere") as gateway:
        assert await _told(gateway) == [ClusterTrouble.CREDENTIALS]


async def _told(gateway: RunningGateway) -> list[ClusterTrouble]:
    worker = gateway.gateway.worker
    for backend in worker.backends:
        await backend.look()
    client = InternalClient("http://127.0.0.1:1", "no secret")
    return [one.trouble for one in Reporter(worker, client, "gateway-0", "boot").report().clusters]


async def test_the_console_asks_by_the_credentials_that_are_there_now(
    serving: Callable[..., Awaitable[Guarded]], credentials: Path
) -> None:
    """Not by a connection that others let in: a password that gateways cannot use must not look good."""
    broker = await serving(Mechanism.PLAIN)
    pool = ConnectionPool(None)
    upstream = way(login(Mechanism.PLAIN), credentials, "physical-cluster")
    password = credentials / CLUSTER_ID / "password"

    async def asked() -> str:
        request = MetadataRequest(topics=(), allow_auto_topic_creation=False)
        address = "127.0.0.1", broker.port
        answer = await pool.call(address, request, read_only=True, timeout_s=30, upstream=upstream)
        return str(answer.cluster_id)

    assert await asked() == await asked() == "physical-cluster"
    assert broker.logins == 1, "one connection serves both"
    password.write_text("another one")
    with pytest.raises(KafkaRefused, match="refuses the login"):
        await asked()
    password.unlink()
    with pytest.raises(KafkaRefused, match="is not there"):
        await asked()
    password.write_text("secret\n")
    assert await asked() == "physical-cluster"
    pool.close()

"""One gateway worker: its instances, its connections, its timers. The parts are put together in `app`."""

import asyncio
import hmac
import socket
from functools import partial
from typing import Final

from contracts.quota import NO_NODE, Direction
from contracts.specs import ClusterSpec, Engine, InstanceSpec, Limits, Listener
from gateway.backend import Backend
from gateway.causes import DisconnectCause
from gateway.certificates import Certificates
from gateway.config import GatewayConfig
from gateway.connection import Connection
from gateway.dial import Way
from gateway.instance_host import AnswerTimes, InstanceHost
from gateway.mutation_bucket import MutationBucket
from gateway.outside import AskUpstream, Control, Outside
from gateway.rules.client_metrics import ClientMetrics, Read
from gateway.rules.limits import ConnectionCounts, admission_fault
from gateway.rules.logins import Logins
from gateway.rules.whitelist import shown_address
from gateway.served import ServedInstance
from gateway.session.session import Session
from gateway.shared_buckets import SharedBuckets
from gateway.shared_table import SharedTable
from gateway.sockets import ReceiveBuffer, StreamSocket, prepare, reset
from gateway.splicing import SplicePipe
from gateway.tls import TlsSocket
from gateway.traced import TracedConnection, TracesOfConnection, TracesOfWorker
from gateway.upstream_login import Login
from gateway.workplace import Leaving
from runtime.logs import get_logger
from runtime.machine import Machine
from runtime.pacing import Pacing
from runtime.upstream import Upstreams
from traffic.mutation_rate import MutationRate
from traffic.point import TrafficPoint
from traffic.relayed import RelayedFlows
from wire.framing import Buffer

_log = get_logger(__name__)
_EXPECTED: Final = frozenset(
    {
        DisconnectCause.CLIENT_CLOSED,
        DisconnectCause.CLIENT_RESET,
        DisconnectCause.IDLE_TIMEOUT,
        DisconnectCause.UPSTREAM_CLOSED,
        DisconnectCause.GATEWAY_STOPPED,
        DisconnectCause.GATEWAY_REPLACED,
        DisconnectCause.FAULT_INJECTED,
    }
)
"""Causes not worth a line in the log each."""


def _read_metrics(payload: bytes, codec: int, asked: tuple[str, ...]) -> Read:
    """Protobuf and its messages are loaded where a client pushes the first metrics: 10 MB."""
    from gateway.otlp import read_metrics

    return read_metrics(payload, codec, asked)


class Worker:
    """What connections share."""

    def __init__(
        self,
        config: GatewayConfig,
        secret: str | None,
        table: SharedTable,
        buckets: SharedBuckets,
        machine: Machine,
    ) -> None:
        self.config = config
        self.clock = machine.clock
        self.network = machine.network
        self.loop = asyncio.get_running_loop()
        self.buffer = ReceiveBuffer()
        self.pipe = SplicePipe()
        self.point = TrafficPoint(
            point=config.name,
            node_id=NO_NODE,
            cluster_id="",
            boot_id=machine.random.randbytes(8).hex(),
            now_ms=self.clock.monotonic_ms(),
        )
        """Request time of every instance on this worker."""
        self.pacing = Pacing(self.loop, self.point, clock=self.clock)
        self.now_ms = self.clock.monotonic_ms()
        """The time of the last tick or connect: good enough for timeouts of seconds, and free to read."""
        self.served: dict[str, ServedInstance] = {}
        self.times = AnswerTimes()
        self._hosts: dict[str, InstanceHost] = {}
        self._backends: dict[str, Backend] = {}
        self._secret = secret
        self._upstreams = Upstreams(config.credentials_dir, self.clock.monotonic_ms)
        self._login = Login(secret)
        self._draw = machine.random.randbytes
        self._salts_key = self._draw(32) if secret is None else secret.encode()
        """The same on all workers: no name may have another salt elsewhere."""
        self.certificates = None if config.tls is None else Certificates(config.tls)
        """None: nobody is served TLS."""
        self.named_certificates = (
            self.certificates if config.named_tls is None else Certificates(config.named_tls)
        )
        """The same at the port that serves by names."""
        self.control: Control | None = None
        """None: instances come from a file, and no user changes them."""
        self.traces: TracesOfWorker | None = None
        """None: requests are not traced."""
        self._traced: dict[Leaving, TracesOfConnection] = {}
        self.connections_to_nobody = 0
        """At a socket that vips share, to an address that is no instance's."""
        self._table = table
        self._buckets = buckets
        self._logged_in_second = (0, 0)

    # Instances

    def join(self, spec: InstanceSpec) -> ServedInstance:
        """An instance comes."""
        salts = hmac.digest(self._salts_key, spec.instance_id.encode(), "sha256")
        logins = Logins(salts, self._draw, self.clock.epoch_ms)
        turn = self.pacing.join(spec.instance_id)
        client_metrics = ClientMetrics(self._draw, _read_metrics)
        now_ms = self.clock.monotonic_ms()
        served = ServedInstance(spec, turn, logins, client_metrics, self.config.named_port, now_ms=now_ms)
        served.set_full(self.point.relays.full(spec.instance_id))
        self.served[spec.instance_id] = served
        self._hosts[spec.instance_id] = InstanceHost(
            served,
            self.pacing,
            self.times,
            self.backend,
            self.clock.monotonic_ms,
            MutationBucket(served, self._buckets, self._mutation_rate, self.clock.monotonic_ns),
        )
        return served

    def leave(self, served: ServedInstance) -> None:
        """An instance is gone, and its connections are."""
        assert not served.connections
        self.pacing.leave(served.turn)
        del self.served[served.instance_id], self._hosts[served.instance_id]

    def _mutation_rate(self, limits: Limits) -> MutationRate:
        """Of an instance here: machines have the rate in parts, by their workers."""
        here = self._table.workers
        return MutationRate(limits.controller_mutation_rate_max, here, max(here, self.point.gateway_count))

    # Clusters

    def apply_cluster(self, spec: ClusterSpec) -> Backend:
        """Take a revision of a cluster."""
        backend = self._backends.get(spec.cluster_id)
        if backend is None:
            backend = self._backends[spec.cluster_id] = Backend(
                spec, self._secret, self._upstreams, self.network
            )
        else:
            backend.apply(spec)
        return backend

    def backend(self, cluster_id: str) -> Backend:
        """A cluster; one that no spec has named yet has no brokers."""
        backend = self._backends.get(cluster_id)
        return backend or self.apply_cluster(ClusterSpec(revision=0, cluster_id=cluster_id))

    @property
    def backends(self) -> tuple[Backend, ...]:
        """All clusters."""
        return tuple(self._backends.values())

    def way(self, cluster_id: str, node_id: int | None) -> Way:
        """Where the upstream connection of a listener goes."""
        backend = self.backend(cluster_id)
        address = backend.address(backend.node(node_id))
        return address, None if address is None else backend.door(address)

    def login_frames(self, instance_id: str, peer: str) -> list[Buffer]:
        """What goes up in front of a client's first request."""
        backend = self.backend(self.served[instance_id].spec.cluster_id)
        return list(self._login.frames(instance_id, peer)) if backend.knows_instances else []

    # Request time

    def limit(self, spec: InstanceSpec) -> None:
        """Hold an instance to the request time of this revision of its spec."""
        self._count_workers()
        if self.point.set_spec(spec, self.clock.monotonic_ms()):
            self.rates_changed(frozenset({spec.instance_id}))

    def bill_all(self) -> None:
        """Before a report: nothing that was spent is missing in it."""
        self._count_workers()
        self.pacing.bill_all(served.turn for served in self.served.values())

    def _count_workers(self) -> None:
        """The static share is made of as many as are here, where the master has not heard of more."""
        self.point.gateway_count = max(self.point.gateway_count, self._table.workers)

    def rates_changed(self, instance_ids: frozenset[str]) -> None:
        """Debts of these instances are paid at another pace now, or they are full, or not any more."""
        served = [self.served[each] for each in instance_ids if each in self.served]
        self.pacing.look_again(one.turn for one in served)
        for one in served:
            one.set_full(self.point.relays.full(one.instance_id))

    # Connections

    def accept(
        self,
        served: ServedInstance,
        listener: Listener,
        sock: socket.socket,
        address: str,
        port: int,
        hello: bytes = b"",
    ) -> DisconnectCause | None:
        """A client has connected to one of an instance's ports, or has named it in its `hello`. Answers why
        it was refused, if it was."""
        address = shown_address(address)
        cause = served.entry_fault(address)
        by_address = f"{served.instance_id} {address}"
        second = self.clock.monotonic_ms() // 1000
        if cause is None:
            of_instance, opened = self._table.total(served.instance_id, second)
            of_address, _ = self._table.total(by_address, second)
            cause = admission_fault(served.spec.limits, ConnectionCounts(of_instance, of_address, opened))
        if cause is not None:
            served.count_refused(cause, address, self.clock.epoch_ms())
            reset(sock)
            return cause
        prepare(sock)
        secured = self._secured(served, listener, sock, hello)
        connection = self._connection(served, listener, secured, address, port)
        connection.counted = tuple(
            name for name in (served.instance_id, by_address) if self._table.opened(name, second)
        )
        served.connections.add(connection)
        if connection.tls is not None:
            self._shakes_hands(served, connection, connection.tls)
        if hello:
            self.loop.call_soon(self._goes_on, connection)
        return None

    @staticmethod
    def _goes_on(connection: Connection) -> None:
        """With what was read of it before it was one; its socket need not tell of more."""
        if not connection.closed and connection.requests.reading:
            connection.requests.ready()

    def _shakes_hands(self, served: ServedInstance, connection: Connection, tls: TlsSocket) -> None:
        tls.opened = partial(served.handshakes.ends, connection)
        displaced = served.handshakes.begins(connection, connection.address)
        if displaced is not None:
            displaced.close(DisconnectCause.TLS_HANDSHAKES_MAX)

    def _shook(self, served: ServedInstance, spent_ns: int) -> None:
        """A step of a handshake has taken so long."""
        flow = self.point.flow(served.instance_id, Direction.CPU)
        if flow is not None:
            served.handshakes.spent(spent_ns, flow.rate_per_s, self.clock.monotonic_ms())

    def lacks_certificate(self, listener: Listener, *, by_name: bool = False) -> str:
        """Why nobody could be served at a listener, if so."""
        if not listener.security_protocol.is_encrypted:
            return ""
        certificates = self.named_certificates if by_name else self.certificates
        if certificates is None:
            return "no certificate: start with --tls-cert and --tls-key"
        return "" if certificates.is_usable else f"no certificate: {certificates.failure}"

    def _secured(
        self, served: ServedInstance, listener: Listener, sock: socket.socket, hello: bytes
    ) -> StreamSocket:
        protocol = listener.security_protocol
        if not protocol.is_encrypted:
            return sock
        certificates = self.named_certificates if hello else self.certificates
        assert certificates is not None, "no listener without a certificate"
        by_certificate = not protocol.asks_for_login and certificates.asks_for_certificates
        context = certificates.context(by_certificate=by_certificate)
        is_user = served.logins.knows if by_certificate else None
        spent = partial(self._shook, served)
        return TlsSocket(sock, context, is_user, clock_ns=self.clock.monotonic_ns, spent=spent, hello=hello)

    def _connection(
        self, served: ServedInstance, listener: Listener, sock: StreamSocket, address: str, port: int
    ) -> Connection:
        host = self._hosts[served.instance_id]
        node_id = self.backend(served.spec.cluster_id).node(listener.node_id)
        relay = self._relay(served, node_id)
        traces = (
            None
            if self.traces is None
            else self.traces.of(self._traced_connection(served, listener, address))
        )
        certificate = sock if isinstance(sock, TlsSocket) else None
        protocol = listener.security_protocol
        session = Session(
            served,
            host,
            address,
            node_id,
            self.now_ms,
            traces,
            protocol,
            relay,
            certificate,
            by_name=listener in served.named,
        )
        connection = Connection(self, served, listener, session, sock, address, port)
        if traces is not None:
            self._traced[connection] = traces
        return connection

    def _relay(self, served: ServedInstance, node_id: int | None) -> RelayedFlows | None:
        """The account at a broker that is not ours; at a bootstrap listener, whose turn it is."""
        backend = self.backend(served.spec.cluster_id)
        if backend.spec.engine is not Engine.APACHE:
            return None
        node_id = backend.next_node() if node_id is None else node_id
        if node_id is None:
            return None  # no broker is known: the connection will end with that cause
        relay = self.point.relays.flows(served.spec, node_id, self.clock.monotonic_ms())
        relay.connections += 1
        return relay

    def _traced_connection(
        self, served: ServedInstance, listener: Listener, address: str
    ) -> TracedConnection:
        def upstream_address() -> tuple[str, int] | None:
            if listener.node_id is None:
                return None
            return self.backend(served.spec.cluster_id).address(listener.node_id)

        return TracedConnection(served.instance_id, served.spec.tenant, address, upstream_address)

    def outside(
        self,
        served: ServedInstance,
        node_id: int | None,
        relay: RelayedFlows | None,
        ask_upstream: AskUpstream,
    ) -> Outside:
        """What a request of a connection may ask of others."""
        backend = self.backend(served.spec.cluster_id)
        return Outside(
            served,
            backend,
            backend.node(node_id),
            ask_upstream if backend.knows_instances else None,
            relay,
            lambda spent_us: self.pacing.add_helper_time(served.turn, spent_us * 1000),
            lambda: self.now_ms,
            self.config.timeouts.connect_ms,
            self.control,
        )

    def forget(self, connection: Leaving, cause: DisconnectCause, detail: str) -> None:
        """A connection has ended."""
        served = connection.served
        served.connections.discard(connection)
        served.account.leaves(connection, self.now_ms)
        served.handshakes.ends(connection)
        served.closed[cause] += 1
        if connection.session.relay is not None:
            connection.session.relay.connections -= 1
        for name in connection.counted:
            self._table.closed(name)
        if cause in (DisconnectCause.UPSTREAM_CLOSED, DisconnectCause.UPSTREAM_UNREACHABLE):
            backend = self.backend(served.spec.cluster_id)
            backend.doubt_versions(backend.node(connection.listener.node_id))
        traces = self._traced.pop(connection, None)
        if traces is not None:
            traces.cut(cause)
        if cause not in _EXPECTED:
            self._log_end(connection, cause, detail)

    def _log_end(self, connection: Leaving, cause: DisconnectCause, detail: str) -> None:
        """One line, at most ten a second: a flood of bad clients must not become a flood of lines."""
        second, lines = self._logged_in_second
        lines = lines + 1 if second == self.now_ms // 1000 else 1
        self._logged_in_second = (self.now_ms // 1000, lines)
        if lines <= 10:
            _log.info(
                "connection ended",
                instance=connection.served.instance_id,
                peer=connection.peer,
                cause=str(cause),
                detail=detail[:200],
            )

    def tick(self) -> None:
        """Close what is overdue. Called about twice a second."""
        self.now_ms = self.clock.monotonic_ms()
        self._look_at_certificate(self.certificates)
        if self.named_certificates is not self.certificates:
            self._look_at_certificate(self.named_certificates)
        for served in tuple(self.served.values()):
            if served.faults is not None:
                ends = partial(served.end_faults, self.now_ms, self.clock.epoch_ms())
                self.pacing.run_now(served.turn, ends)
            if served.connections:
                self.pacing.run_now(served.turn, partial(self._close_overdue, served))

    @staticmethod
    def _look_at_certificate(certificates: Certificates | None) -> None:
        if certificates is None:
            return
        failure = certificates.failure
        if certificates.refresh():
            _log.info("another certificate", not_after_s=certificates.not_after_s)
        elif certificates.failure != failure:
            _log.error("the certificate's files are of no use", reason=certificates.failure)

    def _close_overdue(self, served: ServedInstance) -> None:
        for connection in tuple(served.connections):
            cause = connection.overdue(self.config.timeouts, self.now_ms)
            if cause is not None:
                connection.close(cause)

    def close(self) -> None:
        """The worker stops: every connection is closed."""
        for served in self.served.values():
            served.cut(DisconnectCause.GATEWAY_STOPPED)
        for backend in self._backends.values():
            backend.close()
        self._table.close()
        self._buckets.close()
        self.pipe.close()

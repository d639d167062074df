"""The listening socket, the connections, and the way of a frame from its header to its handler."""

import asyncio
import contextlib
import errno
import socket
from collections import Counter
from collections.abc import Callable, Container
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from broker.config import BrokerConfig
from broker.net.connection import Connection
from broker.net.request_time import RequestTime
from broker.net.rules.memory import ReceiveMemory
from broker.net.rules.rate_limited import RateLimitedLog
from broker.requests.apis import APIS, CHARGED, Api, Handler
from broker.requests.call import Call, Channel
from broker.requests.causes import CloseCause
from broker.requests.login import check_plain
from broker.requests.metrics import BrokerMetrics
from broker.requests.payer import Charged, Payer
from runtime.durations import observe
from runtime.logs import get_logger
from runtime.machine import Machine
from traffic.point import TrafficPoint
from wire.api_table import ApiKey
from wire.codec import (
    MalformedFrame,
    RequestHeader,
    decode,
    is_flexible,
    parse_request_prefix,
    request_class,
    request_header,
)

if TYPE_CHECKING:
    from broker.requests.tracing import BrokerTraces

_log = get_logger(__name__)
_ACCEPTS_PER_TURN: Final = 4
"""Whom they are for is known at their login only: until then they may not use up a quantum of the others."""
_SWEEP_S: Final = 1.0
_ACCEPT_PAUSE_S: Final = 0.5
_BACKLOG: Final = 1024
_ANSWERED: Final = -1
"""Instead of the time when the handler returned."""
_EMPTY_FRAME: Final = bytes(4)
_QUIET_CAUSES: Final = frozenset(
    {CloseCause.CLIENT_CLOSED, CloseCause.CLIENT_RESET, CloseCause.IDLE, CloseCause.SHUTDOWN}
)


class Route(NamedTuple):
    """What to do with one API and version."""

    api: Api
    handler: Handler
    flexible: bool
    request_class: Any
    """None: the handler scans the frame."""
    frame_bytes_max: int
    is_internal: bool
    """Charged when it comes; the others charge for themselves."""


class Server:
    """Accepts connections and dispatches their requests. Everything runs on the one event loop."""

    def __init__(
        self,
        config: BrokerConfig,
        metrics: BrokerMetrics,
        traffic: TrafficPoint,
        machine: Machine,
        *,
        deps: object,
        unserved: Container[str],
        next_request_came: Callable[[int], None],
        on_closed: Callable[[int], None],
    ) -> None:
        """`deps` is handed to every handler. `unserved`: instances that are deleted or absent. The callbacks
        get a connection's id."""
        self.config = config
        self.metrics = metrics
        self._traffic = traffic
        self._deps = deps
        self._unserved_ids = unserved
        self.next_request_came = next_request_came
        self._on_closed = on_closed
        self.loop = asyncio.get_running_loop()
        self.memory = ReceiveMemory(self.config.request_memory_bytes, self.config.instance_memory_bytes)
        self.shared = bytearray(self.config.receive_buffer_bytes)
        self.shared_view = memoryview(self.shared)
        self.connections: dict[int, Connection] = {}
        self.muted: set[Connection] = set()
        self._paid_by: Counter[str] = Counter()
        """Connections by the instance that pays for them."""
        self.call_soon: Callable[[Callable[[], None]], object] = self.loop.call_soon
        clock = machine.clock
        self.time = RequestTime(self.loop, traffic, clock)
        self.now_ms = clock.monotonic_ms
        self._cpu_ns = clock.cpu_ns
        self.network = machine.network
        self.traces: BrokerTraces | None = None
        """None: requests are not traced."""
        self._next_connection_id = 1
        self._listener: socket.socket | None = None
        self._routes: dict[tuple[int, int], Route] = {}
        self._warnings = RateLimitedLog(_log)
        self._stopping = False

    def bind(self) -> int:
        """Take the port, and let the kernel queue who connects; returns it. Raises: OSError."""
        listener = self.network.stream_socket(self.config.listen_host)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((self.config.listen_host, self.config.listen_port))
            listener.listen(_BACKLOG)
        except OSError:
            listener.close()
            raise
        self._listener = listener
        return int(listener.getsockname()[1])

    def accept(self) -> None:
        """Begin to serve who has connected. Again is harmless."""
        assert self._listener is not None
        self.loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        assert self._listener is not None
        for _ in range(_ACCEPTS_PER_TURN):
            try:
                sock, address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause_accepting(error)
                return
            self._admit(sock, address)

    def bill(self) -> None:
        """Before a report: have what instances spent told."""
        self.time.bill(self._paid_by)

    def _admit(self, sock: socket.socket, address: Any) -> None:
        began_ns = self._cpu_ns()
        self.metrics.connections_accepted += 1
        if len(self.connections) >= self.config.connections_max:
            sock.close()
            self.metrics.closed(CloseCause.TOO_MANY_CONNECTIONS)
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection = Connection(self, sock, self._next_connection_id, str(address[0]))
        self._next_connection_id += 1
        self.connections[connection.connection_id] = connection
        connection.start()
        connection.accept_ns = self._cpu_ns() - began_ns

    def make_room(self) -> None:
        """Memory is short: of the instance that holds most, the largest frame that stands still goes."""
        if not self.memory.waits_for_budget:
            return
        share = self.memory.largest_share
        if share is None:
            return
        stalled = max(
            (each for each in self.connections.values() if each.share == share),
            key=lambda each: each.stalled_bytes,
            default=None,
        )
        if stalled is not None and stalled.stalled_bytes:
            self._traffic.refuse(share, str(CloseCause.FRAME_GIVEN_UP))
            stalled.close(CloseCause.FRAME_GIVEN_UP)

    def _pause_accepting(self, error: OSError) -> None:
        """Out of file descriptors or memory: look again in a moment instead of spinning."""
        assert self._listener is not None
        name = errno.errorcode.get(error.errno or 0, "?")
        self._warnings.warning("connections cannot be accepted", self.now_ms(), error=name)
        self.loop.remove_reader(self._listener)
        self.loop.call_later(_ACCEPT_PAUSE_S, self._accept_again)

    def _accept_again(self) -> None:
        if self._listener is not None and not self._stopping:
            self.loop.add_reader(self._listener, self._accept)

    # -- frames ------------------------------------------------------------------------------------------

    def dispatch(self, connection: Connection, frame: memoryview) -> None:
        """Hand one whole frame to its handler. Whatever the bytes are, only this connection suffers."""
        login = connection.login
        if login.awaits_token:
            self._bare_token(connection, bytes(frame))
            return
        try:
            api_key, api_version, correlation_id = parse_request_prefix(frame)
            route = self._routes.get((api_key, api_version)) or self._route(api_key, api_version)
            if route is None:
                self._unserved(connection, api_key, api_version, correlation_id)
                return
            if not (login.is_open or route.api.before_auth):
                self._refuse(connection, CloseCause.NOT_AUTHENTICATED, route.api.key.name)
                return
            if route.api.is_ours and not _may_know(route.api, connection):
                self._unserved(connection, api_key, api_version, correlation_id)
                return
            if len(frame) > route.frame_bytes_max:
                self._refuse(
                    connection, CloseCause.FRAME_TOO_LARGE, f"{route.api.key.name} {len(frame)} bytes"
                )
                return
            header = request_header(api_key, api_version, correlation_id, frame, route.flexible)
            request: Any = frame
            if route.request_class is not None:
                request = decode(route.request_class, bytes(frame), header.body_at)
            call = connection.session.call = Call(header, request, connection, self.now_ms())
            call.began_ns = monotonic_ns()
            if connection.waiting_since_ns or connection.traced is not None:
                self._begin_seldom(connection, call)
            payer = login.payer
            if payer is not None and (route.is_internal or payer.reservation is not None):
                self._charge(payer, call, len(frame) + 4, is_internal=route.is_internal)
            self.metrics.requests[api_key] += 1
            route.handler(call, self._deps)
            self._handled(call)
        except MalformedFrame as error:
            self._charge_malformed(connection, api_key, len(frame) + 4)
            self._refuse(connection, CloseCause.MALFORMED_REQUEST, str(error))
        except Exception:  # noqa: BLE001 - the boundary: a handler's bug costs one connection, not the process
            self.handler_failed(connection, api_key)

    def _begin_seldom(self, connection: Connection, call: Call) -> None:
        """What only requests that had to wait and traced ones need."""
        queued_ns, traced = 0, connection.traced
        if connection.waiting_since_ns:
            queued_ns = call.began_ns - connection.waiting_since_ns
            connection.waiting_since_ns = 0
            observe(self.metrics.queue_times[call.header.api_key], queued_ns)
        if traced is not None:
            connection.traced = None
            if self.traces is not None:
                call.trace = self.traces.begin(traced, call, queued_ns)

    def _charge(self, payer: Payer, call: Call, frame_bytes: int, *, is_internal: bool) -> None:
        """Produce and Fetch charge for themselves, when they know what was carried."""
        reservation = payer.take_reservation()
        if is_internal:
            payer.charge_request(frame_bytes, reservation, call.received_at_ms)
            call.debt = lambda: payer.internal_debt(self.now_ms())
        else:
            call.reservation = reservation

    def _charge_malformed(self, connection: Connection, api_key: int, frame_bytes: int) -> None:
        payer, charged = connection.login.payer, CHARGED.get(api_key)
        if payer is None or charged is None:
            return
        call = connection.session.call
        if call is not None and call.reservation is not None:
            payer.reservation, call.reservation = call.reservation, None
        payer.cut(charged, frame_bytes, str(CloseCause.MALFORMED_REQUEST), self.now_ms())

    def begin_paying(self, connection: Connection, instance_id: str) -> None:
        """An instance pays for a connection that logs in; it is closed when the instance has its connections,
        or is deleted or absent.

        Gateways hold an instance to its connections, too: here are also those whose clients have given up
        while their requests wait their turn.
        """
        if instance_id in self._unserved_ids:
            self._traffic.refuse(instance_id, str(CloseCause.INSTANCE_NOT_SERVED))
            connection.close(CloseCause.INSTANCE_NOT_SERVED)
            return
        connections_max = self._traffic.connections_max(instance_id)
        if connections_max is not None and self._paid_by[instance_id] >= connections_max:
            self._traffic.refuse(instance_id, str(CloseCause.TOO_MANY_CONNECTIONS))
            connection.close(CloseCause.TOO_MANY_CONNECTIONS)
            return
        self._paid_by[instance_id] += 1
        connection.login.payer = Payer(self._traffic, instance_id)
        connection.turn = turn = self.time.turn(instance_id)
        turn.spent(connection.accept_ns)

    def cut(self, instance_id: str) -> None:
        """Close what an instance's clients have open: a gateway that has not heard may still serve it."""
        for connection in list(self.connections.values()):
            payer = connection.login.payer
            if payer is not None and payer.instance_id == instance_id:
                connection.close(CloseCause.INSTANCE_NOT_SERVED)

    def _route(self, api_key: int, api_version: int) -> Route | None:
        api = APIS.get(api_key)
        if api is None or not api.versions.serves(api_version):
            return None
        limit = self.config.request_bytes_max
        route = self._routes[api_key, api_version] = Route(
            api,
            api.load(),
            not api.is_ours and is_flexible(api_key, api_version),
            None if api.raw or api.is_ours else request_class(api_key, api_version),
            limit if api.frame_bytes_max is None else min(limit, api.frame_bytes_max),
            api.charged is Charged.INTERNAL,
        )
        return route

    def _unserved(self, connection: Connection, api_key: int, api_version: int, correlation_id: int) -> None:
        """Not in the table: no answer has a known form, except that of ApiVersions."""
        api = APIS.get(api_key)
        if api is None or not _may_know(api, connection):
            self._refuse(connection, CloseCause.UNKNOWN_API, f"api key {api_key}")
        elif api_key == ApiKey.API_VERSIONS:
            header = RequestHeader(api_key, api_version, correlation_id, None, 0, False)
            call = connection.session.call = Call(header, None, connection, self.now_ms())
            call.began_ns = monotonic_ns()
            api.load()(call, self._deps)
            self._handled(call)
        elif not (connection.login.is_open or api.before_auth):
            self._refuse(connection, CloseCause.NOT_AUTHENTICATED, api.key.name)
        else:
            self._refuse(connection, CloseCause.UNSUPPORTED_VERSION, f"{api.key.name} v{api_version}")

    def handler_failed(self, connection: Channel, api_key: int) -> None:
        """A handler raised what it should not: report it and close. Call it while handling the exception."""
        name = ApiKey(api_key).name if api_key in APIS else str(api_key)
        self._warnings.warning("a handler failed", self.now_ms(), api=name, exc_info=True)
        connection.close(CloseCause.INTERNAL_ERROR)

    def _bare_token(self, connection: Connection, token: bytes) -> None:
        """SaslHandshake v0: the token without a Kafka header, answered by an empty frame."""
        assert self.config.secret is not None
        authorization_id = check_plain(token, self.config.secret)
        if authorization_id is None:
            self._refuse(connection, CloseCause.AUTHENTICATION_FAILED, "bare token")
            return
        connection.authenticated(authorization_id)
        connection.send_bare(_EMPTY_FRAME)

    def _refuse(self, connection: Connection, cause: CloseCause, detail: str) -> None:
        self._warnings.warning(
            "request refused, closing",
            self.now_ms(),
            cause=cause,
            detail=detail,
            host=connection.login.client_host,
        )
        connection.close(cause)

    def _handled(self, call: Call) -> None:
        """The handler has returned. Most have answered: then one time is both, and is counted once."""
        was_answered, call.handled_ns = call.handled_ns == _ANSWERED, monotonic_ns()
        times = self.metrics.times_at_once if was_answered else self.metrics.local_times
        observe(times[call.header.api_key], call.handled_ns - call.began_ns)
        if call.trace is not None and not call.done:
            call.trace.handled()

    def call_done(self, call: Call) -> None:
        """A call was answered."""
        if call.trace is not None:
            call.trace.answered()
        if not call.handled_ns:
            call.handled_ns = _ANSWERED  # by its handler, which is about to return
            return
        now_ns, api_key = monotonic_ns(), call.header.api_key
        observe(self.metrics.request_times[api_key], now_ns - call.began_ns)
        observe(self.metrics.remote_times[api_key], now_ns - call.handled_ns)

    # -- timers, mutes, the end --------------------------------------------------------------------------

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> asyncio.TimerHandle:
        """A timer in milliseconds."""
        return self.loop.call_later(delay_ms / 1000, callback)

    @staticmethod
    def cancel_timer(timer: asyncio.TimerHandle | None) -> None:
        """Cancel a timer that may not exist."""
        if timer is not None:
            timer.cancel()

    def check_mutes(self) -> None:
        """Rates have changed: muted channels may be due earlier, and what is owed in request time is."""
        self.time.look_again()
        for connection in list(self.muted):
            connection.check_mute()

    def connection_closed(self, connection: Connection, cause: CloseCause) -> None:
        """Every connection ends here, once."""
        self.connections.pop(connection.connection_id, None)
        payer = connection.login.payer
        if payer is not None:
            self._paid_by[payer.instance_id] -= 1
            if not self._paid_by[payer.instance_id]:
                del self._paid_by[payer.instance_id]
        self.metrics.closed(cause)
        if cause not in _QUIET_CAUSES:
            self._warnings.warning(
                f"connection closed: {cause}", self.now_ms(), cause=cause, host=connection.login.client_host
            )
        self._on_closed(connection.connection_id)

    async def sweep(self) -> None:
        """Run the connections' timers for ever."""
        before_ms = self.now_ms()
        while True:
            await asyncio.sleep(_SWEEP_S)
            now_ms = self.now_ms()
            for connection in list(self.connections.values()):
                cause = connection.tick(now_ms - before_ms)
                if cause is not None:
                    connection.close(cause)
            self.make_room()
            self.check_mutes()
            if not self.config.reports:
                self.bill()  # reports do it: else nobody would hear that an instance is alone
            before_ms = now_ms

    async def stop(self, grace_s: float) -> None:
        """Stop accepting, let calls in flight end for a moment, then close what is left."""
        self._stopping = True
        if self._listener is not None:
            with contextlib.suppress(ValueError):
                self.loop.remove_reader(self._listener)
            self._listener.close()
            self._listener = None
        deadline_ms = self.now_ms() + int(grace_s * 1000)
        for connection in list(self.connections.values()):
            if connection.session.is_idle:
                connection.close(CloseCause.SHUTDOWN)
        while self.connections and self.now_ms() < deadline_ms:
            await asyncio.sleep(0.01)
            for connection in list(self.connections.values()):
                if connection.session.is_idle:
                    connection.close(CloseCause.SHUTDOWN)
        for connection in list(self.connections.values()):
            connection.close(CloseCause.SHUTDOWN)


def _may_know(api: Api, connection: Connection) -> bool:
    login = connection.login
    return api.exists_for(
        is_peer=login.peer_broker is not None,
        is_payer=login.payer is not None,
        is_client=login.speaks_for_client,
    )

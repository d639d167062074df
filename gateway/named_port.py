"""One port for all instances that speak TLS: the name in a client's hello says whose it is (ADR 75).

Before it is known the connection is nobody's. Such connections have an account of their own, are few at a
time, and have to come to the point; behind the name they are what one at the instance's own port is. Who asks
for a name that is nobody's gets the same answer, on the same account, as who is not on the whitelist of the
instance whose name it is.
"""

import asyncio
import contextlib
import socket
from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

from contracts.server_names import NamedPort
from contracts.specs import Listener
from gateway.causes import DisconnectCause
from gateway.handshakes import Handshakes
from gateway.rules.client_hello import HelloReader
from gateway.rules.proxy_header import ProxyHeaderError, read_header
from gateway.rules.whitelist import Whitelist, shown_address
from gateway.served import ServedInstance
from gateway.shared_ports import OUT_OF_DESCRIPTORS, PAUSE_S, Place, close_listening
from gateway.sockets import reset
from gateway.stops import ConnectionStop
from gateway.strangers import Strangers
from runtime.clock import Clock
from runtime.logs import get_logger

_log = get_logger(__name__)
NAMELESS_US_PER_S: Final = 100_000
"""CPU time of a worker for connections at the named port whose name is not known, or nobody's: a tenth of a
core, some thousand of them per second. When it is spent, that port is not accepted from or read until it is
paid."""
_ACCEPTED_AT_ONCE: Final = 64
_WARN_EVERY_MS: Final = 10_000
_UNRECOGNIZED_NAME: Final = bytes((0x15, 3, 1, 0, 2, 2, 112))
"""A fatal alert (RFC 6066 3)."""
_TOLD: Final = frozenset(
    {
        DisconnectCause.SERVER_NAME_MISSING,
        DisconnectCause.SERVER_NAME_UNKNOWN,
        DisconnectCause.NOT_WHITELISTED,
        DisconnectCause.INSTANCE_SUSPENDED,
        DisconnectCause.INSTANCE_NOT_SERVED,
    }
)
"""What ends with that alert: they look alike from outside."""


class Named(NamedTuple):
    """A client that has named an instance which admits its address."""

    served: ServedInstance
    listener: Listener
    sock: socket.socket
    address: Place
    hello: bytes
    """What it has sent, for OpenSSL."""


class _Nameless:
    """A connection before its name."""

    __slots__ = ("header", "hello", "peer", "sock", "timer")

    def __init__(self, sock: socket.socket, peer: Place, *, is_passed_on: bool) -> None:
        self.sock = sock
        self.peer = peer
        """The client's, or the load balancer's until that has named the client."""
        self.header: bytes | None = b"" if is_passed_on else None
        """What has come of a load balancer's PROXY header; None: there is none, or it is read."""
        self.hello = HelloReader()
        self.timer: asyncio.TimerHandle | None = None


class NamesAtOnePort:
    """The port of one worker, and who is behind it by name."""

    def __init__(
        self,
        place: NamedPort,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        balancers: Whitelist,
        hello_ms: int,
        opened: Callable[[Place], socket.socket],
        begin: Callable[[], None],
        arrived: Callable[[Named], None],
    ) -> None:
        """`opened` makes a socket that listens; `begin` is called before each step; `arrived` ends it, for
        the account of the instance."""
        self._place = place.bind_host, place.port
        self._loop = loop
        self._clock = clock
        self._balancers = balancers
        self._hello_ms = hello_ms
        self._opened = opened
        self._begin = begin
        self._arrived = arrived
        self._sock: socket.socket | None = None
        self._behind: dict[str, tuple[ServedInstance, Listener]] = {}
        self._names: dict[str, tuple[str, ...]] = {}
        """By instance."""
        self._under_way: Handshakes[_Nameless] = Handshakes()
        self.strangers: Final = Strangers(NAMELESS_US_PER_S)
        """The account of connections without a name."""
        self.ended: Final[Counter[DisconnectCause]] = Counter()
        """Those that ended without one that is an instance's, by cause."""
        self._warned_ms = -_WARN_EVERY_MS

    def __len__(self) -> int:
        """How many connections have not named anybody yet."""
        return len(self._under_way)

    def listen(self) -> None:
        """Accept, if that has not begun. Raises: OSError."""
        if self._sock is None:
            self._sock = self._opened(self._place)
            self._read_port()

    def take(self, served: ServedInstance) -> None:
        """An instance, or another revision of it."""
        self.drop(served)
        self._names[served.instance_id] = tuple(one.advertised_host for one in served.named)
        self._behind.update((one.advertised_host, (served, one)) for one in served.named)

    def drop(self, served: ServedInstance) -> None:
        """An instance is not behind the port any more."""
        for name in self._names.pop(served.instance_id, ()):
            del self._behind[name]

    @property
    def sockets(self) -> dict[Place, socket.socket]:
        """What listens."""
        return {} if self._sock is None else {self._place: self._sock}

    def close(self) -> None:
        """The worker stops."""
        if self._sock is not None:
            close_listening(self._loop, self._sock)
        for one in self._under_way.every():
            self._end(one, DisconnectCause.GATEWAY_STOPPED)

    # Steps

    def _read_port(self) -> None:
        if self._sock is not None and self._sock.fileno() >= 0:
            self._loop.add_reader(self._sock.fileno(), self._acceptable, self._sock)

    def _pause_ms(self) -> int:
        return self.strangers.pause_ms(self._clock.monotonic_ms())

    def _charge(self, began_ns: int) -> None:
        self.strangers.charge(self._clock.monotonic_ns() - began_ns, self._clock.monotonic_ms())

    def _acceptable(self, sock: socket.socket) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            pause_s = self._pause_ms() / 1000
            if pause_s <= 0:
                began_ns = self._clock.monotonic_ns()
                self._begin()
                try:
                    client, address = sock.accept()
                except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                    return
                except OSError as error:
                    if error.errno not in OUT_OF_DESCRIPTORS:
                        raise
                    _log.error("no descriptors left to accept with", port=self._place[1])
                    pause_s = PAUSE_S
                else:
                    self._accepted(client, address[:2])
                    self._charge(began_ns)
                    continue
            self._loop.remove_reader(sock.fileno())
            self._loop.call_later(pause_s, self._read_port)
            return

    def _accepted(self, sock: socket.socket, peer: Place) -> None:
        sock.setblocking(False)
        one = _Nameless(sock, peer, is_passed_on=self._balancers.admits(peer[0]))
        one.timer = self._loop.call_later(self._hello_ms / 1000, self._overdue, one)
        self._loop.add_reader(sock.fileno(), self._readable, one)
        self._counts(one)

    def _counts(self, one: _Nameless) -> None:
        displaced = self._under_way.begins(one, one.peer[0])
        if displaced is not None:
            self._end(displaced, DisconnectCause.TLS_HANDSHAKES_MAX)

    def _overdue(self, one: _Nameless) -> None:
        no_header = one.header is not None
        self._end(
            one,
            DisconnectCause.PROXY_HEADER_TIMEOUT if no_header else DisconnectCause.TLS_HANDSHAKE_TIMEOUT,
        )

    def _readable(self, one: _Nameless) -> None:
        pause_ms = self._pause_ms()
        if pause_ms > 0:
            self._loop.remove_reader(one.sock.fileno())
            self._loop.call_later(pause_ms / 1000, self._read_again, one)
            return
        began_ns = self._clock.monotonic_ns()
        self._begin()
        try:
            name = self._read(one)
            found = None if name is None else self._find(one, name)
        except ConnectionStop as stop:
            self._end(one, stop.cause, stop.detail)
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self._end(one, DisconnectCause.CLIENT_RESET)
        else:
            if found is not None:
                self._forget(one)
                self._arrived(Named(*found, one.sock, one.peer, bytes(one.hello.received)))
                return
        self._charge(began_ns)

    def _read_again(self, one: _Nameless) -> None:
        if one.sock.fileno() >= 0:
            self._loop.add_reader(one.sock.fileno(), self._readable, one)

    def _read(self, one: _Nameless) -> str | None:
        """The name; None: it is not whole yet. Raises: ConnectionStop, OSError."""
        while one.header is not None:
            self._read_header(one)
        return one.hello.feed(_received(one.sock, one.hello.room))

    def _read_header(self, one: _Nameless) -> None:
        assert one.header is not None
        try:
            told = read_header(one.header)
        except ProxyHeaderError as error:
            raise ConnectionStop(DisconnectCause.PROXY_HEADER_BAD, str(error)) from error
        if isinstance(told, int):
            one.header += _received(one.sock, told)
            return
        one.header = None
        if told.client is not None:
            self._under_way.ends(one)
            one.peer = told.client
            self._counts(one)

    def _find(self, one: _Nameless, name: str) -> tuple[ServedInstance, Listener]:
        """Raises: ConnectionStop where the client is not to learn whether there is an instance."""
        found = self._behind.get(name)
        if found is None:
            raise ConnectionStop(DisconnectCause.SERVER_NAME_UNKNOWN, f"no instance is called {name}")
        served = found[0]
        fault = served.entry_fault(one.peer[0])
        if fault is not None:
            served.count_refused(fault, shown_address(one.peer[0]), self._clock.epoch_ms())
            raise ConnectionStop(fault)
        return found

    # Ends

    def _end(self, one: _Nameless, cause: DisconnectCause, detail: str = "") -> None:
        self._forget(one)
        if cause in _TOLD:
            with contextlib.suppress(OSError):  # it is told if it can be
                one.sock.send(_UNRECOGNIZED_NAME)
        reset(one.sock)
        self.ended[cause] += 1
        now_ms = self._clock.monotonic_ms()
        if detail and now_ms - self._warned_ms >= _WARN_EVERY_MS:
            self._warned_ms = now_ms
            _log.warning(
                "a client at the named port is nobody's", peer=one.peer[0], cause=str(cause), detail=detail
            )

    def _forget(self, one: _Nameless) -> None:
        """It is not read here any more."""
        assert one.timer is not None
        one.timer.cancel()
        self._loop.remove_reader(one.sock.fileno())
        self._under_way.ends(one)


def _received(sock: socket.socket, size: int) -> bytes:
    """Raises: ConnectionStop at the end, OSError."""
    came = sock.recv(size)
    if not came:
        raise ConnectionStop(DisconnectCause.CLIENT_CLOSED)
    return came

"""Reaching a connection's broker, again and again while it restarts.

To a client, being accepted and then cut looks like a broken service, where a refused connection looks like
one that starts; kafka-python 3 even ends its poll with an error. So a refused dial is repeated until the
connect timeout ends the connection (`session.timers`), and what the client sent meanwhile waits.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import Final

from gateway.causes import DisconnectCause
from gateway.sockets import Outbox, begin_connect
from gateway.stops import ConnectionStop
from runtime.network import Network
from runtime.pacing import Pacing
from traffic.turns import Turn

RETRY_S: Final = 0.1
Address = tuple[str, int]


def connecting(network: Network, address: Address | None) -> socket.socket:
    """A socket on its way to a broker. Raises: ConnectionStop when there is none or no way to it."""
    if address is None:
        raise ConnectionStop(DisconnectCause.UPSTREAM_UNKNOWN)
    try:
        return begin_connect(network, address)
    except OSError as error:
        raise ConnectionStop(DisconnectCause.UPSTREAM_UNREACHABLE, str(error)) from error


class Dial:
    """From the first request of a connection until its upstream socket is connected.

    `upstream` holds what is sent; its socket is replaced while brokers refuse. `address` is asked before each
    try, `connected` or `given_up` called once.
    """

    __slots__ = (
        "_address",
        "_connected",
        "_given_up",
        "_loop",
        "_network",
        "_pacing",
        "_timer",
        "_turn",
        "_upstream",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        network: Network,
        pacing: Pacing,
        turn: Turn,
        upstream: Outbox,
        address: Callable[[], Address | None],
        connected: Callable[[], None],
        given_up: Callable[[ConnectionStop], None],
    ) -> None:
        self._loop = loop
        self._network = network
        self._pacing = pacing
        self._turn = turn
        self._upstream = upstream
        self._address = address
        self._connected = connected
        self._given_up = given_up
        self._timer: asyncio.TimerHandle | None = None
        upstream.held = True
        loop.add_writer(upstream.sock.fileno(), self._answered)

    def _answered(self) -> None:
        self._pacing.run_now(self._turn, self._look)

    def _look(self) -> None:
        sock = self._upstream.sock
        self._loop.remove_writer(sock.fileno())
        if sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._timer = self._loop.call_later(RETRY_S, self._pacing.run_now, self._turn, self._again)
            return
        self._upstream.release()
        self._connected()

    def _again(self) -> None:
        try:
            sock = connecting(self._network, self._address())
        except ConnectionStop as stop:
            self._given_up(stop)
            return
        self._upstream.sock.close()
        self._upstream.sock = sock
        self._loop.add_writer(sock.fileno(), self._answered)

    def cancel(self) -> None:
        """The connection is gone."""
        if self._timer is not None:
            self._timer.cancel()

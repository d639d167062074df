"""Reaching a connection's broker, again and again while it restarts.

To a client, being accepted and then cut looks like a broken service, where a refused connection looks like
one that starts; kafka-python 3 even ends its poll with an error. So a refused dial is repeated until the
connect timeout ends the connection (`session.timers`), and what the client sent meanwhile waits.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import Final, cast

from gateway.causes import DisconnectCause
from gateway.opening import Door, Opening
from gateway.sockets import Outbox, StreamSocket, begin_connect
from gateway.stops import ConnectionStop
from runtime.network import Network
from runtime.pacing import Pacing
from traffic.turns import Turn

RETRY_S: Final = 0.1
Address = tuple[str, int]
Way = tuple[Address | None, Door | None]
"""Where a broker is, if that is known, and what it asks for, if it is not ours."""


def connecting(network: Network, address: Address | None, door: Door | None) -> socket.socket:
    """A socket on its way to a broker. Raises: ConnectionStop when there is none or no way to it."""
    if address is None:
        raise ConnectionStop(DisconnectCause.UPSTREAM_UNKNOWN)
    if door is not None:
        door.enter()
    try:
        return begin_connect(network, address)
    except OSError as error:
        raise ConnectionStop(DisconnectCause.UPSTREAM_UNREACHABLE, str(error)) from error


class Dial:
    """From the first request of a connection until its upstream socket takes requests.

    `upstream` holds what is sent; its socket is replaced while brokers refuse. `way` is asked before each
    try, `connected` or `given_up` called once.
    """

    __slots__ = (
        "_connected",
        "_door",
        "_given_up",
        "_loop",
        "_network",
        "_opening",
        "_pacing",
        "_timer",
        "_turn",
        "_upstream",
        "_way",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        network: Network,
        pacing: Pacing,
        turn: Turn,
        upstream: Outbox,
        door: Door | None,
        way: Callable[[], Way],
        connected: Callable[[], None],
        given_up: Callable[[ConnectionStop], None],
    ) -> None:
        self._loop = loop
        self._network = network
        self._pacing = pacing
        self._turn = turn
        self._upstream = upstream
        self._door = door
        self._way = way
        self._connected = connected
        self._given_up = given_up
        self._timer: asyncio.TimerHandle | None = None
        self._opening: Opening | None = None
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
        if self._door is None:
            self._open(sock)
            return
        self._opening = Opening(
            self._loop,
            self._pacing,
            self._turn,
            self._door,
            cast(socket.socket, sock),
            self._open,
            self._given_up,
        )
        self._opening.begin()

    def _open(self, stream: StreamSocket) -> None:
        self._upstream.sock = stream
        self._opening = None
        self._upstream.release()
        self._connected()

    def _again(self) -> None:
        try:
            address, self._door = self._way()
            sock = connecting(self._network, address, self._door)
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
        if self._opening is not None:
            self._opening.cancel()

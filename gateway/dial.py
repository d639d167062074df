"""Reaching a connection's broker, again and again while it restarts.

To a client, being accepted and then cut looks like a broken service, where a refused connection looks like
one that starts; kafka-python 3 even ends its poll with an error. So a refused dial is repeated until the
connect timeout ends the connection (`timers`), and what the client sent meanwhile waits.
"""

import asyncio
import socket
from typing import TYPE_CHECKING, Final

from gateway.causes import DisconnectCause
from gateway.sockets import Outbox, begin_connect
from gateway.stops import ConnectionStop

if TYPE_CHECKING:
    from gateway.connection import Connection

RETRY_S: Final = 0.1


class Dial:
    """From the first request of a connection until its upstream socket is connected."""

    __slots__ = ("_conn", "_timer")

    def __init__(self, conn: "Connection") -> None:
        self._conn = conn
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> Outbox:
        """The upstream outbox: it holds everything until it is connected, our login in front.

        Raises: ConnectionStop when there is no such broker or no way to it.
        """
        conn = self._conn
        worker = conn.worker
        sock = self._connecting()
        upstream = Outbox(
            worker.loop,
            worker.buffer,
            worker.pacing,
            conn.turn,
            sock,
            conn.adjust_reading,
            conn.upstream_broken,
        )
        upstream.held = True
        conn.mark_ms = worker.now_ms
        login = worker.login_frames(conn.served.instance_id, conn.peer)
        conn.replies.login_replies_due = len(login)
        upstream.send(login)
        worker.loop.add_writer(sock.fileno(), self._answered)
        return upstream

    def _connecting(self) -> socket.socket:
        conn = self._conn
        address = conn.worker.broker_address(conn.served.spec.cluster_id, conn.listener.node_id)
        if address is None:
            raise ConnectionStop(DisconnectCause.UPSTREAM_UNKNOWN)
        try:
            return begin_connect(address)
        except OSError as error:
            raise ConnectionStop(DisconnectCause.UPSTREAM_UNREACHABLE, str(error)) from error

    def _answered(self) -> None:
        self._conn.worker.pacing.run_now(self._conn.turn, self._connected)

    def _connected(self) -> None:
        conn = self._conn
        upstream = conn.upstream
        assert upstream is not None
        conn.worker.loop.remove_writer(upstream.sock.fileno())
        if upstream.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            pacing = conn.worker.pacing
            self._timer = conn.worker.loop.call_later(RETRY_S, pacing.run_now, conn.turn, self._again)
            return
        upstream.release()
        conn.adjust_reading()

    def _again(self) -> None:
        conn = self._conn
        upstream = conn.upstream
        assert upstream is not None
        try:
            sock = self._connecting()
        except ConnectionStop as stop:
            conn.close(stop.cause, stop.detail)
            return
        upstream.sock.close()
        upstream.sock = sock
        conn.worker.loop.add_writer(sock.fileno(), self._answered)

    def cancel(self) -> None:
        """The connection is gone."""
        if self._timer is not None:
            self._timer.cancel()

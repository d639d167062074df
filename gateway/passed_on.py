"""Connections that load balancers pass on: each waits here until its PROXY header has told who the client is.

Only listed balancers are believed, and from those nothing but a header is taken: who may name a client could
else be on every whitelist.
"""

import asyncio
import socket
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from contracts.specs import Listener
from gateway.causes import DisconnectCause
from gateway.rules.proxy_header import ProxyHeaderError, read_header
from gateway.rules.whitelist import Whitelist
from gateway.served import ServedInstance

WAITING_MAX: Final = 256
"""Connections of one instance on a worker whose header has not come. A balancer sends it with the first
packet, so more than a few are those of a client that the balancer's own limits should have stopped."""
Step = Callable[[ServedInstance, Callable[[], DisconnectCause | None]], None]
"""Runs a part of an instance's work, and bills it by what became of the connection."""
Admit = Callable[[ServedInstance, Listener, socket.socket, str, int], DisconnectCause | None]
"""Takes a client by its address and port, or says why it was refused."""
Refuse = Callable[[ServedInstance, socket.socket, DisconnectCause, str], None]
"""Ends a connection that has not become a client's; the text is the balancer's address."""


class _Waiting:
    """A connection before its header's end."""

    __slots__ = ("balancer", "listener", "received", "served", "sock", "timer")

    def __init__(
        self, served: ServedInstance, listener: Listener, sock: socket.socket, balancer: tuple[str, int]
    ) -> None:
        self.served, self.listener, self.sock, self.balancer = served, listener, sock, balancer
        self.received = b""
        self.timer: asyncio.TimerHandle | None = None


class PassedOn:
    """All of one worker."""

    def __init__(
        self,
        balancers: Iterable[str],
        loop: asyncio.AbstractEventLoop,
        header_ms: int,
        step: Step,
        admit: Admit,
        refuse: Refuse,
    ) -> None:
        self._balancers = Whitelist(balancers)
        self._loop = loop
        self._header_ms = header_ms
        self._step = step
        self._admit = admit
        self._refuse = refuse
        self._waiting: set[_Waiting] = set()
        self._of_instance: Counter[str] = Counter()

    def names_client(self, address: str) -> bool:
        """Whether a peer with this address speaks for another."""
        return self._balancers.admits(address)

    def take(
        self, served: ServedInstance, listener: Listener, sock: socket.socket, balancer: tuple[str, int]
    ) -> DisconnectCause | None:
        """A balancer has connected. Answers why it was refused, if it was."""
        if self._of_instance[served.instance_id] >= WAITING_MAX:
            self._refuse(served, sock, DisconnectCause.CONNECTIONS_MAX, balancer[0])
            return DisconnectCause.CONNECTIONS_MAX
        sock.setblocking(False)
        waiting = _Waiting(served, listener, sock, balancer)
        self._waiting.add(waiting)
        self._of_instance[served.instance_id] += 1
        self._loop.add_reader(sock.fileno(), self._readable, waiting)
        waiting.timer = self._loop.call_later(self._header_ms / 1000, self._overdue, waiting)
        return None

    def drop(self, served: ServedInstance, listener: Listener | None, cause: DisconnectCause) -> None:
        """Those of a port that is no more, or of all of an instance's."""
        for waiting in tuple(self._waiting):
            if waiting.served is served and (listener is None or waiting.listener == listener):
                self._end(waiting, cause)

    def _readable(self, waiting: _Waiting) -> None:
        self._step(waiting.served, partial(self._read, waiting))

    def _overdue(self, waiting: _Waiting) -> None:
        self._step(waiting.served, partial(self._end, waiting, DisconnectCause.PROXY_HEADER_TIMEOUT))

    def _read(self, waiting: _Waiting) -> DisconnectCause | None:
        try:
            told = read_header(waiting.received)
            while isinstance(told, int):
                piece = waiting.sock.recv(told)
                if not piece:
                    return self._end(waiting, DisconnectCause.CLIENT_CLOSED)
                waiting.received += piece
                told = read_header(waiting.received)
        except (BlockingIOError, InterruptedError):
            return None
        except OSError:
            return self._end(waiting, DisconnectCause.CLIENT_RESET)
        except ProxyHeaderError:
            return self._end(waiting, DisconnectCause.PROXY_HEADER_BAD)
        served, client = waiting.served, told.client
        if client is None:
            client = waiting.balancer
            if not served.whitelist.admits(client[0]):
                return self._end(waiting, DisconnectCause.PROXY_LOCAL)
        self._forget(waiting)
        return self._admit(served, waiting.listener, waiting.sock, *client)

    def _end(self, waiting: _Waiting, cause: DisconnectCause) -> DisconnectCause:
        self._forget(waiting)
        self._refuse(waiting.served, waiting.sock, cause, waiting.balancer[0])
        return cause

    def _forget(self, waiting: _Waiting) -> None:
        """It is not read here any more."""
        assert waiting.timer is not None
        waiting.timer.cancel()
        self._loop.remove_reader(waiting.sock.fileno())
        self._waiting.remove(waiting)
        self._of_instance[waiting.served.instance_id] -= 1

"""One listening socket for a port of all vips of a pool: its local address says whose a client is (ADR 50).

A socket for each vip:vport is a file each, and thousands of instances need more than a process may open. One
that is bound to every address serves them all. What the kernel kept apart for us is one queue then, so who
floods it is given a socket of its own (`listeners.py`), which the kernel prefers.
"""

import asyncio
import errno
import socket
from collections.abc import Callable, Iterable
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Final

from contracts.specs import Listener
from gateway.served import ServedInstance
from runtime.logs import get_logger

_log = get_logger(__name__)
_ACCEPTED_AT_ONCE: Final = 64
"""Connections at a port that are taken before the loop looks at other sockets."""
_EVERY_ADDRESS: Final = {4: "0.0.0.0", 6: "::"}
OUT_OF_DESCRIPTORS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
PAUSE_S: Final = 0.2
"""How long nobody is accepted when there is no descriptor for it: the kernel's queue keeps them."""
Place = tuple[str, int]
"""The address and port that a socket is bound to."""
Arrived = Callable[[ServedInstance, Listener, socket.socket, Place], None]
"""Takes a client's connection, and the client's address and port."""


def close_listening(loop: asyncio.AbstractEventLoop, sock: socket.socket) -> None:
    """Accept no more here, where that has not ended before."""
    if sock.fileno() >= 0:
        loop.remove_reader(sock.fileno())
        sock.close()


class _Port:
    """One socket, and who is behind it by local address."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.behind: dict[str, tuple[ServedInstance, Listener]] = {}


class SharedPorts:
    """All of a worker."""

    def __init__(
        self,
        vips: Iterable[str],
        loop: asyncio.AbstractEventLoop,
        opened: Callable[[Place], socket.socket],
        begin: Callable[[], None],
        arrived: Arrived,
        stray: Callable[[socket.socket], None],
    ) -> None:
        """`vips` are CIDRs. `opened` makes a socket that listens; `begin` is called before each accept;
        `stray` takes what came to an address of this machine that is no instance's."""
        self._vips: list[IPv4Network | IPv6Network] = [ip_network(cidr) for cidr in vips]
        self._loop = loop
        self._opened = opened
        self._begin = begin
        self._arrived = arrived
        self._stray = stray
        self._ports: dict[Place, _Port] = {}

    def covers(self, listener: Listener) -> bool:
        """Whether this is where a listener's clients come in."""
        if not self._vips:
            return False
        address = ip_address(listener.bind_host)
        return any(address in vips for vips in self._vips)

    def add(self, served: ServedInstance, listener: Listener) -> None:
        """Serve a listener. Raises: OSError."""
        place = self._place(listener)
        port = self._ports.get(place)
        if port is None:
            port = self._ports[place] = _Port(self._opened(place))
            self._read(port)
        port.behind[listener.bind_host] = served, listener

    def remove(self, listener: Listener) -> None:
        """Serve a listener no more."""
        place = self._place(listener)
        port = self._ports[place]
        del port.behind[listener.bind_host]
        if not port.behind:
            del self._ports[place]
            close_listening(self._loop, port.sock)

    @property
    def sockets(self) -> dict[Place, socket.socket]:
        """Those that listen."""
        return {place: port.sock for place, port in self._ports.items()}

    @staticmethod
    def _place(listener: Listener) -> Place:
        return _EVERY_ADDRESS[ip_address(listener.bind_host).version], listener.port

    def _read(self, port: _Port) -> None:
        if port.sock.fileno() >= 0:
            self._loop.add_reader(port.sock.fileno(), self._acceptable, port)

    def _acceptable(self, port: _Port) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            self._begin()
            try:
                client, address = port.sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in OUT_OF_DESCRIPTORS:
                    raise
                _log.error("no descriptors left to accept with", port=port.sock.getsockname()[1])
                self._loop.remove_reader(port.sock.fileno())
                self._loop.call_later(PAUSE_S, self._read, port)
                return
            found = port.behind.get(client.getsockname()[0])
            if found is None:
                self._stray(client)
            else:
                self._arrived(*found, client, address[:2])

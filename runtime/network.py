"""Where streams come from: the kernel, or another network that looks like it.

Whoever listens or connects is given a `Network` by name. Its sockets are non-blocking, and the loop that
runs with it watches them.
"""

import asyncio
import fcntl
import os
import socket
import struct
import termios
from typing import Final, Protocol

_COUNT: Final = struct.Struct("i")
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Network(Protocol):
    """What a process may ask of its network."""

    def stream_socket(self, host: str) -> socket.socket:
        """A socket that is bound to nothing yet, of the family of a numeric address."""

    async def open(self, host: str, port: int) -> Streams:
        """Connect to a name or address. Raises: OSError."""

    def send_file(self, sock: socket.socket, fd: int, position: int, size_bytes: int) -> int:
        """Send a part of a file, as much of it as the socket takes; 0 at the file's end. Raises: OSError."""

    def unread_bytes(self, sock: socket.socket) -> int:
        """What has come and was not read."""


class KernelNetwork:
    """This machine's."""

    def stream_socket(self, host: str) -> socket.socket:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)

    async def open(self, host: str, port: int) -> Streams:
        return await asyncio.open_connection(host, port)

    def send_file(self, sock: socket.socket, fd: int, position: int, size_bytes: int) -> int:
        return os.sendfile(sock.fileno(), fd, position, size_bytes)

    def unread_bytes(self, sock: socket.socket) -> int:
        try:
            return int(_COUNT.unpack(fcntl.ioctl(sock, termios.FIONREAD, bytes(_COUNT.size)))[0])
        except OSError:
            return 0  # a socket that was reset holds nothing


KERNEL_NETWORK: Final[Network] = KernelNetwork()

"""Raw non-blocking sockets: one receive buffer per worker, and outboxes that copy only what must wait."""

import asyncio
import contextlib
import errno
import socket
import struct
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from runtime.network import Network
from runtime.pacing import Pacing
from traffic.turns import Turn
from wire.framing import Buffer

RECEIVE_BYTES: Final = 1024 * 1024
_CROWDED_RECEIVE_BYTES: Final = 64 * 1024
_BACKLOG_BYTES_SOFT: Final = 16 * 1024 * 1024
_IOVEC_MAX: Final = 1024
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)


class StreamSocket(Protocol):
    """What is used of a connected socket; TLS has one of its own."""

    def fileno(self) -> int:
        """Its descriptor."""

    def recv_into(self, buffer: memoryview, /) -> int:
        """How many bytes were read; 0: the end."""

    def send(self, data: Buffer, /) -> int:
        """How many bytes were taken."""

    def sendmsg(self, buffers: Sequence[Buffer], /) -> int:
        """The same of several pieces."""

    def getsockopt(self, level: int, option: int, /) -> int:
        """As `socket` has it."""

    def setsockopt(self, level: int, option: int, value: bytes, /) -> None:
        """As `socket` has it."""

    def shutdown(self, how: int, /) -> None:
        """As `socket` has it."""

    def close(self) -> None:
        """As `socket` has it."""


class ReceiveBuffer:
    """The one buffer that every read of a worker goes through.

    What is read must be sent or copied before the loop runs the next callback. While much of it waits for
    full sockets all over the worker, reads are short, so that many slow peers cannot hold a megabyte each.
    """

    def __init__(self) -> None:
        self.memory = memoryview(bytearray(RECEIVE_BYTES))
        self.backlog_bytes = 0
        """Copied and waiting in all outboxes of the worker."""

    def window(self, reserved: int) -> memoryview:
        """Where to read to, behind `reserved` bytes that the caller has put in front."""
        if self.backlog_bytes < _BACKLOG_BYTES_SOFT:
            return self.memory[reserved:] if reserved else self.memory
        return self.short_window(reserved)

    def short_window(self, reserved: int) -> memoryview:
        """The same for what may have to be kept for a while."""
        return self.memory[reserved : reserved + _CROWDED_RECEIVE_BYTES]


class Outbox:
    """What leaves on one socket. Nothing is copied while the peer keeps up.

    `send` is part of its caller's step; what leaves later is a step of its own.
    """

    __slots__ = (
        "_buffer",
        "_loop",
        "_on_broken",
        "_on_drained",
        "_pacing",
        "_turn",
        "held",
        "queue",
        "sock",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        buffer: ReceiveBuffer,
        pacing: Pacing,
        turn: Turn,
        sock: StreamSocket,
        on_drained: Callable[[], None],
        on_broken: Callable[[OSError], None],
    ) -> None:
        self._loop = loop
        self._buffer = buffer
        self._pacing = pacing
        self._turn = turn
        self.sock = sock
        self._on_drained = on_drained
        self._on_broken = on_broken
        self.queue: deque[memoryview] | None = None
        """What the kernel has not taken; to be asked, not changed."""
        self.held = False
        """True while the socket is still connecting: everything waits."""

    @property
    def is_empty(self) -> bool:
        """Whether everything has been handed to the kernel."""
        return not self.queue

    def send(self, pieces: Sequence[Buffer]) -> int:
        """Send pieces in order; what the kernel does not take is copied and follows later.

        The answer is their size in bytes.
        """
        size = sum(map(len, pieces))
        if self.queue or self.held:
            self._keep(pieces, 0)
            return size
        try:
            sent = self.sock.send(pieces[0]) if len(pieces) == 1 else self._send_many(pieces)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError as error:
            self._on_broken(error)
            return size
        if sent < size:
            self._keep(pieces, sent)
            self._loop.add_writer(self.sock.fileno(), self._writable)
        return size

    def _send_many(self, pieces: Sequence[Buffer]) -> int:
        return self.sock.sendmsg(pieces if len(pieces) <= _IOVEC_MAX else pieces[:_IOVEC_MAX])

    def _keep(self, pieces: Sequence[Buffer], sent: int) -> None:
        if self.queue is None:
            self.queue = deque()
        for piece in pieces:
            size = len(piece)
            if sent >= size:
                sent -= size
                continue
            kept = memoryview(bytes(piece[sent:] if sent else piece))
            sent = 0
            self.queue.append(kept)
            self._buffer.backlog_bytes += len(kept)

    def keep(self, pieces: Sequence[bytes]) -> None:
        """Send pieces as soon as the full socket takes them."""
        self._keep(pieces, 0)
        self._loop.add_writer(self.sock.fileno(), self._writable)

    def broken(self, error: OSError) -> None:
        """Sending has failed elsewhere."""
        self._on_broken(error)

    def release(self) -> None:
        """The socket is connected: what was held leaves now."""
        self.held = False
        if self.queue:
            self._loop.add_writer(self.sock.fileno(), self._writable)

    def _writable(self) -> None:
        pacing, turn = self._pacing, self._turn
        if pacing.may_go_on(turn):
            pacing.begin()
            self._drain()
            pacing.end(turn)
        else:
            self._loop.remove_writer(self.sock.fileno())
            pacing.wait(turn, self._drain_in_turn, begins=False)

    def _drain_in_turn(self) -> None:
        if self.queue:
            self._loop.add_writer(self.sock.fileno(), self._writable)
            self._drain()

    def _drain(self) -> None:
        queue = self.queue
        assert queue
        try:
            while queue:
                sent = self.sock.send(queue[0])
                self._buffer.backlog_bytes -= sent
                if sent < len(queue[0]):
                    queue[0] = queue[0][sent:]
                    return
                queue.popleft()
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._on_broken(error)
            return
        self._loop.remove_writer(self.sock.fileno())
        self.queue = None
        self._on_drained()

    def close(self, *, resets: bool) -> None:
        """The connection is over: forget what waits, and close the socket."""
        descriptor = self.sock.fileno()
        self._loop.remove_reader(descriptor)
        self._loop.remove_writer(descriptor)
        if self.queue:
            self._buffer.backlog_bytes -= sum(map(len, self.queue))
        self.queue = None
        reset(self.sock) if resets else self.sock.close()


def prepare(sock: socket.socket) -> None:
    """Settings of every data socket."""
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


def reset(sock: StreamSocket) -> None:
    """Close with RST: the peer learns at once, and no TIME_WAIT is left behind a flood."""
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    sock.close()


def begin_connect(network: Network, address: tuple[str, int]) -> socket.socket:
    """Start a connection to a numeric address. Raises: OSError when it fails at once."""
    sock = network.stream_socket(address[0])
    try:
        prepare(sock)
        code = sock.connect_ex(address)
        if code not in (0, errno.EINPROGRESS):
            raise OSError(code, "connect")
    except OSError:
        sock.close()
        raise
    return sock

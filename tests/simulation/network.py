"""A network in memory: bytes arrive late, connections break, pairs of nodes lose sight of each other."""

import asyncio
import contextvars
import errno
import os
import random
import socket
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from runtime.network import Streams
from tests.simulation.virtual import NodeState, Step, VirtualLoop

NOBODY = contextvars.Context()
"""In which no node is named."""
CLIENT = 0
"""The node id of everybody who is no server."""
_DELAY_MIN_S = 0.0001
_UNREAD_MAX_BYTES = 256 * 1024
_RECEIVE_BYTES = 64 * 1024
_HOST = "127.0.0.1"


class Network:
    """All nodes' sockets. `note` hears of each piece of a stream that arrives."""

    def __init__(self, loop: VirtualLoop, chance: random.Random, note: Callable[[str], None]) -> None:
        self.loop = loop
        self.delay_max_s = 0.004
        self.listeners: dict[int, MemorySocket] = {}
        """By port."""
        self.note = note
        self._chance = chance
        self._numbers = count(1)
        self._connections: dict[int, tuple[MemorySocket, MemorySocket]] = {}
        self._cut: set[frozenset[int]] = set()
        self._held: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        """What waits for the cuts to be mended."""

    # -- faults ------------------------------------------------------------------------------------------

    def cut(self, one: int, other: int) -> None:
        """What they send each other waits from now on."""
        self._cut.add(frozenset((one, other)))

    def heal(self) -> None:
        """All see each other again; what waited arrives, late."""
        self._cut.clear()
        held, self._held = self._held, []
        for arrive, args in held:
            self.loop.call_soon(arrive, *args, context=NOBODY)

    def is_cut(self, one: int, other: int) -> bool:
        return frozenset((one, other)) in self._cut

    def close_all_of(self, node_id: int) -> None:
        """The node died: its ports are free, its connections are reset."""
        for port in [port for port, sock in self.listeners.items() if sock.node_id == node_id]:
            self.listeners.pop(port).close()
        for pair in list(self._connections.values()):
            if node_id in (pair[0].node_id, pair[1].node_id):
                _reset(pair)

    def break_one(self) -> None:
        """Some connection breaks."""
        if self._connections:
            _reset(self._connections[self._chance.choice(list(self._connections))])

    # -- what sockets do ---------------------------------------------------------------------------------

    def of(self, state: NodeState | None) -> "NodeNetwork":
        """The network as a node sees it."""
        return NodeNetwork(self, CLIENT if state is None else state.node_id)

    def number(self) -> int:
        """Of a new socket: no file descriptor is as high."""
        return 1_000_000 + next(self._numbers)

    def later(self, ends: tuple[int, int], arrive: Callable[..., None], *args: Any) -> None:
        """Something travels from one node to another, and arrives unless they lose sight of each other."""
        delay_s = self._chance.uniform(_DELAY_MIN_S, self.delay_max_s)
        self.loop.call_later(delay_s, self._arrived, ends, arrive, args, context=NOBODY)

    def _arrived(self, ends: tuple[int, int], arrive: Callable[..., None], args: tuple[Any, ...]) -> None:
        if self.is_cut(*ends):
            self._held.append((arrive, args))
        else:
            arrive(*args)

    def dial(self, near: "MemorySocket", port: int) -> None:
        """A connection request leaves."""
        listener = self.listeners.get(port)
        ends = (near.node_id, near.node_id if listener is None else listener.node_id)
        self.later(ends, self._dialled, near, port)

    def _dialled(self, near: "MemorySocket", port: int) -> None:
        listener = self.listeners.get(port)
        if near.is_closed:
            return
        if listener is None:
            near.fail(errno.ECONNREFUSED)
            return
        far = MemorySocket(self, listener.node_id)
        near.connected(far)
        far.connected(near)
        self._connections[near.fd] = (near, far)
        listener.backlog.append((far, (_HOST, near.fd)))
        listener.watch()

    def ended(self, near: "MemorySocket") -> None:
        """One side of a connection is closed."""
        self._connections.pop(near.fd, None)


def _reset(pair: "tuple[MemorySocket, MemorySocket]") -> None:
    for sock in pair:
        sock.fail(errno.ECONNRESET)


class MemorySocket:
    """A stream socket that does not block, as far as brokers and gateways use one."""

    def __init__(self, network: Network, node_id: int) -> None:
        self._network = network
        self.node_id = node_id
        self.fd = network.number()
        self.backlog: deque[tuple[MemorySocket, tuple[str, int]]] = deque()
        self.reader: Step | None = None
        self.writer: Step | None = None
        self.is_closed = False
        self._reading = self._writing = False
        """Whether a call of the reader or writer is on its way."""
        self._port = 0
        self._peer: MemorySocket | None = None
        self._unread = bytearray()
        self._flying: list[bytes] = []
        self._flying_bytes = 0
        self._ends = self._is_ended = False
        """Whether our end of the stream is on its way; whether the peer's has come."""
        self._error = 0
        self._resets_on_close = False
        network.loop.sockets[self.fd] = self

    # -- as a socket -------------------------------------------------------------------------------------

    def fileno(self) -> int:
        return -1 if self.is_closed else self.fd

    def setblocking(self, _flag: bool) -> None:
        """It never blocks."""

    def setsockopt(self, _level: int, option: int, _value: object) -> None:
        self._resets_on_close |= option == socket.SO_LINGER

    def getsockopt(self, _level: int, _option: int) -> int:
        error, self._error = self._error, 0
        return error

    def getsockname(self) -> tuple[str, int]:
        return _HOST, self._port

    def bind(self, address: tuple[str, int]) -> None:
        self._port = address[1]
        if self._port in self._network.listeners:
            raise OSError(errno.EADDRINUSE, "the port is taken")

    def listen(self, _backlog: int) -> None:
        self._network.listeners[self._port] = self

    def accept(self) -> "tuple[MemorySocket, tuple[str, int]]":
        if not self.backlog:
            raise BlockingIOError
        return self.backlog.popleft()

    def connect_ex(self, address: tuple[str, int]) -> int:
        self._network.dial(self, address[1])
        return errno.EINPROGRESS

    def send(self, data: Any) -> int:
        return self.sendmsg([data])

    def sendmsg(self, pieces: Sequence[Any], _ancillary: object = (), _flags: int = 0) -> int:
        self.raise_error()
        peer = self._peer
        if peer is None or peer.is_closed:
            raise BrokenPipeError(errno.EPIPE, "the peer is gone")
        room = _UNREAD_MAX_BYTES - self._flying_bytes - len(peer._unread)
        if room <= 0:
            raise BlockingIOError
        data = b"".join(pieces)[:room]
        self._flies()
        self._flying.append(data)
        self._flying_bytes += len(data)
        return len(data)

    def recv(self, size: int, flags: int = 0) -> bytes:
        if not self._unread:
            self.raise_error()
            if self._is_ended:
                return b""
            raise BlockingIOError
        data = bytes(self._unread[:size])
        if not flags & socket.MSG_PEEK:
            del self._unread[:size]
            if self._peer is not None:
                self._peer.watch()
        return data

    def recv_into(self, buffer: Any, size: int = 0) -> int:
        data = self.recv(size or len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def shutdown(self, _how: int) -> None:
        self.raise_error()
        if not self._ends and self._peer is not None:
            self._flies()
            self._ends = True

    def close(self) -> None:
        if self.is_closed:
            return
        if self._network.listeners.get(self._port) is self:
            del self._network.listeners[self._port]
        for waiting, _ in self.backlog:
            waiting.close()
        peer = self._peer
        if peer is not None and not self._error:
            if self._resets_on_close:
                self._network.later((self.node_id, peer.node_id), peer.fail, errno.ECONNRESET)
            elif not self._ends:
                self._flies()
                self._ends = True
        self.is_closed = True
        self.reader = self.writer = None
        self._network.ended(self)
        if peer is not None:
            self._network.ended(peer)
        del self._network.loop.sockets[self.fd]

    # -- what happens to it ------------------------------------------------------------------------------

    @property
    def unread_bytes(self) -> int:
        return len(self._unread)

    def raise_error(self) -> None:
        """Raises: OSError, once."""
        if self._error:
            raise OSError(self.getsockopt(0, 0), "the connection is broken")

    def connected(self, peer: "MemorySocket") -> None:
        self._peer = peer
        self.watch()

    def fail(self, code: int) -> None:
        """The stream is no more."""
        if not self.is_closed:
            self._error, self._is_ended = code, True
            self._unread.clear()
            self.watch()

    def _flies(self) -> None:
        """Something is about to be on its way, unless it is in the wake of what is."""
        if not self._flying and not self._ends:
            assert self._peer is not None
            self._network.later((self.node_id, self._peer.node_id), self._lands)

    def _lands(self) -> None:
        data, self._flying, self._flying_bytes = b"".join(self._flying), [], 0
        peer = self._peer
        assert peer is not None
        self._network.note(f"~ {self.fd}>{peer.fd} {len(data)} {zlib.crc32(data):08x}")
        if peer.is_closed:
            if data:
                self.fail(errno.ECONNRESET)
            return
        peer._unread += data
        peer._is_ended |= self._ends
        peer.watch()
        self.watch()

    def watch(self) -> None:
        reader, writer = self.reader, self.writer
        if reader is not None and not self._reading and (self._unread or self._is_ended or self.backlog):
            self._reading = True
            self._network.loop.again(Step(self._read, (), reader.context))
        if writer is not None and not self._writing and self._may_write():
            self._writing = True
            self._network.loop.again(Step(self._write, (), writer.context))

    def _may_write(self) -> bool:
        peer = self._peer
        if peer is None:
            return bool(self._error)
        return self._is_ended or self._flying_bytes + len(peer._unread) < _UNREAD_MAX_BYTES

    def _read(self) -> None:
        self._reading = False
        if self.reader is not None:
            self.reader.callback(*self.reader.args)
            self.watch()

    def _write(self) -> None:
        self._writing = False
        if self.writer is not None:
            self.writer.callback(*self.writer.args)
            self.watch()


class NodeNetwork:
    """What a node is given as its `runtime.network.Network`."""

    def __init__(self, network: Network, node_id: int) -> None:
        self._network = network
        self._node_id = node_id

    def stream_socket(self, _host: str) -> Any:
        return MemorySocket(self._network, self._node_id)

    async def open(self, host: str, port: int) -> Streams:
        loop, sock = self._network.loop, self.stream_socket(host)
        try:
            await loop.sock_connect(sock, (host, port))
        except BaseException:
            sock.close()
            raise
        reader = asyncio.StreamReader(loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        transport = StreamTransport(loop, sock, protocol)
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)

    def send_file(self, sock: Any, fd: int, position: int, size_bytes: int) -> int:
        sent: int = sock.send(os.pread(fd, size_bytes, position))
        return sent

    def unread_bytes(self, sock: Any) -> int:
        unread: int = sock.unread_bytes
        return unread


class StreamTransport(asyncio.Transport):
    """What asyncio's streams have below them."""

    def __init__(self, loop: VirtualLoop, sock: MemorySocket, protocol: asyncio.StreamReaderProtocol) -> None:
        super().__init__()
        self._loop = loop
        self._socket = sock
        self._protocol = protocol
        self._unsent = b""
        protocol.connection_made(self)
        loop.add_reader(sock, self._readable)

    def is_closing(self) -> bool:
        return self._socket.is_closed

    def pause_reading(self) -> None:
        self._loop.remove_reader(self._socket)

    def resume_reading(self) -> None:
        self._loop.add_reader(self._socket, self._readable)

    def write(self, data: Any) -> None:
        if self._unsent:
            self._unsent += data
            return
        self._send(bytes(data))

    def _send(self, data: bytes) -> None:
        if self._socket.is_closed:
            return
        try:
            sent = self._socket.send(data)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self._lost(error)
            return
        self._unsent = data[sent:]
        if self._unsent:
            self._loop.add_writer(self._socket, self._writable)

    def _writable(self) -> None:
        self._loop.remove_writer(self._socket)
        self._send(self._unsent)

    def _readable(self) -> None:
        try:
            data = self._socket.recv(_RECEIVE_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            self._lost(error)
            return
        if data:
            self._protocol.data_received(data)
            return
        self._loop.remove_reader(self._socket)
        if not self._protocol.eof_received():
            self.close()

    def close(self) -> None:
        if not self._socket.is_closed:
            self._lost(None)

    abort = close

    def _lost(self, error: OSError | None) -> None:
        self._socket.close()
        self._loop.call_soon(self._protocol.connection_lost, error)

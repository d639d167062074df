"""One client connection: raw non-blocking socket, one request in flight, nothing read while it is.

Frames that arrive whole are handled in the server's shared buffer without a copy; the rest is gathered in a
buffer of `ReceiveMemory`. The socket is left unread while a request is in flight, a reply is not yet taken
by the kernel, the channel is muted, or memory has run out.
"""

import asyncio
import socket
import struct
from typing import TYPE_CHECKING, Final

from broker.call import Call, Mute, ReplyPart
from broker.causes import CloseCause
from broker.memory import SMALL_BYTES
from broker.outbox import Outbox, PeerGone
from broker.sasl import PeerBroker, client_address, peer_broker

if TYPE_CHECKING:
    from broker.server import Server

_SIZE: Final = struct.Struct(">i")
_LARGE_FRAME_BYTES: Final = 128 * 1024
_LARGE_HEAD_BYTES: Final = 4096
_FRAMES_PER_TURN: Final = 32


class Connection:
    """The state of one connection. `Server` accepts it, sweeps its timers and dispatches its frames."""

    __slots__ = (
        "_buffer",
        "_end",
        "_expects_large",
        "_frame_ms",
        "_handling",
        "_mute",
        "_mute_timer",
        "_outbox",
        "_reader_on",
        "_server",
        "_socket",
        "_stalled_ms",
        "_start",
        "_turn_queued",
        "_writer_on",
        "call",
        "client_host",
        "connection_id",
        "expects_bare_token",
        "idle_ms",
        "is_authenticated",
        "is_closed",
        "peer_broker",
        "sasl_begun",
        "speaks_for_client",
    )

    def __init__(self, server: "Server", sock: socket.socket, connection_id: int, client_host: str) -> None:
        self._server = server
        self._socket = sock
        self._outbox = Outbox(sock)
        self.connection_id = connection_id
        self.client_host = client_host
        self.is_closed = False
        self.is_authenticated = server.config.secret is None
        self.sasl_begun = self.expects_bare_token = False
        self.speaks_for_client = False
        self.peer_broker: PeerBroker | None = None
        self.call: Call | None = None
        self.idle_ms = 0
        self._buffer: bytearray | None = None
        """Bytes received and not yet handled: `_start` to `_end`, beginning at a frame's length prefix."""
        self._start = self._end = 0
        self._expects_large = False
        self._frame_ms = self._stalled_ms = 0
        self._handling = False
        """Frames are being handled further up the stack: that loop goes on by itself."""
        self._mute: Mute | None = None
        self._mute_timer: asyncio.TimerHandle | None = None
        self._reader_on = self._writer_on = self._turn_queued = False

    # -- reading ---------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to read."""
        self._want_reader()

    @property
    def _may_read(self) -> bool:
        return self.call is None and not self._outbox and self._mute is None and not self.is_closed

    @property
    def is_sending(self) -> bool:
        """Whether a reply is not yet taken by the kernel."""
        return bool(self._outbox)

    def on_readable(self) -> None:
        """The socket has bytes or its end."""
        if not self._may_read or self._turn_queued:
            self._look_for_end()
            return
        try:
            if self._buffer is None:
                self._receive_fresh()
            else:
                self._receive_more()
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.close(CloseCause.CLIENT_RESET)

    def _look_for_end(self) -> None:
        """Not our turn to read: notice a closed peer, else stop listening until it is.

        A peer that has ended its stream behind requests that are still to be handled gets them handled.
        """
        try:
            if self._socket.recv(1, socket.MSG_PEEK) == b"" and self._buffer is None:
                self.close(CloseCause.CLIENT_CLOSED)
                return
            if self.peer_broker is not None:
                self._server.broker.replication.sessions.next_request_came(self.connection_id)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.close(CloseCause.CLIENT_RESET)
            return
        self._drop_reader()

    def _receive_fresh(self) -> None:
        server = self._server
        if server.memory.is_exhausted:
            self._wait_for_memory(holds_memory=False)
            return
        limit = server.config.receive_buffer_bytes
        if self._expects_large:
            limit = _LARGE_HEAD_BYTES
        elif server.memory.used_bytes >= server.memory.limit_bytes:
            limit = SMALL_BYTES
        received = self._socket.recv_into(server.shared, limit)
        if received == 0:
            self.close(CloseCause.CLIENT_CLOSED)
            return
        server.metrics.bytes_in += received
        used = self._handle_frames(server.shared_view, 0, received)
        if used < received and not self.is_closed:
            self._keep(server.shared_view[used:received])
            if self._expects_large and self._may_read:
                self._receive_more()  # only the head was taken: the rest is most likely here

    def _receive_more(self) -> None:
        """Receive the rest of the frame that `_buffer` begins with, and no byte of the next."""
        buffer = self._buffer
        assert buffer is not None
        wanted = self._wanted()
        if wanted > len(buffer) and self._end == len(buffer):
            larger = self._server.memory.grow(buffer, self._end, wanted, self)
            if larger is None:
                self._wait_for_memory(holds_memory=True)
                return
            self._buffer = buffer = larger
        with memoryview(buffer) as view, view[self._end : min(wanted, len(buffer))] as room:
            received = self._socket.recv_into(room)
        if received == 0:
            self.close(CloseCause.CLIENT_CLOSED)
            return
        self._server.metrics.bytes_in += received
        self._end += received
        self._stalled_ms = 0
        if self._end >= 4 and self._end >= self._wanted():
            self._handle_buffer()

    def _wanted(self) -> int:
        """Where the frame at the buffer's start ends; 4 while its length prefix is incomplete."""
        assert self._buffer is not None
        assert self._start == 0
        if self._end < 4:
            return 4
        return 4 + int(_SIZE.unpack_from(self._buffer, 0)[0])

    def _keep(self, rest: memoryview) -> None:
        """Copy unhandled bytes out of the shared buffer."""
        assert self._buffer is None
        wanted = 4 + int(_SIZE.unpack_from(rest, 0)[0]) if self._expects_large and len(rest) >= 4 else 0
        self._buffer = self._server.memory.take(len(rest), wanted)
        self._buffer[: len(rest)] = rest
        self._start, self._end = 0, len(rest)
        self._frame_ms = self._stalled_ms = 0

    def _handle_buffer(self) -> None:
        """Handle the whole frames of `_buffer`; give it back when nothing is left."""
        buffer = self._buffer
        assert buffer is not None
        with memoryview(buffer) as view:
            start = self._handle_frames(view, self._start, self._end)
        if self.is_closed:
            return
        assert self._buffer is buffer
        if start == self._end:
            self._buffer = None
            self._start = self._end = 0
            self._server.memory.give_back(buffer, self)
        elif start > 0:
            buffer[: self._end - start] = buffer[start : self._end]
            self._start, self._end = 0, self._end - start
            self._frame_ms = self._stalled_ms = 0

    def _handle_frames(self, view: memoryview, start: int, end: int) -> int:
        """Handle whole frames while nothing is in flight; returns where the unhandled bytes begin."""
        handled = 0
        self._handling = True
        while end - start >= 4 and self._may_read:
            size = int(_SIZE.unpack_from(view, start)[0])
            fault = self._server.frame_size_fault(self, size)
            if fault is not None:
                self.close(fault)
                break
            if end - start < 4 + size:
                break
            if handled == _FRAMES_PER_TURN:
                self._queue_turn()
                break
            handled += 1
            self._expects_large = size > _LARGE_FRAME_BYTES
            self.idle_ms = 0
            self._server.dispatch(self, view[start + 4 : start + 4 + size])
            start += 4 + size
        self._handling = False
        return start

    def _wait_for_memory(self, *, holds_memory: bool) -> None:
        self._drop_reader()
        self._server.memory.wait(self, self._resume, holds_memory=holds_memory)

    # -- replying --------------------------------------------------------------------------------------

    def send_reply(self, call: Call, parts: list[ReplyPart], mute: Mute | None) -> None:
        """Send a reply; then keep the channel unread while `mute` says so."""
        if self.is_closed:
            return
        assert self.call is call, "a reply to a call that is not in flight"
        before = self._outbox.sent_bytes
        try:
            done = self._outbox.send(parts)
        except PeerGone:
            self.close(CloseCause.CLIENT_RESET)
            return
        self._server.metrics.bytes_out += self._outbox.sent_bytes - before
        self._finish(mute)
        if not done:
            self._want_writer()

    def send_bare(self, part: bytes) -> None:
        """Send a few bytes that answer no call: a fresh connection's socket buffer takes them."""
        try:
            done = self._outbox.send([part])
        except PeerGone:
            self.close(CloseCause.CLIENT_RESET)
            return
        if not done:
            self._want_writer()

    def no_reply(self, call: Call, mute: Mute | None) -> None:
        """The call is done without a reply."""
        if not self.is_closed:
            assert self.call is call, "the end of a call that is not in flight"
            self._finish(mute)

    def _finish(self, mute: Mute | None) -> None:
        call = self.call
        assert call is not None
        self.call = None
        self._server.call_done(call)
        if mute is not None:
            self._mute = mute
            self.check_mute()
        self._resume()

    def on_writable(self) -> None:
        """The kernel takes more bytes."""
        before = self._outbox.sent_bytes
        try:
            done = self._outbox.flush()
        except PeerGone:
            self.close(CloseCause.CLIENT_RESET)
            return
        self._server.metrics.bytes_out += self._outbox.sent_bytes - before
        self.idle_ms = 0
        if done:
            self._drop_writer()
            self._resume()

    # -- pausing and resuming ----------------------------------------------------------------------------

    def check_mute(self) -> None:
        """Ask again how long the channel stays muted: a timer ended, or rates have changed."""
        if self._mute is None or self.is_closed:
            return
        self._server.cancel_timer(self._mute_timer)
        self._mute_timer = None
        remaining_ms = self._mute(self._server.now_ms())
        if remaining_ms > 0:
            self._mute_timer = self._server.call_later(remaining_ms, self.check_mute)
            self._server.muted.add(self)
            return
        self._mute = None
        self._server.muted.discard(self)
        self._resume()

    def _resume(self) -> None:
        """Go on reading if nothing stands against it; frames that are already here come first."""
        if not self._may_read or self._handling:
            return
        self._want_reader()
        if self._end - self._start >= 4:
            self._queue_turn()

    def _queue_turn(self) -> None:
        if not self._turn_queued:
            self._turn_queued = True
            self._server.call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._turn_queued = False
        if self._may_read and self._buffer is not None:
            self._handle_buffer()
        if self._may_read:
            self._want_reader()

    # -- authentication ------------------------------------------------------------------------------------

    def begin_sasl(self, *, bare_token: bool) -> None:
        """A mechanism was agreed on; after SaslHandshake v0 the token comes as a bare frame."""
        self.sasl_begun = True
        self.expects_bare_token = bare_token

    def authenticated(self, authorization_id: str) -> None:
        """The peer proved the secret; a broker says who it is, a gateway whom it speaks for."""
        self.is_authenticated = True
        self.peer_broker = peer_broker(authorization_id)
        address = client_address(authorization_id)
        self.speaks_for_client = address is not None
        self.client_host = address or self.client_host

    # -- timers and the end ------------------------------------------------------------------------------

    def tick(self, elapsed_ms: int) -> CloseCause | None:
        """Time has passed: why the connection must close now, if it must. Unread channels are never slow."""
        config = self._server.config
        self.idle_ms += elapsed_ms
        if self._outbox:
            return CloseCause.REPLY_NOT_READ if self.idle_ms > config.connections_max_idle_ms else None
        if not self._may_read or not self._reader_on:
            self.idle_ms = 0
            return None
        if self._buffer is not None:
            self._frame_ms += elapsed_ms
            self._stalled_ms += elapsed_ms
            if self._stalled_ms > config.frame_progress_timeout_ms:
                return CloseCause.FRAME_STALLED
            earned_ms = self._end * 1000 // config.frame_rate_min_bytes_per_s
            if self._frame_ms > config.frame_progress_timeout_ms + earned_ms:
                return CloseCause.FRAME_TOO_SLOW
        if not self.is_authenticated and self.idle_ms > config.auth_timeout_ms:
            return CloseCause.AUTHENTICATION_TIMEOUT
        return CloseCause.IDLE if self.idle_ms > config.connections_max_idle_ms else None

    def close(self, cause: CloseCause) -> None:
        """Close now; queued replies are dropped. Closing again does nothing."""
        if self.is_closed:
            return
        self.is_closed = True
        self._drop_reader()
        self._drop_writer()
        self._server.cancel_timer(self._mute_timer)
        self._server.muted.discard(self)
        self._outbox.clear()
        if self._buffer is not None:
            buffer, self._buffer = self._buffer, None
            self._server.memory.give_back(buffer, self)
        self._server.memory.forget(self)
        self._server.connection_closed(self, cause)  # counted before the peer can know
        self._socket.close()

    def _want_reader(self) -> None:
        if not self._reader_on and not self.is_closed:
            self._reader_on = True
            self._server.loop.add_reader(self._socket, self.on_readable)

    def _drop_reader(self) -> None:
        if self._reader_on:
            self._reader_on = False
            self._server.loop.remove_reader(self._socket)

    def _want_writer(self) -> None:
        if not self._writer_on and not self.is_closed:
            self._writer_on = True
            self._server.loop.add_writer(self._socket, self.on_writable)

    def _drop_writer(self) -> None:
        if self._writer_on:
            self._writer_on = False
            self._server.loop.remove_writer(self._socket)

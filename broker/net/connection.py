"""One client connection: raw non-blocking socket, one request handled at a time, nothing read while it is.

Frames that arrive whole are handled in the server's shared buffer, the rest is gathered in `ReceiveMemory`.
The socket is left unread while a request is in flight, a reply not taken, the channel muted, memory used up.
"""

import asyncio
import socket
import struct
from functools import partial
from time import monotonic_ns
from typing import Final

from broker.net.connection_host import Host
from broker.net.reply_queue import PeerGone, ReplyQueue
from broker.net.rules.memory import SMALL_BYTES, Lack
from broker.net.rules.pending_replies import PendingReplies
from broker.net.rules.slow_frames import slow_frame
from broker.net.socket_watch import SocketWatch
from broker.requests.apis import CHARGED
from broker.requests.call import Call, Ready, ReplyPart
from broker.requests.causes import CloseCause
from broker.requests.payer import Payer
from broker.requests.sasl import PeerBroker, client_of, peer_broker
from broker.requests.throttling import Mute
from contracts.tracing import TraceContext
from traffic.turns import Turn

FRAME_BYTES_MIN: Final = 8
"""API key, version, correlation id."""
_SIZE: Final = struct.Struct(">i")
_API_KEY: Final = struct.Struct(">h")
_KEYED_BYTES: Final = 6
"""Length prefix and API key."""
STALLED_MS_MIN: Final = 2_500
"""Of a frame that may be given up when memory is short. Counted in ticks of a second, the first of which may
have been shorter."""
_LARGE_FRAME_BYTES: Final = 128 * 1024
_LARGE_HEAD_BYTES: Final = 4096
_FRAMES_PER_TURN: Final = 32
_PENDING_MAX: Final = 16
"""So many requests of a client may wait for their commit; then its next one is not read."""


class Connection:
    """The state of one connection. `Server` accepts it, sweeps its timers and dispatches its frames."""

    __slots__ = (
        "_awaits_turn",
        "_buffer",
        "_end",
        "_expects_large",
        "_frame_ms",
        "_handling",
        "_held",
        "_more_behind",
        "_mute",
        "_mute_timer",
        "_pending",
        "_replies",
        "_server",
        "_share",
        "_socket",
        "_stalled_ms",
        "_start",
        "_turn_queued",
        "_watch",
        "accept_ns",
        "call",
        "client_host",
        "connection_id",
        "expects_bare_token",
        "idle_ms",
        "is_authenticated",
        "is_closed",
        "payer",
        "peer_broker",
        "sasl_begun",
        "speaks_for_client",
        "traced",
        "turn",
        "waiting_since_ns",
    )

    def __init__(
        self, server: "Host[Connection]", sock: socket.socket, connection_id: int, client_host: str
    ) -> None:
        self._server = server
        self._socket = sock
        self._replies = ReplyQueue(sock, server.network)
        self._pending = PendingReplies()
        self.connection_id = connection_id
        self.client_host = client_host
        self.is_closed = False
        self.is_authenticated = server.config.secret is None
        self.sasl_begun = self.expects_bare_token = self.speaks_for_client = False
        self.peer_broker: PeerBroker | None = None
        self.payer: Payer | None = None
        self.call: Call | None = None
        self.idle_ms = 0
        self._buffer: bytearray | None = None
        """Bytes received and not yet handled: `_start` to `_end`, beginning at a frame's length prefix."""
        self._start = self._end = 0
        self._share = ""
        """Whose receive memory our buffers are."""
        self._expects_large = False
        self._frame_ms = self._stalled_ms = 0
        self._handling = self._more_behind = False
        """Frames are handled further up the stack, by a loop that goes on by itself; more are here."""
        self._held: bytearray | None = None
        """Holds the frame of the call that is being handled; may be `_buffer`."""
        self._mute: Mute | None = None
        self._mute_timer: asyncio.TimerHandle | None = None
        self._turn_queued = False
        self.turn: Turn | None = None
        """Of the instance that pays, on the loop."""
        self._awaits_turn = False
        """Nothing is read until then."""
        self.waiting_since_ns = 0
        """Since when what is here waits for the instance's turn or for what it owes; 0: it does not."""
        self.traced: TraceContext | None = None
        self.accept_ns = 0
        """What accepting it has cost, for who turns out to pay."""
        self._watch = SocketWatch(server.loop, sock, self.on_readable, self.on_writable)

    # -- reading ---------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to read."""
        self._watch.start_reading()

    @property
    def _may_read(self) -> bool:
        return (
            self.call is None
            and not self._replies.parts
            and self._mute is None
            and not self._awaits_turn
            and len(self._pending.calls) < _PENDING_MAX
            and not self.is_closed
        )

    @property
    def is_idle(self) -> bool:
        """Whether every request has its reply, and the kernel has taken it."""
        return self.call is None and not self._pending and not self._replies

    def on_readable(self) -> None:
        """The socket has bytes or its end."""
        if not self._may_read or self._turn_queued:
            self._look_for_end()
            return
        turn = self.turn
        if turn is not None:
            if turn.may_begin or self._server.time.may_begin(turn):
                self._server.time.step(turn, self._receive)
            else:
                self._wait_for_turn(turn)
        elif self.is_authenticated:
            self._receive()  # a broker, or a tool of ours
        else:
            self._server.time.step_of_stranger(self, self._receive)

    def _receive(self) -> None:
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
                self._server.next_request_came(self.connection_id)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.close(CloseCause.CLIENT_RESET)
            return
        self._watch.stop_reading()

    def _receive_fresh(self) -> None:
        server = self._server
        is_any_held = server.memory.used_bytes > 0
        if is_any_held and server.memory.is_exhausted(self._share):
            self._wait_for_memory(server.memory.lack, holds_memory=False)
            return
        limit = server.config.receive_buffer_bytes
        if self._expects_large or not self.is_authenticated or (self.payer is not None and self.payer.is_new):
            limit = _LARGE_HEAD_BYTES  # the rest of a first frame may have to wait in the kernel
        elif is_any_held and server.memory.is_short(self._share):
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
            larger = self._server.memory.grow(buffer, self._end, wanted, self, self._share)
            if isinstance(larger, Lack):
                self._wait_for_memory(larger, holds_memory=True)
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
        self._buffer = self._server.memory.take(len(rest), self._share, wanted)
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
        if self._held is buffer:
            with memoryview(buffer) as view:
                end, self._buffer = self._end, None
                self._start = self._end = 0
                if start < end:
                    self._keep(view[start:end])
        elif start == self._end:
            self._buffer = None
            self._start = self._end = 0
            self._server.memory.give_back(buffer, self, self._share)
        elif start > 0:
            buffer[: self._end - start] = buffer[start : self._end]
            self._start, self._end = 0, self._end - start
            self._frame_ms = self._stalled_ms = 0

    def _handle_frames(self, view: memoryview, start: int, end: int) -> int:
        """Handle whole frames while nothing is in flight; returns where the unhandled bytes begin."""
        handled = 0
        self._handling = True
        while end - start >= 4 and (not handled or self._may_read):
            (size,) = _SIZE.unpack_from(view, start)
            if not FRAME_BYTES_MIN <= size <= self._server.frame_bytes_always:
                fault = self._server.frame_size_fault(self, size)
                if fault is not None:
                    self.close(fault)
                    break
            payer = self.payer  # the login may have been the frame before
            if (
                payer is not None
                and end - start >= _KEYED_BYTES
                and (api_key := _API_KEY.unpack_from(view, start + 4)[0]) != payer.paid_key
                and not self._is_admitted(payer, api_key, 4 + size)
            ):
                break
            if end - start < 4 + size:
                break
            if handled and (handled == _FRAMES_PER_TURN or self._is_turn_over()):
                self._queue_turn()
                break
            handled += 1
            self._expects_large = size > _LARGE_FRAME_BYTES
            self.idle_ms = 0
            self._more_behind = end - start > 4 + size
            self._server.dispatch(self, view[start + 4 : start + 4 + size])
            start += 4 + size
        self._handling = self._more_behind = False
        if self._replies.collected:
            self._transmit([])
        return start

    def _is_turn_over(self) -> bool:
        """Whether this turn's frames have used it up: an answer may take a millisecond, and others wait."""
        return self.turn is not None and self._server.time.is_over(self.turn)

    def _is_admitted(self, payer: Payer, api_key: int, frame_bytes: int) -> bool:
        """Whether more of the frame may be read: the first of its kind waits for what is owed before it."""
        charged = CHARGED.get(api_key)
        if charged is None:
            return True
        self._mute = payer.admit(charged, frame_bytes, self._server.now_ms())
        if self._mute is not None:
            self.waiting_since_ns = self.waiting_since_ns or monotonic_ns()
            self.check_mute()
            return self._mute is None
        payer.paid_key = api_key
        return True

    def _wait_for_memory(self, lack: Lack, *, holds_memory: bool) -> None:
        self._watch.stop_reading()
        self._server.memory.wait(self, self._resume, lack, self._share, holds_memory=holds_memory)
        if lack is Lack.BUDGET:
            self._server.make_room()

    @property
    def stalled_bytes(self) -> int:
        """What a frame holds of which nothing has come for a while, although we would have read it."""
        if self._buffer is None or self._stalled_ms < STALLED_MS_MIN or not self._watch.reads:
            return 0
        return len(self._buffer)

    @property
    def share(self) -> str:
        """Whose receive memory our buffers are: the instance's that pays for the connection."""
        return self._share

    # -- replying --------------------------------------------------------------------------------------

    def hold_frame(self, call: Call) -> memoryview:
        """Keep the frame that is being handled; what was received in the shared buffer is copied."""
        assert self.call is call and self._held is None
        frame: memoryview = call.request
        if self._buffer is not None:
            self._held = self._buffer
            return frame
        size = len(frame)
        self._held = self._server.memory.take(size, self._share)
        self._held[:size] = frame
        return memoryview(self._held)[:size]

    def _let_go(self) -> None:
        """The frame is not needed any more. While it is being handled, `_handle_buffer` gives it back."""
        held, self._held = self._held, None
        if held is not None and held is not self._buffer:
            self._server.memory.give_back(held, self, self._share)

    def release(self, call: Call) -> None:
        """Only the reply is outstanding: the next request may be handled, its reply leaves after this one."""
        assert self.call is call, "a call is released once, while it is in flight"
        self._pending.add(call)
        self.call = None
        self._let_go()
        self._resume()

    def reply(self, call: Call, reply: Ready) -> None:
        """Send a reply when its turn has come; then keep the channel unread while its mute says so."""
        if self.is_closed:
            return
        if self.turn is not None and not self._server.time.is_stepping:
            self._server.time.step(self.turn, partial(self.reply, call, reply))
            return
        if self.call is call:
            self.call = None
            if self._held is not None:
                self._let_go()
        if not self._pending.calls:
            self._send(call, reply)
            return
        self._pending.put(call, reply)
        while (ready := self._pending.take()) is not None and not self.is_closed:
            self._send(*ready)

    def request_throttle_ms(self) -> int:
        """How long the instance waits for what it owes in request time, as an answer says it."""
        turn, time = self.turn, self._server.time
        return time.throttle_ms(turn) if turn is not None and time.held else 0

    def told_throttle(self, api_key: int, throttle_time_ms: int) -> None:
        """An answer tells the client to slow down."""
        self._server.metrics.told_throttle_ms[api_key] += throttle_time_ms

    def _send(self, call: Call, reply: Ready) -> None:
        if reply.parts is not None:
            self._transmit(reply.parts)
            if self.is_closed:
                return
        self._server.call_done(call)
        if reply.mute is not None:
            self._mute = reply.mute
            self.check_mute()
        self._resume()

    def send_bare(self, part: bytes) -> None:
        """Send a few bytes that answer no call: a fresh connection's socket buffer takes them."""
        self._transmit([part])

    def _transmit(self, parts: list[ReplyPart]) -> None:
        if self._more_behind and len(parts) == 1 and self._replies.collect(parts[0]):
            return
        before = self._replies.sent_bytes
        try:
            done = self._replies.send(parts)
        except PeerGone:
            self.close(CloseCause.CLIENT_RESET)
            return
        self._server.metrics.bytes_out += self._replies.sent_bytes - before
        if not done:
            self._watch.start_writing()

    def on_writable(self) -> None:
        """The kernel takes more bytes."""
        turn = self.turn
        if turn is None or turn.may_go_on:
            self._server.time.go_on(turn, self._flush)
        else:
            self._watch.stop_writing()
            self._server.time.go_on(turn, self._flush_in_turn)

    def _flush_in_turn(self) -> None:
        if not self.is_closed and self._replies:
            self._watch.start_writing()
            self._flush()

    def _flush(self) -> None:
        self._transmit([])
        self.idle_ms = 0
        if not self._replies and not self.is_closed:
            self._watch.stop_writing()
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
        if self._handling or not self._may_read:
            return
        self._watch.start_reading()
        if self._end - self._start >= 4:
            self._queue_turn()

    def _queue_turn(self) -> None:
        if not self._turn_queued:
            self._turn_queued = True
            self._server.call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._turn_queued = False
        turn = self.turn
        if turn is None:
            self._go_through()
        elif not self._may_read:
            return
        elif turn.may_begin or self._server.time.may_begin(turn):
            self._server.time.step(turn, self._go_through)
        else:
            self._wait_for_turn(turn)

    def _go_through(self) -> None:
        """Handle what is in the buffer, then read on."""
        if self._may_read and self._buffer is not None:
            self._handle_buffer()
        if self._may_read:
            self.waiting_since_ns = 0  # nothing whole is here any more
            self._watch.start_reading()

    def _wait_for_turn(self, turn: Turn) -> None:
        self._awaits_turn = True
        self.waiting_since_ns = self.waiting_since_ns or monotonic_ns()
        self._watch.stop_reading()
        self._server.time.wait(turn, self._turn_comes, begins=True)

    def _turn_comes(self) -> None:
        self._awaits_turn = False
        if self.is_closed:
            return
        if self._may_read and self._buffer is None:
            self._receive()
        self._go_through()

    # -- authentication ------------------------------------------------------------------------------------

    def begin_sasl(self, *, bare_token: bool) -> None:
        """A mechanism was agreed on; after SaslHandshake v0 the token comes as a bare frame."""
        self.sasl_begun = True
        self.expects_bare_token = bare_token

    def authenticated(self, authorization_id: str) -> None:
        """The peer proved the secret; a broker says who it is, a gateway whom it speaks for."""
        self.is_authenticated = True
        self.peer_broker = peer_broker(authorization_id)
        client = client_of(authorization_id)
        if client is None:
            return
        self.speaks_for_client = True
        self.client_host = client.address
        if client.instance_id is not None:
            self._server.begin_paying(self, client.instance_id)
            if self._buffer is not None:
                self._server.memory.move(self._buffer, self._share, client.instance_id)
            self._share = client.instance_id
            if self.turn is not None and not self._server.time.may_begin(self.turn):
                self._wait_for_turn(self.turn)

    # -- timers and the end ------------------------------------------------------------------------------

    def tick(self, elapsed_ms: int) -> CloseCause | None:
        """Time has passed: why the connection must close now, if it must. Unread channels are never slow."""
        config = self._server.config
        self.idle_ms += elapsed_ms
        if self._replies:
            return CloseCause.REPLY_NOT_READ if self.idle_ms > config.connections_max_idle_ms else None
        if not self._may_read or not self._watch.reads:
            self.idle_ms = 0
            return None
        if self._buffer is not None:
            self._frame_ms += elapsed_ms
            self._stalled_ms += elapsed_ms
            wanted = self._wanted() if self._start == 0 else self._end
            fault = slow_frame(config, self._frame_ms, self._stalled_ms, self._end, wanted)
            if fault is not None:
                return fault
        if not self.is_authenticated and self.idle_ms > config.auth_timeout_ms:
            return CloseCause.AUTHENTICATION_TIMEOUT
        return CloseCause.IDLE if self.idle_ms > config.connections_max_idle_ms else None

    def close(self, cause: CloseCause) -> None:
        """Close now; queued replies are dropped. Closing again does nothing."""
        if self._replies.collected:
            self._transmit([])  # which may find that the peer is gone
        if self.is_closed:
            return
        self.is_closed = True
        for call in (self.call, *self._pending.calls):
            if call is not None and call.trace is not None:
                call.trace.cut(cause)
        if self.payer is not None:
            self._pay_for_rest(self.payer, cause)
        self._watch.stop_reading()
        self._watch.stop_writing()
        self._server.cancel_timer(self._mute_timer)
        self._server.muted.discard(self)
        self._replies.clear()
        if self._buffer is not None:
            buffer, self._buffer = self._buffer, None
            if self._held is buffer:
                self._held = None
            self._server.memory.give_back(buffer, self, self._share)
        self._let_go()
        self._server.memory.forget(self, self._share)
        self._server.connection_closed(self, cause)  # counted before the peer can know
        self._socket.close()

    def _pay_for_rest(self, payer: Payer, cause: CloseCause) -> None:
        """The frame that was being read will never be whole: what came of it is charged all the same."""
        charged = None
        received = 0
        if self._buffer is not None and not self._handling and self._end - self._start >= _KEYED_BYTES:
            charged = CHARGED.get(_API_KEY.unpack_from(self._buffer, self._start + 4)[0])
            received = self._end - self._start
        if charged is not None:
            received += self._server.network.unread_bytes(self._socket)
            payer.cut(charged, received, str(cause), self._server.now_ms())
        else:
            payer.withdraw(self._server.now_ms())

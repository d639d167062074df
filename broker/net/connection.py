"""The host of a session: a raw non-blocking socket, its buffers, the instance's turns.

Frames that arrive whole are handled in the server's shared buffer, the rest is gathered in `ReceiveMemory`.
The socket is left unread while the session takes nothing, and while memory is used up.
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
from broker.net.session import FIRST_OF_KIND, INCOMPLETE, FrameFault, Session
from broker.net.socket_watch import SocketWatch
from broker.requests.call import Call, Ready, ReplyPart
from broker.requests.causes import CloseCause
from broker.requests.login import Login
from contracts.tracing import TraceContext
from traffic.turns import Turn

_SIZE: Final = struct.Struct(">i")
STALLED_MS_MIN: Final = 2_500
"""Of a frame that may be given up when memory is short. Counted in ticks of a second, the first of which may
have been shorter."""
_LARGE_FRAME_BYTES: Final = 128 * 1024
_LARGE_HEAD_BYTES: Final = 4096
_FRAMES_PER_TURN: Final = 32


class Connection:
    """The state of one connection. `Server` accepts it, sweeps its timers and dispatches its frames."""

    __slots__ = (
        "_buffer",
        "_end",
        "_expects_large",
        "_handling",
        "_held",
        "_more_behind",
        "_mute_timer",
        "_replies",
        "_server",
        "_share",
        "_socket",
        "_start",
        "_turn_queued",
        "_watch",
        "accept_ns",
        "connection_id",
        "is_closed",
        "login",
        "session",
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
        self.session = Session(server.config, client_host)
        self.login: Login = self.session.login
        self.connection_id = connection_id
        self.is_closed = False
        self._buffer: bytearray | None = None
        """Bytes received and not yet handled: `_start` to `_end`, beginning at a frame's length prefix."""
        self._start = self._end = 0
        self._share = ""
        """Whose receive memory our buffers are."""
        self._expects_large = False
        self._handling = self._more_behind = False
        """Frames are handled further up the stack, by a loop that goes on by itself; more are here."""
        self._held: bytearray | None = None
        """Holds the frame of the call that is being handled; may be `_buffer`."""
        self._mute_timer: asyncio.TimerHandle | None = None
        self._turn_queued = False
        self.turn: Turn | None = None
        """Of the instance that pays, on the loop."""
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

    def on_readable(self) -> None:
        """The socket has bytes or its end."""
        if not self.session.takes or self._turn_queued:
            self._look_for_end()
            return
        turn = self.turn
        if turn is not None:
            if turn.may_begin or self._server.time.may_begin(turn):
                self._server.time.step(turn, self._receive)
            else:
                self._wait_for_turn(turn)
        elif self.login.is_open:
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
            if self.login.peer_broker is not None:
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
        login = self.login
        if self._expects_large or not login.is_open or (login.payer is not None and login.payer.is_new):
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
            if self._expects_large and self.session.takes:
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
        self.session.stalled_ms = 0
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
        self.session.frame_begins()

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
            self.session.frame_begins()

    def _handle_frames(self, view: memoryview, start: int, end: int) -> int:
        """Handle whole frames while nothing is in flight; returns where the unhandled bytes begin."""
        handled = 0
        session, server = self.session, self._server
        self._handling = True
        try:
            while start < end and (not handled or session.takes):
                behind = session.next_frame(view, start, end)
                if behind == FIRST_OF_KIND:
                    self._admit(view, start)
                    if session.mute is not None:
                        break
                    continue
                if behind == INCOMPLETE:
                    break
                if handled and (handled == _FRAMES_PER_TURN or self._is_turn_over()):
                    self._queue_turn()
                    break
                handled += 1
                self._expects_large = behind - start > _LARGE_FRAME_BYTES
                session.idle_ms = 0
                self._more_behind = end > behind
                server.dispatch(self, view[start + 4 : behind])
                start = behind
        except FrameFault as fault:
            self.close(fault.cause)
        self._handling = self._more_behind = False
        if self._replies.collected:
            self._transmit([])
        return start

    def _is_turn_over(self) -> bool:
        """Whether this turn's frames have used it up: an answer may take a millisecond, and others wait."""
        return self.turn is not None and self._server.time.is_over(self.turn)

    def _admit(self, view: memoryview, at: int) -> None:
        self.session.admit(view, at, self._server.now_ms())
        if self.session.mute is not None:
            self.waiting_since_ns = self.waiting_since_ns or monotonic_ns()
            self.check_mute()

    def _wait_for_memory(self, lack: Lack, *, holds_memory: bool) -> None:
        self._watch.stop_reading()
        self._server.memory.wait(self, self._resume, lack, self._share, holds_memory=holds_memory)
        if lack is Lack.BUDGET:
            self._server.make_room()

    @property
    def stalled_bytes(self) -> int:
        """What a frame holds of which nothing has come for a while, although we would have read it."""
        if self._buffer is None or self.session.stalled_ms < STALLED_MS_MIN or not self._watch.reads:
            return 0
        return len(self._buffer)

    @property
    def share(self) -> str:
        """Whose receive memory our buffers are: the instance's that pays for the connection."""
        return self._share

    # -- replying --------------------------------------------------------------------------------------

    def hold_frame(self, call: Call) -> memoryview:
        """Keep the frame that is being handled; what was received in the shared buffer is copied."""
        assert self.session.call is call and self._held is None
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
        self.session.release(call)
        self._let_go()
        self._resume()

    def reply(self, call: Call, reply: Ready) -> None:
        """Send a reply when its turn has come; then keep the channel unread while its mute says so."""
        if self.is_closed:
            return
        if self.turn is not None and not self._server.time.is_stepping:
            self._server.time.step(self.turn, partial(self.reply, call, reply))
            return
        session = self.session
        if self._held is not None and session.call is call:
            self._let_go()
        if session.answered(call, reply):
            self._send(call, reply)
            return
        while (ready := session.pending.take()) is not None and not self.is_closed:
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
            self.session.mute = reply.mute
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
        self.session.is_congested = not done
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
        self.session.idle_ms = 0
        if not self._replies and not self.is_closed:
            self._watch.stop_writing()
            self._resume()

    # -- pausing and resuming ----------------------------------------------------------------------------

    def check_mute(self) -> None:
        """Ask again how long the channel stays muted: a timer ended, or rates have changed."""
        session = self.session
        if session.mute is None or self.is_closed:
            return
        self._server.cancel_timer(self._mute_timer)
        self._mute_timer = None
        remaining_ms = session.muted_ms(self._server.now_ms())
        if remaining_ms > 0:
            self._mute_timer = self._server.call_later(remaining_ms, self.check_mute)
            self._server.muted.add(self)
            return
        self._server.muted.discard(self)
        self._resume()

    def _resume(self) -> None:
        """Go on reading if nothing stands against it; frames that are already here come first."""
        if self._handling or not self.session.takes:
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
        elif not self.session.takes:
            return
        elif turn.may_begin or self._server.time.may_begin(turn):
            self._server.time.step(turn, self._go_through)
        else:
            self._wait_for_turn(turn)

    def _go_through(self) -> None:
        """Handle what is in the buffer, then read on."""
        if self.session.takes and self._buffer is not None:
            self._handle_buffer()
        if self.session.takes:
            self.waiting_since_ns = 0  # nothing whole is here any more
            self._watch.start_reading()

    def _wait_for_turn(self, turn: Turn) -> None:
        self.session.awaits_turn = True
        self.waiting_since_ns = self.waiting_since_ns or monotonic_ns()
        self._watch.stop_reading()
        self._server.time.wait(turn, self._turn_comes, begins=True)

    def _turn_comes(self) -> None:
        self.session.awaits_turn = False
        if self.is_closed:
            return
        if self.session.takes and self._buffer is None:
            self._receive()
        self._go_through()

    def authenticated(self, authorization_id: str) -> None:
        """The peer proved the secret: who it speaks for pays from now on."""
        instance_id = self.login.logs_in(authorization_id)
        if instance_id is None:
            return
        self._server.begin_paying(self, instance_id)
        if self._buffer is not None:
            self._server.memory.move(self._buffer, self._share, instance_id)
        self._share = instance_id
        if self.turn is not None and not self._server.time.may_begin(self.turn):
            self._wait_for_turn(self.turn)

    # -- timers and the end ------------------------------------------------------------------------------

    def tick(self, elapsed_ms: int) -> CloseCause | None:
        """Time has passed: why the connection must close now, if it must."""
        received = None
        if self._buffer is not None:
            received = self._end, self._wanted() if self._start == 0 else self._end
        return self.session.tick(elapsed_ms, received, reads=self._watch.reads)

    def close(self, cause: CloseCause) -> None:
        """Close now; queued replies are dropped. Closing again does nothing."""
        if self._replies.collected:
            self._transmit([])  # which may find that the peer is gone
        if self.is_closed:
            return
        self.is_closed = True
        unread_bytes = partial(self._server.network.unread_bytes, self._socket)
        rest = memoryview(b"" if self._buffer is None or self._handling else self._buffer)
        self.session.ends(cause, rest[self._start : self._end], unread_bytes, self._server.now_ms())
        rest.release()
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
